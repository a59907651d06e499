"""Operators and methods as functions: `operator.methodcaller` and its like, `operator.or_`, `set.union`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.calls import call_value
from rulvar_lint.core.expressions import subscript
from rulvar_lint.core.values import Const, Container, Ext, Partial, Set, Star, Value

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame


def _getter(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return Partial(Ext(f"{ext.path}()"), list(args.pos), dict(args.kw))


def _attribute(f: Frame, node: ast.AST, args: Args) -> Value | None:
    """The attribute that the first argument names, of the last one."""
    name, value = args.pos[0] if args.pos else None, args.pos[-1] if args.pos else None
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return None
    for part in name.value.split("."):
        value = f.m.attribute(f, node, value, part) if value is not None else None
    return value


def _get_attributes(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    found = [_attribute(f, node, Args([name, args.pos[-1]], {})) for name in args.pos[:-1]]
    return found[0] if len(found) == 1 else None


def _call_method(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    return call_value(f, node, _attribute(f, node, args), Args(args.pos[1:-1], args.kw))


def _get_items(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    value = args.pos[-1] if args.pos else None
    if value is None:
        return None
    found = [subscript(f, node, value, key) for key in args.pos[:-1]]
    return found[0] if len(found) == 1 else None


def _set_method(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`set.union(*sets)`, called on the class."""
    elem: Value | None = None
    stable = bool(args.pos)
    for value in args.pos:
        given = (
            element_of(value.value)
            if isinstance(value, Star) and isinstance(value.value, Container)
            else value
        )
        stable = stable and isinstance(given, Set) and given.stable
        elem = join(elem, element_of(given) if isinstance(given, Container) else None)
    return f.new_set(elem, stable)


def _binary(f: Frame, node: ast.AST, ext: Ext, args: Args) -> Value | None:
    """`operator.or_(left, right)` and the like."""
    if len(args.pos) != 2 or args.pos == [None, None]:
        return None
    return f.m.binary(f, node, _OPERATORS[ext.path], *args.pos)


_OPERATORS: Final = {
    "operator.or_": ast.BitOr(),
    "operator.and_": ast.BitAnd(),
    "operator.sub": ast.Sub(),
    "operator.xor": ast.BitXor(),
    "operator.add": ast.Add(),
}
TABLE: Final[dict[str, Callable[[Frame, ast.AST, Ext, Args], Any]]] = {
    "operator.methodcaller": _getter,
    "operator.attrgetter": _getter,
    "operator.itemgetter": _getter,
    "operator.methodcaller()": _call_method,
    "operator.attrgetter()": _get_attributes,
    "operator.itemgetter()": _get_items,
    **{
        f"builtins.{kind}.{name}": _set_method
        for kind in ("set", "frozenset")
        for name in ("union", "intersection", "difference", "symmetric_difference")
    },
    **dict.fromkeys(_OPERATORS, _binary),
}
