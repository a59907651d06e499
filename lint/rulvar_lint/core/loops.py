"""Interpreting loops and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.choices import chosen
from rulvar_lint.core.frame import FALLS, JUMPS, LEAVES, Frame, Loop
from rulvar_lint.core.nodes import walk
from rulvar_lint.core.operators import iterate
from rulvar_lint.core.order import Pending, order_of_items, pending
from rulvar_lint.core.statements import exec_block
from rulvar_lint.core.targets import assign
from rulvar_lint.core.values import Const, Container, Func, Inst, Obj, Set, Value, options_of

if TYPE_CHECKING:
    from rulvar_lint.core.values import Env

_MISSING: Final = object()
_MAX_PASSES: Final = 3


def _loop_order(
    f: Frame, node: ast.AST, iterable: ast.expr, value: Value | None, what: str
) -> Pending | None:
    """The arbitrary order a loop runs in. For a set it is fixed by the loop itself."""
    for option in options_of(value):
        if isinstance(option, Set) and not option.stable:
            text = f"{what} goes through `{f.segment(iterable)}`, a set, whose order differs in every process"
            return pending(f, node, text, iterable)
        if isinstance(option, Container) and option.order is not None:
            return option.order
        if option.__class__ is Inst:
            return order_of_items(f, iterable, option)
    return None


def exec_for(f: Frame, node: ast.For | ast.AsyncFor) -> int:
    value = f.ev[node.iter.__class__](f, node.iter)
    if isinstance(node, ast.AsyncFor):
        value = f.m.async_iterated(f, node, node.iter, value)
    depth = len(f.guards)
    if value is not None:
        for hook in f.m.hooks.contexts:
            hook(f, node, value, "for", node.iter)
    element = iterate(f, node.iter, value) if value is not None else None
    f.m.tick += 1
    loop = Loop(node, f.m.tick, f.module.bounds)
    loop.is_retry = any(guard.kind == "retry" for guard in f.guards[depth:])
    loop.order = _loop_order(f, node, node.iter, value, "the loop") if value is not None else None
    end = _run(f, node, loop, lambda: assign(f, node.target, element, node))
    f.close_guards(depth)
    return _else(f, node.orelse, end)


def exec_while(f: Frame, node: ast.While) -> int:
    f.m.tick += 1
    loop = Loop(node, f.m.tick, f.module.bounds)

    def test() -> None:
        value = f.ev[node.test.__class__](f, node.test)
        if value is not None:
            f.m.test(f, node.test, value)

    _run(f, node, loop, test)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if endless and not _breaks(node.body):
        return LEAVES
    return _else(f, node.orelse, FALLS)


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop body has a `break` of its own."""
    for node in body:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            if _breaks(node.orelse):
                return True
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "finalbody"):
            if _breaks(getattr(node, name, [])):
                return True
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            if _breaks(part.body):
                return True
    return False


def _run(f: Frame, node: ast.For | ast.AsyncFor | ast.While, loop: Loop, head: Callable[[], None]) -> int:
    before = f.fork()
    loop.before = before
    outer_jumps, f.jumps = f.jumps, []
    f.loops.append(loop)
    try:
        head()
        end = exec_block(f, node.body)
        seen = before
        for index in range(_MAX_PASSES):
            if not _carries(seen, f.env, index > 0):
                break
            seen = f.env.copy()
            head()
            exec_block(f, node.body)
    finally:
        f.loops.pop()
        jumps, f.jumps = f.jumps, outer_jumps
    for env in jumps or ():
        f.merge(env)
    f.merge(before)
    f.settle()
    return end


def _carries(before: Env, after: Env, again: bool) -> bool:
    """Whether an iteration changes what a variable is, so that the next may see something new; after
    the second one only names count.
    """
    for name, value in after.items():
        if value is None:
            continue
        cls = value.__class__
        if cls is Const and value.value.__class__ is str:  # type: ignore[attr-defined]
            old: Any = before.get(name)
            if old.__class__ is Const and old.value != value.value:  # type: ignore[attr-defined]
                return True  # the name of a state, say
        elif again:
            continue
        elif value.taint is not None or (cls is not Const and cls is not Obj and cls is not Func):
            old = before.get(name, _MISSING)
            if old is not _MISSING and old is not value and old.__class__ is not cls:
                return True
    return False


