"""Syntax that the oldest supported Python does not have: its nodes are looked at by name, where there are any."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.frame import FALLS
from rulvar_lint.core.values import Unknown, merge_taint

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.values import Value


def eval_template(f: Frame, node: Any) -> Value | None:
    """A template string: unlike an f-string it keeps the values themselves."""
    taint = None
    for part in node.values:
        if isinstance(part, ast.Constant):
            continue
        value = f.ev[part.value.__class__](f, part.value)
        if part.format_spec is not None:
            f.ev[part.format_spec.__class__](f, part.format_spec)
        if value is not None:
            taint = merge_taint(taint, value.taint)
    return None if taint is None else Unknown(taint)


def eval_unknown(f: Frame, node: ast.AST) -> Value | None:
    """An expression that nobody knows yet: only its parts are looked at."""
    for child in _expressions(node):
        f.ev[child.__class__](f, child)
    return None


def exec_unknown(f: Frame, node: ast.AST) -> int:
    """A statement that nobody knows yet: only its parts are looked at, and it falls through."""
    eval_unknown(f, node)
    return FALLS


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        else:
            yield from _expressions(child)


def _classes(base: type[ast.AST]) -> Iterator[type[ast.AST]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _classes(cls)


EXPRESSIONS: Final[dict[type, Callable[[Frame, Any], Value | None]]] = {
    **dict.fromkeys(_classes(ast.expr), eval_unknown),
    **{getattr(ast, name): eval_template for name in ("TemplateStr",) if hasattr(ast, name)},
}
STATEMENTS: Final[dict[type, Callable[[Frame, Any], int]]] = dict.fromkeys(_classes(ast.stmt), exec_unknown)
