"""Special methods: what operators and conversions call on instances of project classes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.classes import call_special, fields_of, find_attribute, is_data_class
from rulvar_lint.core.decls import Field
from rulvar_lint.core.operators import SPECIAL, binary
from rulvar_lint.core.values import ATOMS, Container, Func, Inst, Value, options_of

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

_COMPARISONS: Final[dict[type, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    ast.Lt: (("__lt__",), ("__gt__",)),
    ast.Gt: (("__gt__",), ("__lt__",)),
    ast.LtE: (("__le__",), ("__ge__",)),
    ast.GtE: (("__ge__",), ("__le__",)),
    ast.Eq: (("__eq__",), ("__eq__",)),
    ast.NotEq: (("__ne__", "__eq__"), ("__ne__", "__eq__")),
}
_UNARY: Final[dict[type, str]] = {
    ast.USub: "__neg__",
    ast.UAdd: "__pos__",
    ast.Invert: "__invert__",
}
# Builtin to the special methods it tries, in this order.
CONVERSIONS: Final[dict[str, tuple[str, ...]]] = {
    "builtins.int": ("__int__", "__index__", "__trunc__"),
    "builtins.float": ("__float__", "__index__"),
    "builtins.complex": ("__complex__", "__float__"),
    "builtins.bool": ("__bool__", "__len__"),
    "builtins.len": ("__len__",),
    "builtins.abs": ("__abs__",),
    "builtins.round": ("__round__",),
    "builtins.divmod": ("__divmod__",),
    "builtins.pow": ("__pow__",),
    "builtins.hash": ("__hash__",),
    "builtins.dir": ("__dir__",),
    "builtins.bytes": ("__bytes__", "__iter__"),
    "builtins.reversed": ("__reversed__", "__getitem__"),
    "builtins.hex": ("__index__",),
    "builtins.bin": ("__index__",),
    "builtins.range": ("__index__",),
    "math.floor": ("__floor__", "__float__"),
    "math.ceil": ("__ceil__", "__float__"),
    "math.trunc": ("__trunc__",),
    "operator.index": ("__index__",),
    "operator.length_hint": ("__len__", "__length_hint__"),
    "os.fspath": ("__fspath__",),
    "copy.copy": ("__copy__",),
    "copy.deepcopy": ("__deepcopy__",),
}


def call_first(
    f: Frame, node: ast.AST, value: Value | None, names: tuple[str, ...], args: list[Value | None]
) -> Value | None:
    """Call the first of the special methods that the class of an instance has."""
    found: Value | None = None
    if value.__class__ in ATOMS:
        return None
    for option in options_of(value):
        if isinstance(option, Inst):
            for name in names:
                method = find_attribute(option.decl, name)
                if method is not None:
                    if isinstance(method[1], Func):
                        found = join(found, call_special(f, node, option, name, args))
                    break
    return found


def compare(f: Frame, node: ast.AST, op: ast.cmpop, left: Value | None, right: Value | None) -> Value | None:
    """`left op right`, by the methods of either side."""
    names = _COMPARISONS.get(op.__class__)
    if names is None:
        return None
    if _has(left, names[0]):
        return call_first(f, node, left, names[0], [right])
    return call_first(f, node, right, names[1], [left])


def augmented(
    f: Frame, node: ast.AST, op: ast.operator, left: Value | None, right: Value | None
) -> Value | None:
    """`left op= right`."""
    name = "__i" + SPECIAL[op.__class__][0][2:] if isinstance(left, Inst) else ""
    if isinstance(left, Inst) and find_attribute(left.decl, name) is not None:
        return f.m.call_special(f, node, left, name, [right]) or left
    return binary(f, node, op, left, right)


def contains(f: Frame, node: ast.AST, holder: Value | None, value: Value | None) -> None:
    """A container compares what it holds with a value."""
    if isinstance(holder, Container):
        element = element_of(holder)
        if element is not None and element.__class__ not in ATOMS:
            compare(f, node, ast.Eq(), element, value)


def _has(value: Value | None, names: tuple[str, ...]) -> bool:
    return value.__class__ not in ATOMS and any(
        isinstance(option, Inst) and find_attribute(option.decl, name) is not None
        for option in options_of(value)
        for name in names
    )


def sort(f: Frame, node: ast.AST, element: Value | None) -> None:
    """Elements are put into order."""
    call_first(f, node, element, ("__lt__", "__gt__"), [element])


def unary(f: Frame, node: ast.AST, op: ast.unaryop, value: Value) -> Value | None:
    """`-value` and the like."""
    name = _UNARY.get(op.__class__)
    return call_first(f, node, value, (name,), []) if name is not None else None


def convert(f: Frame, node: ast.AST, path: str, value: Value | None) -> Value | None:
    """A builtin function looks at an instance."""
    names = CONVERSIONS.get(path)
    return call_first(f, node, value, names, []) if names is not None else None


def write(f: Frame, node: ast.AST, value: Inst, way: tuple[str, ...]) -> None:
    """An instance becomes text, by the first of these methods that its class has."""
    call_first(f, node, value, way, [None])


def test(f: Frame, node: ast.AST, value: Value) -> None:
    """A value decides a branch."""
    if value.taint is not None:
        for hook in f.m.hooks.sink:
            hook(f, node, "branch", value)
    call_first(f, node, value, ("__bool__", "__len__"), [])


def shown(f: Frame, value: Inst, way: tuple[str, ...]) -> list[Value]:
    """The fields that the generated text of a data class writes out."""
    decl = value.decl
    if not is_data_class(decl) or any(find_attribute(decl, name) is not None for name in way):
        return []
    found: list[Value] = []
    for name, field in fields_of(decl).items():
        if not isinstance(field, Field) or _is_hidden(field):
            continue
        inner = value.attrs.get(name)
        if inner is None:
            inner = f.m.from_annotation(decl.module, field.annotation)
        if inner is not None and inner.__class__ not in ATOMS:
            found.append(inner)
    return found


def _is_hidden(field: Field) -> bool:
    """`field(repr=False)`"""
    maker = field.node.value
    return isinstance(maker, ast.Call) and any(
        keyword.arg == "repr" and getattr(keyword.value, "value", True) is False for keyword in maker.keywords
    )
