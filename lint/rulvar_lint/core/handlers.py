"""Interpreting `try` and `with`: what journaled work is inside of."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import element_of, join
from rulvar_lint.core.calls import consume
from rulvar_lint.core.classes import call_special, find_attribute
from rulvar_lint.core.frame import FALLS, LEAVES, STEP, Frame, Guard
from rulvar_lint.core.order import order_event
from rulvar_lint.core.statements import exec_block
from rulvar_lint.core.targets import assign
from rulvar_lint.core.values import Coro, Ext, Func, Inst, Obj, Seq, Value, options_of

if TYPE_CHECKING:
    from rulvar_lint.core.values import Env


def exec_try(f: Frame, node: ast.Try) -> int:
    base = f.fork()
    guard, whole = Guard("try", node), Guard("finally", node)
    f.guards += [whole, guard]
    end = exec_block(f, node.body)
    f.guards.remove(guard)
    in_body = f.env
    ends: list[tuple[int, Env]] = []
    f.env = in_body.copy() if node.handlers else in_body
    other = exec_block(f, node.orelse) if node.orelse and not end else end
    ends.append((other, f.env))
    for handler in node.handlers:
        f.env = base.copy()
        f.merge(in_body)
        if handler.type is not None:
            f.ev[handler.type.__class__](f, handler.type)
        if handler.name:
            f.env[handler.name] = Obj("builtins.Exception")
        ends.append((exec_block(f, handler.body), f.env))
    f.guards.remove(whole)
    falling = [env for how, env in ends if not how]
    f.env = falling[0] if falling else ends[0][1]
    for env in falling[1:] or ([] if falling else [env for _, env in ends[1:]]):
        f.merge(env)
    if node.finalbody and exec_block(f, node.finalbody):
        result = LEAVES
    else:
        result = FALLS if falling else min(how for how, _ in ends)
    f.settle()
    for part in (guard, whole) if whole.first is not None else ():
        if part.first is not None:
            for hook in f.m.hooks.guard:
                hook(f, part)
    return result


def exec_with(f: Frame, node: ast.With | ast.AsyncWith) -> int:
    is_async = isinstance(node, ast.AsyncWith)
    depth = len(f.guards)
    managers: list[Inst] = []
    for item in node.items:
        expr = item.context_expr
        value = f.ev[expr.__class__](f, expr)
        if is_async and value is not None:
            for hook in f.m.hooks.awaited:
                hook(f, expr, value, "async with")
        for hook in f.m.hooks.contexts:
            hook(f, node, value, "async with" if is_async else "with", expr)
        entered = enter(f, expr, value, is_async)
        managers += [option for option in options_of(value) if isinstance(option, Inst)]
        if item.optional_vars is not None:
            assign(f, item.optional_vars, entered, node)
    end = exec_block(f, node.body)
    for manager in managers:
        call_special(f, node, manager, "__aexit__" if is_async else "__exit__", [None, None, None])
    f.close_guards(depth)
    return end


def enter(f: Frame, node: ast.AST, value: Value | None, is_async: bool) -> Value | None:
    """What `as` gives."""
    found: Value | None = None
    for option in options_of(value):
        entered: Value | None = option
        if isinstance(option, Inst):
            name = "__aenter__" if is_async else "__enter__"
            special = find_attribute(option.decl, name)
            if special is not None and isinstance(special[1], Func):
                entered = call_special(f, node, option, name, []) or option
        elif isinstance(option, Seq) and option.kind == "gen":
            entered = element_of(option)
        elif isinstance(option, Coro):
            option.used = True
            entered = option.result
        elif isinstance(option, Ext):
            entered = Obj(option.path)
        found = join(found, entered)
    return found


def async_iterated(f: Frame, node: ast.AST, expr: ast.expr, value: Value | None) -> Value | None:
    """The value that an `async for` goes through."""
    if value is None:
        return None
    for option in options_of(value):
        if isinstance(option, Coro):
            option.used = True
            value = option.result
    for hook in f.m.hooks.awaited:
        hook(f, expr, value, "async for")
    return value


STATEMENTS: Final[dict[type, Callable[[Frame, Any], int]]] = {
    ast.Try: exec_try,
    ast.TryStar: exec_try,
    ast.With: exec_with,
    ast.AsyncWith: exec_with,
}


def awaited(f: Frame, node: ast.Await, value: Value) -> Value | None:
    """`await value`."""
    for hook in f.m.hooks.awaited:
        hook(f, node.value, value, "await")
    found: Value | None = None
    for option in options_of(value):
        if isinstance(option, Coro):
            consume(option)
            found = join(found, option.result)
            if option.ctx and f.mode != STEP:
                f.journal(node)  # it may have been made elsewhere
        elif isinstance(option, Inst):
            found = join(found, call_special(f, node, option, "__await__", []))
        else:
            found = join(found, option)
    if f.loops and f.mode != STEP and not isinstance(value, Coro):
        order_event(f, node)
    return found
