"""Arbitrary order: a set's order may be fixed without harm as long as nobody looks at it.

`list(s)` gives a list with a pending order. The finding is made when that order is seen to matter,
at the place where it was fixed; `sorted`, `len`, `in`, `set` and their like never make it matter.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import HOST, PLAIN
from rulvar_lint.core.values import ATOMS, Bound, Container, Dict, Inst, Seq, Set, Star, Union, Value

if TYPE_CHECKING:
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame

CODE: Final = "RLV201"


class Pending:
    """An arbitrary order that was fixed at `node` of `frame`."""

    __slots__ = ("cause", "done", "expr", "frame", "node")

    def __init__(self, frame: Frame, node: ast.AST, cause: Cause, expr: ast.AST | None = None) -> None:
        self.frame = frame
        self.node = node
        self.cause = cause
        self.expr = expr
        self.done = False

    def matters(self, frame: Frame, node: ast.AST) -> None:
        """Report the order: where it was fixed, or, for one that was fixed at import, where it is
        used.
        """
        if self.done:
            return
        if self.frame.mode == HOST:
            if frame.mode != HOST:
                frame.emit(node, self.cause)
            return
        self.done = True
        fix: Plan | None = None
        if self.expr is not None and not self.cause.chain:
            text = self.frame.module.source.segment(self.expr)
            whole = self.node if _is_list(self.node, self.expr) else self.expr
            if text:
                fix = ("unsafe", "Sort it", [(whole, f"sorted({text})")], "replace")
        if self.frame.mode == PLAIN and self.frame.in_region:
            self.frame.m.report(self.frame, self.node, self.cause, fix=fix)
        else:
            self.frame.emit(self.node, self.cause, fix=fix)


def _is_list(node: ast.AST, inner: ast.AST) -> bool:
    """Whether a node is `list(inner)`, which `sorted` gives as well."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "list"
        and node.args[0] is inner
    )


def pending(frame: Frame, node: ast.AST, what: str, expr: ast.AST | None = None) -> Pending:
    """A new arbitrary order fixed at `node`; sorting `expr` would make it a certain one."""
    return Pending(frame, node, Cause(CODE, what, frame.place(node)), expr)


def is_set(value: Value | None) -> bool:
    """Whether a value may be a set whose order differs between processes."""
    if value is None:
        return False
    if value.__class__ is Set:
        return not value.stable
    if value.__class__ is Union:
        return any(is_set(option) for option in value.options)
    return False


def order_of(frame: Frame, node: ast.AST, value: Value | None, verb: str) -> Pending | None:
    """The arbitrary order that going through `value` at `node` would follow."""
    if value is None:
        return None
    if isinstance(value, Union):
        for option in value.options:
            found = order_of(frame, node, option, verb)
            if found is not None:
                return found
        return None
    if isinstance(value, Star):
        return order_of(frame, node, value.value, verb)
    if isinstance(value, Set):
        if value.stable:
            return None
        what = f"`{frame.segment(node)}` {verb} a set, whose order differs in every process"
        return pending(frame, node, what, _sortable(node, verb))
    if isinstance(value, Container):
        return value.order
    if isinstance(value, Inst):
        return order_of_items(frame, node, value)
    return None


def order_of_items(frame: Frame, node: ast.AST, value: Inst) -> Pending | None:
    """The arbitrary order of what the `__iter__` of a class gives."""
    for name in ("__iter__", "__aiter__"):
        made = frame.m.call_special(frame, node, value, name, [])
        if isinstance(made, (Seq, Dict)):
            return made.order
    return None


def _sortable(node: ast.AST, verb: str) -> ast.AST | None:
    """The expression to sort: the node itself where a value is written out, else the argument of
    the call.
    """
    if verb == "writes out":
        return _written(node)
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and verb in ("lists", "joins", "numbers", "goes through")
    ):
        return node.args[0]
    return None


def _written(node: ast.AST) -> ast.AST | None:
    """What is turned into text at a node."""
    if isinstance(node, ast.Call):
        func = node.func
        name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
        if name in ("str", "repr", "ascii"):
            return node.args[0] if len(node.args) == 1 else None
        return None if name in ("format", "pformat", "dedent", "format_map") else node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return None if isinstance(node.right, ast.Tuple) else node.right
    return node


