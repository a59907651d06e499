"""Copies of values: changing one does not change the original."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.values import Container, Dict, Inst, Seq, Set, Star, Union, Unknown, Value

if TYPE_CHECKING:
    import ast

    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.values import Ext

MAX_DEPTH: Final = 20


def copied(f: Frame, value: Value | None) -> Value | None:
    """A copy of a value that holds the same values."""
    if isinstance(value, Seq):
        made: Container = f.new_seq(
            value.kind, None if value.items is None else list(value.items), value.elem
        )
    elif isinstance(value, Dict):
        made = f.new_dict(dict(value.entries), value.elem)
    elif isinstance(value, Set):
        made = f.new_set(value.elem, value.stable)
    elif isinstance(value, Inst):
        clone = Inst(value.decl, "local", f.step, f.m.tick)
        clone.attrs = dict(value.attrs)
        return clone
    elif isinstance(value, Unknown):
        return Unknown(value.taint) if value.taint is not None else None
    else:
        return value
    made.order = value.order
    return made


def deep_copied(f: Frame, value: Value | None) -> Value | None:
    """A copy of a value and of all that it holds; what lies too deep is not known."""
    return _deep(f, value, {}, 0)


def _deep(f: Frame, value: Value | None, made: dict[Value, Value | None], depth: int) -> Value | None:
    if value is None or depth > MAX_DEPTH:
        return None
    if value in made:
        return made[value]
    found: Value | None = None
    if isinstance(value, Union):
        for option in value.options:
            found = join(found, _deep(f, option, made, depth + 1))
        return found
    if isinstance(value, Star):
        return Star(_deep(f, value.value, made, depth + 1))
    found = made[value] = copied(f, value)
    if isinstance(found, Container):
        found.elem = _deep(f, found.elem, made, depth + 1)
        if isinstance(found, Seq) and found.items is not None:
            found.items = [_deep(f, item, made, depth + 1) for item in found.items]
        elif isinstance(found, Dict):
            found.entries = {key: _deep(f, item, made, depth + 1) for key, item in found.entries.items()}
    elif isinstance(found, Inst):
        found.attrs = {name: _deep(f, item, made, depth + 1) for name, item in found.attrs.items()}
    return found


def _copy(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return copied(f, args.get(0, "x"))


def _deep_copy(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return deep_copied(f, args.get(0, "x"))


TABLE: Final[dict[str, Callable[[Frame, ast.AST, Ext, Args], Any]]] = {
    "copy.copy": _copy,
    "copy.deepcopy": _deep_copy,
}
