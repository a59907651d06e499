"""Interpreting assignments: what becomes of a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from rulvar_lint.core.alternatives import join, places
from rulvar_lint.core.expressions import is_int
from rulvar_lint.core.frame import FALLS, HOST
from rulvar_lint.core.freevars import depends_on_element
from rulvar_lint.core.operators import is_text
from rulvar_lint.core.order import order_event, see_order
from rulvar_lint.core.values import Const, Container, Dict, Seq, Set, Union, Unknown, Value, options_of

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame


def exec_assign(f: Frame, node: ast.Assign) -> int:
    value = f.ev[node.value.__class__](f, node.value)
    for target in node.targets:
        assign(f, target, value, node)
    return FALLS


def exec_annassign(f: Frame, node: ast.AnnAssign) -> int:
    value: Value | None = None
    if node.value is not None:
        value = f.ev[node.value.__class__](f, node.value)
    elif not isinstance(node.target, ast.Name):
        return FALLS
    if value is None:
        value = f.m.from_annotation(f.module, node.annotation)
    elif isinstance(value, Set):
        declared = f.m.from_annotation(f.module, node.annotation)
        if isinstance(declared, Set) and declared.stable:
            value.stable = True
    if node.value is not None or f.mode == HOST:
        assign(f, node.target, value, node)
    return FALLS


def assign(f: Frame, target: ast.expr, value: Value | None, node: ast.AST) -> None:
    """Bind a target to a value."""
    cls = target.__class__
    if cls is ast.Name:
        name: str = target.id  # type: ignore[attr-defined]
        if f.declared is not None and name in f.declared:
            store_declared(f, node, name, value)
            return
        if f.loops:
            loop_assign(f, name, value, node)
        f.env[name] = value
    elif cls is ast.Tuple or cls is ast.List:
        unpack(f, target.elts, value, node)  # type: ignore[attr-defined]
    elif isinstance(target, ast.Attribute):
        base = f.ev[target.value.__class__](f, target.value)
        f.m.store_target(f, node, target, base, value)
    elif cls is ast.Subscript:
        base = f.ev[target.value.__class__](f, target.value)  # type: ignore[attr-defined]
        index = f.ev[target.slice.__class__](f, target.slice)  # type: ignore[attr-defined]
        store_item(f, node, target, base, index, value)
    elif cls is ast.Starred:
        assign(f, target.value, value, node)  # type: ignore[attr-defined]


def store_declared(f: Frame, node: ast.AST, name: str, value: Value | None) -> None:
    """Bind a name that is declared global or nonlocal."""
    assert f.declared is not None
    kind = f.declared[name]
    for hook in f.m.hooks.store_name:
        hook(f, node, name, kind, value)
    owner = f.owner_of(name) if kind == "nonlocal" else None
    env = owner.env if owner is not None else f.globals_set
    env[name] = join(env.get(name), value)


def loop_assign(f: Frame, name: str, value: Value | None, node: ast.AST) -> None:
    """A variable from before a loop over a set is set inside it: any element may win."""
    for loop in f.loops:
        if loop.order is None:
            continue
        rhs = getattr(node, "value", None)
        if loop.before is not None and name in loop.before and isinstance(rhs, ast.expr):
            if depends_on_element(loop, rhs, name, value):
                order_event(f, node)
            return


def unpack(f: Frame, targets: list[ast.expr], value: Value | None, node: ast.AST) -> None:
    """`a, b = value`."""
    element: Value | None = None
    star = -1
    for index, target in enumerate(targets):
        if target.__class__ is ast.Starred:
            star = index
    items = _given(f, value, len(targets), star)
    if value is not None:
        see_order(f, getattr(node, "value", node), value, "unpacks")
        if items is None:
            element = f.m.elements(f, node, value)
    for index, target in enumerate(targets):
        given = items[index] if items is not None else element
        if index == star and items is None and element is not None:
            given = f.new_seq("list", None, element)
        assign(f, target, given, node)


def _given(f: Frame, value: Value | None, count: int, star: int) -> list[Value | None] | None:
    """What each of `count` targets gets, if that is known of all that the value may be."""
    found: list[Value | None] | None = None
    for option in options_of(value):
        items = places(option)
        if items is not None and star >= 0 and len(items) >= count - 1:
            end = len(items) - count + star + 1
            items = [*items[:star], f.new_seq("list", items[star:end]), *items[end:]]
        if items is None or len(items) != count:
            return None
        found = items if found is None else [join(*pair) for pair in zip(found, items, strict=True)]
    return found


def store_item(
    f: Frame,
    node: ast.AST,
    target: ast.expr,
    base: Value | None,
    index: Value | None,
    value: Value | None,
) -> None:
    """`base[index] = value`."""
    for hook in f.m.hooks.store_item:
        hook(f, node, target, base, value)
    for option in base.options if isinstance(base, Union) else (base,):
        if isinstance(option, Dict):
            if isinstance(index, Const) and isinstance(index.value, (str, int)):
                option.entries[index.value] = value
            else:
                option.elem = join(option.elem, value)
            f.m.grow(f, node, option)
        elif isinstance(option, Seq):
            option.elem = join(option.elem, value)
        elif option is not None and f.m.call_special(f, node, option, "__setitem__", [index, value]):
            pass
        elif option is None and f.loops:
            order_event(f, node)


def exec_augassign(f: Frame, node: ast.AugAssign) -> int:
    target = node.target
    value = f.ev[node.value.__class__](f, node.value)
    if isinstance(target, ast.Name):
        _augment_name(f, node, target, value)
        return FALLS
    base = f.ev[target.value.__class__](f, target.value)
    if isinstance(target, ast.Subscript):
        index = f.ev[target.slice.__class__](f, target.slice)
        if any(loop.order for loop in f.loops) and not _commutes(node, None, value):
            order_event(f, node)
        if not isinstance(base, (Dict, Seq)):
            for hook in f.m.hooks.store_item:
                hook(f, node, target, base, value)
        else:
            store_item(f, node, target, base, index, value)
    else:
        f.m.store_target(f, node, target, base, value)
    return FALLS


def _augment_name(f: Frame, node: ast.AugAssign, target: ast.Name, value: Value | None) -> None:
    name = target.id
    before = f.ev[ast.Name](f, target)
    if f.declared is not None and name in f.declared:
        store_declared(f, node, name, before if isinstance(before, Container) else None)
        return
    if isinstance(before, Container):
        for hook in f.m.hooks.mutation:
            hook(f, node, before, "extend" if isinstance(before, Seq) else "update", None)
        f.m.augment_container(f, node, before, value)
        f.env[name] = before
        return
    if isinstance(before, Unknown) and before.outer and isinstance(value, Container):
        for hook in f.m.hooks.mutation:  # a list is added to: what is changed is a list as well
            hook(f, node, before, "extend", None)
    if any(loop.order for loop in f.loops) and not _commutes(node, before, value):
        order_event(f, node)
    made = None
    if before is not None or value is not None:
        made = f.m.augmented(f, node, node.op, before, value)
    f.env[name] = made


def _commutes(node: ast.AugAssign, before: Value | None, value: Value | None) -> bool:
    """Whether repeated augmentation gives the same result in any order."""
    if isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.BitXor)):
        return True
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return is_int(value) or not (
            is_text(value) or is_text(before) or _is_float(value) or isinstance(value, Seq)
        )
    return False


def _is_float(value: Value | None) -> bool:
    return getattr(value, "type", "") == "builtins.float" or (
        isinstance(value, Const) and isinstance(value.value, float)
    )


def exec_delete(f: Frame, node: ast.Delete) -> int:
    for target in node.targets:
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            base = f.ev[target.value.__class__](f, target.value)
            if isinstance(target, ast.Subscript):
                f.ev[target.slice.__class__](f, target.slice)
                for hook in f.m.hooks.store_item:
                    hook(f, node, target, base, None)
        elif isinstance(target, ast.Name):
            if f.declared is not None and target.id in f.declared:
                for hook in f.m.hooks.store_name:
                    hook(f, node, target.id, f.declared[target.id], None)
            f.env.pop(target.id, None)
    return FALLS