def use_order(
    frame: Frame, node: ast.AST, value: Value | None, depth: int = 0, seen: set[Value] | None = None
) -> None:
    """The order of `value` is looked at, or the value leaves what is followed."""
    if value is None or depth > 3 or value.__class__ in ATOMS:
        return
    if isinstance(value, Union):
        for option in value.options:
            use_order(frame, node, option, depth + 1, seen)
    elif isinstance(value, Star):
        use_order(frame, node, value.value, depth + 1, seen)
    elif isinstance(value, Container):
        seen = set() if seen is None else seen
        if value in seen:
            return
        seen.add(value)
        if value.order is not None:
            value.order.matters(frame, node)
        elif isinstance(value, Seq) and value.items:
            for item in value.items:
                use_order(frame, node, item, depth + 1, seen)
        elif isinstance(value, Dict):
            for item in value.entries.values():
                use_order(frame, node, item, depth + 1, seen)
        if value.elem is not None and not isinstance(value, Set):
            use_order(frame, node, value.elem, depth + 1, seen)
    elif isinstance(value, Bound):
        use_order(frame, node, value.receiver, depth + 1, seen)


def see_order(frame: Frame, node: ast.AST, value: Value | None, verb: str) -> bool:
    """The order of `value`, a set included, is looked at. Returns whether it is arbitrary."""
    found = order_of(frame, node, value, verb)
    if found is None:
        use_order(frame, node, value)
        return False
    found.matters(frame, node)
    return True


def order_event(frame: Frame, node: ast.AST) -> None:
    """Something happens whose sequence matters: report the arbitrary orders of its loops."""
    for loop in frame.loops:
        if loop.order is not None:
            found, loop.order = loop.order, None
            found.matters(frame, node)


def loop_order(frame: Frame) -> Pending | None:
    """The arbitrary order that the innermost such loop runs in."""
    for loop in reversed(frame.loops):
        if loop.order is not None:
            return loop.order
    return None


def grow(frame: Frame, node: ast.AST, container: Container) -> None:
    """An element is added to a list or mapping; in a loop over a set that fixes an arbitrary
    order.
    """
    if not frame.loops or isinstance(container, Set):
        return
    for loop in frame.loops:
        if loop.order is not None and container.born < loop.serial:
            if container.order is None:
                container.order = loop.order
            return


def rebase(frame: Frame, node: ast.AST, value: Value | None, callee: Frame, name: str) -> Value | None:
    """A value that a helper returns: an order fixed inside the helper is, for the caller, fixed by
    the call.
    """
    if isinstance(value, Union):
        options = tuple(
            option
            for option in (rebase(frame, node, o, callee, name) for o in value.options)
            if option is not None
        )
        return Union(options)
    if not isinstance(value, (Seq, Dict)) or value.order is None:
        return value
    order = value.order
    if order.frame is not callee or callee.in_region:
        return value
    copy: Container
    if isinstance(value, Seq):
        copy = Seq(value.kind, value.items, value.elem, value.home)
    else:
        copy = Dict(value.entries, value.elem, value.home)
    copy.order = Pending(frame, node, order.cause.through(name, frame.place(node)))
    return copy


def augment_container(f: Frame, node: ast.AST, container: Container, value: Value | None) -> None:
    """`container += value` and the like."""
    if isinstance(value, Container):
        container.elem = join(container.elem, element_of(value))
        if isinstance(container, Seq):
            container.order = container.order or order_of(f, node, value, "extends a list by")
    if isinstance(container, Set):
        container.stable = container.stable and isinstance(value, Set) and value.stable
    grow(f, node, container)


def yielded(f: Frame, node: ast.AST, value: Value | None) -> None:
    """`yield value`."""
    f.yielded = join(f.yielded, value)
    if f.loops and value is not None:
        for hook in f.m.hooks.escaping:
            for loop in f.loops:
                hook(f, loop.node, value, "yield")
    f.m.consume(value)
    found = loop_order(f)
    if found is not None:
        f.yield_order = f.yield_order or found


def yielded_from(f: Frame, node: ast.YieldFrom, value: Value | None) -> None:
    """`yield from value`."""
    f.yielded = join(f.yielded, f.m.elements(f, node, value))
    f.yield_order = f.yield_order or order_of(f, node, value, "yields from")
