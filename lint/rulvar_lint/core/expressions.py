"""Interpreting expressions: an expression gives an abstract value and may have effects."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.choices import chosen, decided
from rulvar_lint.core.frame import Frame
from rulvar_lint.core.narrowing import TESTS, narrow
from rulvar_lint.core.order import see_order, use_order
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Dict,
    Ext,
    Inst,
    LazyImport,
    Obj,
    Seq,
    Set,
    Star,
    Unknown,
    Value,
    merge_taint,
    options_of,
    with_taint,
)
from rulvar_lint.core.writing import CONVERSIONS

if TYPE_CHECKING:
    from rulvar_lint.core.values import Taint

_MISSING: Final = object()
STR: Final = Obj("builtins.str")
FILLED: Final = Obj("builtins.str", None, ast.Constant("text"))  # certainly not empty
INT: Final = Obj("builtins.int")
FLOAT: Final = Obj("builtins.float")
BYTES: Final = Obj("builtins.bytes")

_CONSTANTS: Final = {True: Const(True), False: Const(False), None: Const(None)}


def eval_constant(f: Frame, node: ast.Constant) -> Value | None:
    value = node.value
    if value is None or value is True or value is False:
        return _CONSTANTS[value]
    return Const(value)


def eval_name(f: Frame, node: ast.Name) -> Value | None:
    value: Any = f.env.get(node.id, _MISSING)
    if value is _MISSING:
        return f.lookup(node, node.id)
    if value is not None and isinstance(value, LazyImport):
        return f.m.force(f.module, node.id, value)
    return value


def eval_attribute(f: Frame, node: ast.Attribute) -> Value | None:
    base = f.ev[node.value.__class__](f, node.value)
    return None if base is None else f.m.attribute(f, node, base, node.attr)


def eval_subscript(f: Frame, node: ast.Subscript) -> Value | None:
    base = f.ev[node.value.__class__](f, node.value)
    index = f.ev[node.slice.__class__](f, node.slice)
    if base is None:
        return Unknown(index.taint) if index is not None and index.taint is not None else None
    return subscript(f, node, base, index)


def subscript(f: Frame, node: ast.AST, base: Value, index: Value | None) -> Value | None:
    """`base[index]`."""
    found: Value | None = None
    for option in options_of(base):
        found = join(found, _subscript_one(f, node, option, index))
    if index is not None and index.taint is not None:
        found = chosen(f, with_taint(found, index.taint), index)
    return found


def _subscript_one(f: Frame, node: ast.AST, base: Value, index: Value | None) -> Value | None:
    key = index.value if isinstance(index, Const) else _MISSING
    if isinstance(base, Seq):
        use_order(f, node, base)
        if isinstance(getattr(node, "slice", None), ast.Slice):
            return f.new_seq(base.kind, None, element_of(base))
        if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            return base.items[key]
        return element_of(base)
    if isinstance(base, Dict):
        if _hashable(key) and key in base.entries:
            if getattr(node, "slice", None).__class__ is not ast.Constant:
                f.m.keyed()
            return base.entries[key]
        return element_of(base) if base.entries or base.elem else None
    if isinstance(base, Inst):
        return f.m.call_special(f, node, base, "__getitem__", [index])
    if isinstance(base, Class):
        return f.m.class_item(base)
    if isinstance(base, Obj):
        element = f.m.catalog.element(base.type)
        if element is not None:
            return Obj(element, base.taint)
        return Ext(f"{base.type}.__getitem__", base) if base.type not in _SCALARS else _tainted(base)
    if isinstance(base, Ext):
        if base.receiver is not None:
            return base
        named = _named_type(base, index)
        if named is not None:
            return named
        return Unknown(base.taint) if base.taint is not None else None
    if isinstance(getattr(node, "slice", None), ast.Slice):
        return Unknown(base.taint) if base.taint is not None else None  # a copy
    return _tainted(base)


_SETS: Final = frozenset({"builtins.set", "builtins.frozenset"})
_WRAPPERS: Final = frozenset({"typing.Optional", "typing.Annotated", "typing.Union"})


def _named_type(base: Ext, index: Value | None) -> Value | None:
    """What a generic type stands for in an annotation, as in `Tags = set[str]`."""
    if base.path in _SETS:
        return base
    if base.path not in _WRAPPERS:
        return None
    inner = index.items[0] if isinstance(index, Seq) and index.items else index
    return inner if isinstance(inner, (Ext, Class)) else None


_SCALARS: Final = frozenset({"builtins.str", "builtins.bytes", "builtins.int", "builtins.float"})


def _hashable(key: object) -> bool:
    return key is not _MISSING and isinstance(key, (str, int, float, bytes, bool, None.__class__))


def _tainted(value: Value) -> Value | None:
    outer = isinstance(value, Unknown) and value.outer
    return Unknown(value.taint, outer) if value.taint is not None or outer else None


def eval_joined(f: Frame, node: ast.JoinedStr) -> Value | None:
    taint, made = None, STR
    for part in node.values:
        if part.__class__ is ast.FormattedValue:
            value = eval_formatted(f, part)
            if value is not None and value.taint is not None:
                taint = merge_taint(taint, value.taint)
        else:
            made = FILLED
    return made if taint is None else Obj("builtins.str", taint, made.node)


def eval_formatted(f: Frame, node: ast.FormattedValue) -> Value | None:
    f.m.in_text += 1
    value = f.ev[node.value.__class__](f, node.value)
    f.m.in_text -= 1
    spec = node.format_spec
    if spec is not None:
        f.ev[spec.__class__](f, spec)
        for hook in f.m.hooks.format_spec:
            hook(f, node.value, spec, value)
    if value is not None:
        f.m.text(f, node.value, value, CONVERSIONS[node.conversion])
    return value


def eval_binop(f: Frame, node: ast.BinOp) -> Value | None:
    left = f.ev[node.left.__class__](f, node.left)
    right = f.ev[node.right.__class__](f, node.right)
    if left is None and right is None:
        return None
    return f.m.binary(f, node, node.op, left, right)


def eval_boolop(f: Frame, node: ast.BoolOp) -> Value | None:
    found: Value | None = None
    last = len(node.values) - 1
    for index, part in enumerate(node.values):
        value = f.ev[part.__class__](f, part)
        if index < last and value is not None:
            f.m.test(f, part, value)
            known = decided(f, part)
            if known is not None:
                if known is isinstance(node.op, ast.Or):
                    return join(found, value)
                continue
        found = join(found, value)
    return found


def eval_unary(f: Frame, node: ast.UnaryOp) -> Value | None:
    value = f.ev[node.operand.__class__](f, node.operand)
    if value is None:
        return None
    if isinstance(node.op, ast.Not):
        f.m.test(f, node.operand, value)
        return _tainted(value)
    if isinstance(value, Const) and isinstance(node.op, ast.USub) and isinstance(value.value, (int, float)):
        return Const(-value.value)
    made = f.m.unary(f, node, node.op, value)
    if made is not None:
        return made
    return value if isinstance(value, Obj) else _tainted(value)


def eval_compare(f: Frame, node: ast.Compare) -> Value | None:
    left = f.ev[node.left.__class__](f, node.left)
    taint = left.taint if left is not None else None
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = f.ev[operand.__class__](f, operand)
        if right is not None:
            taint = merge_taint(taint, right.taint)
        if left is not None or right is not None:
            f.m.compare(f, node, op, left, right)
        if isinstance(op, (ast.Eq, ast.NotEq)):
            for side in (left, right):
                if isinstance(side, Container) and side.order is not None:
                    use_order(f, node, side)
        elif right is not None and isinstance(op, (ast.In, ast.NotIn)):
            f.m.call_special(f, node, right, "__contains__", [left])
            f.m.contains(f, node, right, left)
        left = right
    return Unknown(taint) if taint is not None else None


def eval_ifexp(f: Frame, node: ast.IfExp) -> Value | None:
    test = f.ev[node.test.__class__](f, node.test)
    if test is not None:
        f.m.test(f, node.test, test)
    known = decided(f, node.test)
    if known is not None:
        branch = node.body if known else node.orelse
        return f.ev[branch.__class__](f, branch)
    told = narrow(f, node.test) if node.test.__class__ in TESTS else None
    if told is not None:
        return chosen(f, told.evaluate(f, node.body, node.orelse), test)
    body = f.ev[node.body.__class__](f, node.body)
    return chosen(f, join(body, f.ev[node.orelse.__class__](f, node.orelse)), test)


def eval_await(f: Frame, node: ast.Await) -> Value | None:
    value = f.ev[node.value.__class__](f, node.value)
    return None if value is None else f.m.awaited(f, node, value)


def eval_lambda(f: Frame, node: ast.Lambda) -> Value | None:
    return f.m.closure(f, node)


def eval_items(f: Frame, elts: list[ast.expr]) -> list[Value | None]:
    """The values of a display or of positional arguments."""
    items: list[Value | None] = []
    for elt in elts:
        if elt.__class__ is ast.Starred:
            items.append(Star(f.ev[elt.value.__class__](f, elt.value)))
        else:
            items.append(f.ev[elt.__class__](f, elt))
    return items


def eval_list(f: Frame, node: ast.List) -> Value | None:
    items = eval_items(f, node.elts)
    _see_stars(f, node, items)
    return f.new_seq("list", items)


def eval_tuple(f: Frame, node: ast.Tuple) -> Value | None:
    items = eval_items(f, node.elts)
    if not any(items):
        return None
    _see_stars(f, node, items)
    return f.new_seq("tuple", items)


def _see_stars(f: Frame, node: ast.AST, items: list[Value | None]) -> None:
    for item in items:
        if item.__class__ is Star:
            see_order(f, node, item.value, "unpacks")


def eval_set(f: Frame, node: ast.Set) -> Value | None:
    items = eval_items(f, node.elts)
    elem: Value | None = None
    stable = True
    for item in items:
        value = item.value if isinstance(item, Star) else item
        if isinstance(value, Container):
            use_member_order(f, node, item, value)
            stable = stable and isinstance(value, Set) and value.stable
            elem = join(elem, element_of(value))
        else:
            stable = stable and is_int(value)
            elem = join(elem, value)
    return f.new_set(elem, stable)


def use_member_order(f: Frame, node: ast.AST, item: Value | None, value: Container) -> None:
    """Putting an ordered container itself into a set looks at its order; `*container` does not."""
    if not isinstance(item, Star):
        use_order(f, node, value)


def is_int(value: Value | None) -> bool:
    """Whether a value is certainly an integer."""
    if isinstance(value, Const):
        return isinstance(value.value, int)
    return isinstance(value, Obj) and value.type == "builtins.int"


def eval_dict(f: Frame, node: ast.Dict) -> Value | None:
    entries: dict[Any, Value | None] = {}
    elem: Value | None = None
    order = None
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = f.ev[value_node.__class__](f, value_node)
        if key_node is None:
            for option in options_of(value):
                if isinstance(option, Dict):
                    entries.update(option.entries)
                    elem = join(elem, option.elem)
                    order = order or option.order
            continue
        key = f.ev[key_node.__class__](f, key_node)
        if isinstance(key, Const) and _hashable(key.value):
            entries[key.value] = value
        else:
            elem = join(elem, value)
    made = f.new_dict(entries, elem)
    made.order = order
    return made


def eval_named(f: Frame, node: ast.NamedExpr) -> Value | None:
    value = f.ev[node.value.__class__](f, node.value)
    f.env[node.target.id] = value
    return value


def eval_starred(f: Frame, node: ast.Starred) -> Value | None:
    return Star(f.ev[node.value.__class__](f, node.value))


def eval_slice(f: Frame, node: ast.Slice) -> Value | None:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            f.ev[part.__class__](f, part)
    return None


def eval_yield(f: Frame, node: ast.Yield) -> Value | None:
    value = f.ev[node.value.__class__](f, node.value) if node.value is not None else None
    f.m.yielded(f, node, value)
    return None


def eval_yield_from(f: Frame, node: ast.YieldFrom) -> Value | None:
    f.m.yielded_from(f, node, f.ev[node.value.__class__](f, node.value))
    return None


TABLE: Final[dict[type, Callable[[Frame, Any], Value | None]]] = {
    ast.Constant: eval_constant,
    ast.Name: eval_name,
    ast.Attribute: eval_attribute,
    ast.Subscript: eval_subscript,
    ast.JoinedStr: eval_joined,
    ast.FormattedValue: eval_formatted,
    ast.BinOp: eval_binop,
    ast.BoolOp: eval_boolop,
    ast.UnaryOp: eval_unary,
    ast.Compare: eval_compare,
    ast.IfExp: eval_ifexp,
    ast.Await: eval_await,
    ast.Lambda: eval_lambda,
    ast.List: eval_list,
    ast.Tuple: eval_tuple,
    ast.Set: eval_set,
    ast.Dict: eval_dict,
    ast.NamedExpr: eval_named,
    ast.Starred: eval_starred,
    ast.Slice: eval_slice,
    ast.Yield: eval_yield,
    ast.YieldFrom: eval_yield_from,
}


def tainted_text(taint: Taint) -> Value:
    """A string."""
    return STR if taint is None else Obj("builtins.str", taint)
