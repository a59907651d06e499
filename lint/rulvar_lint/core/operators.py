"""Operators on abstract values, and values that become text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.expressions import FLOAT, INT, STR, is_int
from rulvar_lint.core.order import order_of, see_order
from rulvar_lint.core.values import (
    Bound,
    Class,
    Const,
    Container,
    Dict,
    Ext,
    Inst,
    Obj,
    Seq,
    Set,
    Star,
    Union,
    Unknown,
    Value,
    merge_taint,
    options_of,
    with_taint,
)
from rulvar_lint.core.writing import FORMAT, REPR, STRING

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

_MAX_DEPTH: Final = 4
_SET_OPS: Final = frozenset({ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor})
# The methods of the left and of the right side.
SPECIAL: Final = {
    ast.Add: ("__add__", "__radd__"),
    ast.Sub: ("__sub__", "__rsub__"),
    ast.Mult: ("__mul__", "__rmul__"),
    ast.Div: ("__truediv__", "__rtruediv__"),
    ast.Mod: ("__mod__", "__rmod__"),
    ast.BitOr: ("__or__", "__ror__"),
    ast.BitAnd: ("__and__", "__rand__"),
    ast.RShift: ("__rshift__", "__rrshift__"),
    ast.LShift: ("__lshift__", "__rlshift__"),
    ast.FloorDiv: ("__floordiv__", "__rfloordiv__"),
    ast.MatMult: ("__matmul__", "__rmatmul__"),
    ast.Pow: ("__pow__", "__rpow__"),
    ast.BitXor: ("__xor__", "__rxor__"),
}


def binary(
    f: Frame, node: ast.AST, op: ast.operator, left: Value | None, right: Value | None
) -> Value | None:
    """`left op right`; at least one side is known."""
    taint = merge_taint(left.taint if left else None, right.taint if right else None)
    kind = op.__class__
    if kind in _SET_OPS:
        made = _set_operation(f, op, left, right)
        if made is not None:
            return made
    if kind is ast.Mod and is_text(left):
        text_arguments(f, node, right)
        return with_taint(STR, taint)
    if kind is ast.Add or kind is ast.Mult:
        made = _concatenate(f, left, right)
        if made is not None:
            return made
    for side, name in zip((left, right), SPECIAL.get(kind, ("", "")), strict=True):
        if isinstance(side, Inst) and name:
            return f.m.call_special(f, node, side, name, [right if side is left else left])
        if isinstance(side, Obj):
            result = f.m.catalog.result(f"{side.type}.{name}")
            if result is not None:
                return Obj(result, taint)
    if isinstance(op, ast.BitOr) and (isinstance(left, (Ext, Class)) or isinstance(right, (Ext, Class))):
        return _either_type(left, right)
    if is_text(left) or is_text(right):
        return with_taint(STR, taint)
    if is_int(left) and is_int(right) and kind is not ast.Div:
        return with_taint(INT, taint)
    if _is_float(left) or _is_float(right):
        return with_taint(FLOAT, taint)
    return Unknown(taint) if taint is not None else None


def _either_type(left: Value | None, right: Value | None) -> Value | None:
    """`Ctx | None` outside an annotation: the type that it stands for."""
    types = [side for side in (left, right) if isinstance(side, (Ext, Class)) and side.taint is None]
    none = any(isinstance(side, Const) and side.value is None for side in (left, right))
    return types[0] if none and len(types) == 1 else None


def is_text(value: Value | None) -> bool:
    """Whether a value is certainly a string."""
    if isinstance(value, Const):
        return isinstance(value.value, str)
    return isinstance(value, Obj) and value.type == "builtins.str"


def _is_float(value: Value | None) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, float)
    return isinstance(value, Obj) and value.type == "builtins.float"


def _set_operation(f: Frame, op: ast.operator, left: Value | None, right: Value | None) -> Value | None:
    """Sets and the key views of mappings give sets."""
    sides = [option for side in (left, right) for option in options_of(side)]
    for option in sides:
        is_view = isinstance(option, Seq) and option.kind == "keys"
        if isinstance(option, Set) or is_view:
            stable = all(isinstance(o, Set) and o.stable for o in sides) and None not in (
                left,
                right,
            )
            if isinstance(op, (ast.Sub, ast.BitAnd)) and isinstance(left, Set) and left.stable:
                stable = True
            return f.new_set(element_of(option) if isinstance(option, Container) else None, stable)
    if isinstance(op, ast.BitOr) and isinstance(left, Dict) and isinstance(right, Dict):
        made = f.new_dict({**left.entries, **right.entries}, join(left.elem, right.elem))
        made.order = left.order or right.order
        return made
    return None


def _concatenate(f: Frame, left: Value | None, right: Value | None) -> Value | None:
    sides = [side for side in (left, right) if isinstance(side, Seq)]
    if not sides:
        return None
    items: list[Value | None] = []
    order = None
    for side in sides:
        items += side.items if side.items is not None else [Star(side)]
        order = order or side.order
    if len(sides) == 1:
        items.append(Star(None))
    made = f.new_seq(sides[0].kind, items)
    made.order = order
    return made


def text(
    f: Frame,
    node: ast.AST,
    value: Value,
    way: tuple[str, ...] = FORMAT,
    depth: int = 0,
    seen: set[Value] | None = None,
) -> None:
    """A value is turned into text at `node`; `way` names the methods that may do it. What a
    container holds is written by its `__repr__`.
    """
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Union):
        for option in value.options:
            text(f, node, option, way, depth + 1, seen)
        return
    if isinstance(value, Container):
        seen = set() if seen is None else seen
        if value in seen:
            return
        seen.add(value)
        see_order(f, node, value, "writes out")
        if isinstance(value, Seq) and value.items:
            for item in value.items:
                if item is not None and not isinstance(item, Star):
                    text(f, node, item, REPR, depth + 1, seen)
        elif isinstance(value, Dict):
            for item in value.entries.values():
                if item is not None:
                    text(f, node, item, REPR, depth + 1, seen)
        if value.elem is not None:
            text(f, node, value.elem, REPR, depth + 1, seen)
    if isinstance(value, Inst):
        f.m.write(f, node, value, way)
        seen = set() if seen is None else seen
        if value not in seen:
            seen.add(value)
            for inner in f.m.shown(f, value, way):
                text(f, node, inner, REPR, depth + 1, seen)
    for hook in f.m.hooks.text:
        hook(f, node, value, way)


def text_arguments(f: Frame, node: ast.AST, value: Value | None) -> None:
    """The values that `%` writes out."""
    if isinstance(value, Seq) and value.kind == "tuple" and value.items is not None:
        for item in value.items:
            if item is not None and not isinstance(item, Star):
                text(f, node, item, STRING)
    elif value is not None:
        text(f, node, value, STRING)


def iterate(f: Frame, node: ast.AST, value: Value | None) -> Value | None:
    """The elements that a `for` over `value` sees. Special methods of classes are called."""
    found: Value | None = None
    for option in options_of(value):
        found = join(found, _elements(f, node, option))
    return found


def _elements(f: Frame, node: ast.AST, value: Value) -> Value | None:
    if isinstance(value, Dict):
        return Unknown(value.taint) if value.taint is not None else None
    if isinstance(value, Container):
        return element_of(value)
    if isinstance(value, Inst):
        for name, step in (("__iter__", "__next__"), ("__aiter__", "__anext__")):
            made = f.m.call_special(f, node, value, name, [])
            if made is value or (made is not None and isinstance(made, Inst)):
                return f.m.result_of(f.m.call_special(f, node, made, step, []))
            if made is not None:
                return iterate(f, node, made)
        return None
    if isinstance(value, Class):
        member = f.m.class_item(value)
        return member if isinstance(member, Inst) else None
    if isinstance(value, (Obj, Bound)) or hasattr(value, "path"):
        path = str(getattr(value, "path", None) or getattr(value, "type", ""))
        element = f.m.catalog.element(path)
        if element is not None:
            return Obj(element, value.taint)
        if isinstance(value, Obj) and "." in value.type and value.type.partition(".")[0] != "builtins":
            return Obj(f"{value.type}.__iter__", value.taint)
    outer = isinstance(value, Unknown) and value.outer
    return Unknown(value.taint, outer) if value.taint is not None or outer else None


def order_through(f: Frame, node: ast.AST, value: Value | None, made: Container, verb: str) -> Container:
    """A container made from `value` in its order."""
    made.order = order_of(f, node, value, verb)
    return made