def _else(f: Frame, orelse: list[ast.stmt], end: int) -> int:
    if orelse:
        other = exec_block(f, orelse)
        if end and other == LEAVES and end != JUMPS:
            return LEAVES
    return FALLS


# Comprehensions


def _generators(
    f: Frame, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
) -> tuple[list[Loop], Pending | None, dict[str, Any]]:
    """Bind the targets of a comprehension. The third result is what they hide."""
    loops: list[Loop] = []
    hidden: dict[str, Any] = {}
    order: Pending | None = None
    for generator in node.generators:
        value = f.ev[generator.iter.__class__](f, generator.iter)
        if generator.is_async:
            value = f.m.async_iterated(f, node, generator.iter, value)
        element = iterate(f, generator.iter, value) if value is not None else None
        f.m.tick += 1
        loop = Loop(node, f.m.tick, f.module.bounds)
        loop.order = (
            _loop_order(f, node, generator.iter, value, "the comprehension") if value is not None else None
        )
        order = order or loop.order
        if isinstance(node, ast.SetComp):
            loop.order = loop.order if _has_await(node) else None
        for name in _target_names(generator.target):
            hidden.setdefault(name, f.env.get(name, _MISSING))
        loops.append(loop)
        f.loops.append(loop)
        assign(f, generator.target, element, generator)
        for test in generator.ifs:
            tested = f.ev[test.__class__](f, test)
            if tested is not None:
                f.m.test(f, test, tested)
                for name in _target_names(generator.target) if tested.taint is not None else ():
                    f.env[name] = chosen(f, f.env.get(name), tested)
    return loops, order, hidden


def _has_await(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Await) for inner in walk(node))


def _target_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    return [inner.id for inner in walk(target) if isinstance(inner, ast.Name)]


def _close(f: Frame, loops: list[Loop], hidden: dict[str, Any]) -> None:
    del f.loops[len(f.loops) - len(loops) :]
    for name, value in hidden.items():
        if value is _MISSING:
            f.env.pop(name, None)
        else:
            f.env[name] = value


def eval_sequence(f: Frame, node: ast.ListComp | ast.GeneratorExp) -> Value | None:
    loops, order, hidden = _generators(f, node)
    elem = f.ev[node.elt.__class__](f, node.elt)
    _escapes(f, node, elem)
    _close(f, loops, hidden)
    made = f.new_seq("list" if isinstance(node, ast.ListComp) else "gen", None, elem)
    made.order = order if order is None or not order.done else None
    return made


def eval_setcomp(f: Frame, node: ast.SetComp) -> Value | None:
    loops, _, hidden = _generators(f, node)
    elem = f.ev[node.elt.__class__](f, node.elt)
    _escapes(f, node, elem)
    _close(f, loops, hidden)
    stable = getattr(elem, "type", "") == "builtins.int"
    return f.new_set(elem, stable)


def eval_dictcomp(f: Frame, node: ast.DictComp) -> Value | None:
    loops, order, hidden = _generators(f, node)
    f.ev[node.key.__class__](f, node.key)
    value: ast.expr | None = node.value  # newer Pythons unpack mappings here
    elem = None if value is None else f.ev[value.__class__](f, value)
    _escapes(f, node, elem)
    _close(f, loops, hidden)
    made = f.new_dict(None, elem)
    made.order = order if order is None or not order.done else None
    return made


def _escapes(f: Frame, node: ast.AST, elem: Value | None) -> None:
    """The element of a comprehension outlives its iteration."""
    if elem is not None:
        for hook in f.m.hooks.escaping:
            hook(f, node, elem, "comprehension")


def elements(f: Frame, node: ast.AST, value: Value | None) -> Value | None:
    """The elements of a value, for unpacking."""
    return iterate(f, node, value)


EXPRESSIONS: Final[dict[type, Callable[[Frame, Any], Value | None]]] = {
    ast.ListComp: eval_sequence,
    ast.GeneratorExp: eval_sequence,
    ast.SetComp: eval_setcomp,
    ast.DictComp: eval_dictcomp,
}
STATEMENTS: Final[dict[type, Callable[[Frame, Any], int]]] = {
    ast.For: exec_for,
    ast.AsyncFor: exec_for,
    ast.While: exec_while,
}
