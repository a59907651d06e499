"""RLV301-RLV304: journaled work that is not awaited, or that something other than the engine
schedules.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.arguments import Args
from rulvar_lint.core.brackets import bracketed
from rulvar_lint.core.calls import consume
from rulvar_lint.core.carriers import carries_ctx, closed_over
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import PLAIN, REGION, STEP, Guard
from rulvar_lint.core.functions import is_ctx_work
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Coro,
    Ctx,
    Func,
    Inst,
    ModuleRef,
    Obj,
    Partial,
    Seq,
    Value,
    options_of,
)
from rulvar_lint.rules.origins import is_certain

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.values import Ext

COMBINATORS: Final = """asyncio.gather asyncio.wait asyncio.as_completed asyncio.create_task
asyncio.ensure_future asyncio.TaskGroup.create_task asyncio.AbstractEventLoop.create_task
asyncio.run_coroutine_threadsafe asyncio.shield asyncio.run asyncio.Task asyncio.AbstractEventLoop.run_until_complete
anyio.abc.TaskGroup.start_soon anyio.abc.TaskGroup.start
trio.Nursery.start_soon trio.Nursery.start aiostream.stream.merge aiometer.run_all
asyncer.TaskGroup.soonify"""
_STARTERS: Final = frozenset({"start_soon", "start", "soonify", "run_all"})
THREADS: Final = """asyncio.to_thread asyncio.AbstractEventLoop.run_in_executor threading.Thread
threading.Timer concurrent.futures.ThreadPoolExecutor.submit
concurrent.futures.ThreadPoolExecutor.map concurrent.futures.ProcessPoolExecutor.submit
concurrent.futures.ProcessPoolExecutor.map multiprocessing.Process anyio.to_thread.run_sync
trio.to_thread.run_sync _thread.start_new_thread multiprocessing.Pool.apply
multiprocessing.Pool.apply_async multiprocessing.Pool.map asgiref.sync.sync_to_async"""


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.region_end.append(_unawaited)
    hooks.dropped.append(_dropped)
    hooks.region_end.append(_alarms_end)
    hooks.on_call(COMBINATORS, _combined)
    hooks.on_call("asyncio.wait_for", _wait_for)
    hooks.on_call("signal.alarm signal.setitimer", _alarm)
    hooks.contexts.append(_timeout)
    hooks.guard.append(_timed)
    hooks.store.append(_store)
    hooks.store_item.append(_store_item)
    hooks.store_name.append(_store_name)
    hooks.mutation.append(_mutation)
    hooks.on_call(THREADS, _thread)
    hooks.on_call("contextvars.ContextVar.set", _context_variable)
    hooks.nested.append(_captured_by_tool)
    hooks.ctx_call.append(_given_to_tool)


# RLV301


def _unawaited(f: Frame) -> None:
    for coro in f.coros:
        if not coro.used:
            cause = Cause(
                "RLV301",
                f"`{coro.label}(...)` gives a coroutine that is never awaited",
                f.place(coro.node),
            )
            f.m.report(f, coro.node, cause, fix=_add_await(f, coro.node))


def _dropped(f: Frame, node: ast.AST, coro: Coro) -> None:
    """A helper, as a method of an object that keeps ctx, does not await its own call."""
    if f.mode == PLAIN and coro.ctx and not coro.is_task and coro.label != "helper":
        f.effect(node, "RLV301", f"`{coro.label}(...)` gives a coroutine that is never awaited")


def _add_await(f: Frame, node: ast.AST) -> Plan | None:
    if f.decl is None or not f.decl.is_async:
        return None
    if any(isinstance(above, (ast.GeneratorExp, ast.ClassDef)) for above in ancestors(f.decl.node, node)):
        return None  # what goes through the generator would have to be asynchronous; classes cannot be
    return ("safe", "Await the call", [(node, "await ")], "await")


# RLV302


def _combined(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if f.mode == STEP:
        return
    work = any(is_ctx_work(f, value) for value in args.values())
    if not work and ext.path.rpartition(".")[2] in _STARTERS and args.pos:
        work = _starts_ctx_work(f, node, args)
    if work:
        what = f"`{f.segment(getattr(node, 'func', node))}` schedules journaled work outside the engine"
        f.effect(node, "RLV302", what, fix=_to_parallel(f, node, ext))


_LISTS: Final = (ast.List, ast.ListComp)


def _to_parallel(f: Frame, node: ast.AST, ext: Ext) -> Plan | None:
    """`asyncio.gather(a, b)` as `ctx.parallel([a, b])`."""
    name = f.ctx_name()
    if (
        name is None
        or "RLV302" not in f.m.hooks.selected
        or ext.path != "asyncio.gather"
        or not isinstance(node, ast.Call)
        or node.keywords
        or not node.args
        or not is_certain(f, node)
    ):
        return None
    first, last = node.args[0], node.args[-1]
    parts: list[tuple[ast.AST, str, str]] = [(node.func, f"{name}.parallel", "replace")]
    if first is last and isinstance(first, ast.Starred) and isinstance(first.value, _LISTS):
        parts.append((first, f.module.source.segment(first.value) or "", "replace"))
    else:
        source = f.module.source
        parts += [
            (bracketed(source, first, node), "[", "before"),
            (bracketed(source, last, node), "]", "after"),
        ]
    return ("unsafe", "Use `ctx.parallel`", parts, "replace")


def _starts_ctx_work(f: Frame, node: ast.AST, args: Args) -> bool:
    if any(isinstance(value, Ctx) for value in args.pos[1:]):
        return True
    return makes_ctx_work(f, args.pos[0])


def makes_ctx_work(f: Frame, value: Value | None) -> bool:
    """Whether calling a function would do journaled work."""
    for option in options_of(value):
        if isinstance(option, Partial):
            if any(isinstance(v, Ctx) for v in (*option.args, *option.keywords.values())):
                return True
            if makes_ctx_work(f, option.func):
                return True
        elif isinstance(option, Func):
            env, _ = f.m.bind(f, option, Args([], {}))
            if f.m.run(option, env, PLAIN, f.step, f.depth + 1).journals:
                return True
        elif option.__class__.__name__ == "CtxMember":
            return True
    return False


# RLV303


def _wait_for(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if f.mode == STEP or not any(is_ctx_work(f, value) for value in args.values()):
        return
    timeout = args.get(1, "timeout")
    if isinstance(timeout, Const) and timeout.value is None:
        return
    first = args.node(0, "fut")
    if first is not None:
        _hide_combinators(f, first)
    f.effect(node, "RLV303", "`asyncio.wait_for` cancels journaled work by the wall clock")


def _hide_combinators(f: Frame, expr: ast.AST) -> None:
    for inner in ast.walk(expr):
        if isinstance(inner, ast.Call):
            f.m.hide(f.module.path, inner.lineno, "RLV302")


def _timeout(f: Frame, node: ast.AST, value: Value | None, how: str, expr: ast.expr) -> None:
    if any(isinstance(option, Obj) and option.type == "asyncio.Timeout" for option in options_of(value)):
        never = isinstance(expr, ast.Call) and len(expr.args) == 1 and isinstance(expr.args[0], ast.Constant)
        if not (never and expr.args[0].value is None):  # type: ignore[attr-defined]
            f.guards.append(Guard("timeout", expr))


def _alarm(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    seconds = args.pos[-1] if args.pos else None
    if isinstance(seconds, Const) and not seconds.value:
        _alarms_end(f)
    else:
        f.alarms.append(Guard("alarm", node))


def _alarms_end(f: Frame) -> None:
    for guard in f.alarms:
        if guard.first is not None:
            _timed(f, guard)
    f.alarms.clear()


def _timed(f: Frame, guard: Guard) -> None:
    if guard.kind in ("timeout", "alarm") and f.mode != STEP:
        f.effect(
            guard.node,
            "RLV303",
            f"`{f.segment(guard.node)}` cancels journaled work by the wall clock",
        )


# RLV304


def is_shared(base: Value | None) -> bool:
    """Whether a value outlives the run: module state, a class, a function."""
    for option in options_of(base):
        if isinstance(option, (Class, ModuleRef, Func)):
            return True
        if isinstance(option, (Inst, Container)) and option.scope in ("module", "default"):
            return True
        if isinstance(option, Obj) and option.type in ("threading.local", "types.SimpleNamespace"):
            return True
    return False


def root_name(node: ast.AST | None) -> str:
    """The variable that a target or receiver begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _escapes(f: Frame, node: ast.AST, target: ast.AST | None, base: Value | None, what: str) -> None:
    """ctx is put where it outlives the run; what a parameter refers to is judged by the caller."""
    name = root_name(target)
    lasts = any(
        isinstance(o, Class) or (isinstance(o, Container) and o.scope == "module") for o in options_of(base)
    )
    if not lasts and f.decl is not None and any(param.name == name for param in f.decl.params):
        cause = Cause("RLV304", f"`{f.decl.qualname}` keeps ctx", f.place(node))
        f.outward.setdefault("RLV304", cause)
        f.m.hide(f.module.path, getattr(node, "lineno", 1), "RLV205")
        return
    is_global = bool(name) and not f.is_local(name) and f.owner_of(name) is None
    if is_shared(base) or (is_global and (base is None or is_shared(f.m.static_global(f.module, name)))):
        _report(f, node, what)


def _report(f: Frame, node: ast.AST, what: str) -> None:
    f.m.hide(f.module.path, getattr(node, "lineno", 1), "RLV205")
    f.emit(node, Cause("RLV304", what, f.place(node)))


def _store(
    f: Frame,
    node: ast.AST,
    target: ast.AST | None,
    base: Value | None,
    name: str,
    value: Value | None,
) -> None:
    _hand_over(f, target, value)
    if f.mode in (REGION, PLAIN) and carries_ctx(value):
        _escapes(
            f,
            node,
            target,
            base,
            f"ctx is stored in `{f.segment(target) if target else name}`, which outlives the run",
        )


def _hand_over(f: Frame, target: ast.AST | None, value: Value | None) -> None:
    """What a helper puts into an object that it was given may be awaited by others."""
    if value is not None and f.decl is not None and f.decl not in f.m.registered:
        name = root_name(target)
        if any(param.name == name for param in f.decl.params):
            consume(value)


def _store_item(f: Frame, node: ast.AST, target: ast.AST, base: Value | None, value: Value | None) -> None:
    _hand_over(f, target, value)
    if f.mode in (REGION, PLAIN) and carries_ctx(value):
        _escapes(f, node, target, base, f"ctx is stored in `{f.segment(target)}`, which outlives the run")


def _store_name(f: Frame, node: ast.AST, name: str, kind: str, value: Value | None) -> None:
    if f.mode in (REGION, PLAIN) and kind == "global" and carries_ctx(value):
        _report(f, node, f"ctx is stored in the global `{name}`, which outlives the run")


def _mutation(f: Frame, node: ast.AST, receiver: Value | None, method: str, args: Args | None) -> None:
    target = node.func if isinstance(node, ast.Call) else None
    for value in args.values() if args is not None else ():
        _hand_over(f, target, value)
    if (
        f.mode not in (REGION, PLAIN)
        or args is None
        or not any(carries_ctx(value) for value in args.values())
    ):
        return
    _escapes(f, node, target, receiver, f"ctx is stored in `{root_name(target)}`, which outlives the run")


def _thread(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if f.mode == STEP:
        return
    if any(carries_ctx(value) for value in args.values()) or any(
        _closes_over_ctx(f, value) for value in args.values()
    ):
        f.emit(node, Cause("RLV304", "ctx crosses a thread or process boundary", f.place(node)))


def _closes_over_ctx(f: Frame, value: Value) -> bool:
    if not isinstance(value, Func) or value.frame is None:
        return False
    return bool(closed_over(value)) or makes_ctx_work(f, value)


def _context_variable(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    if f.mode in (REGION, PLAIN) and any(carries_ctx(value) for value in args.values()):
        _report(f, node, "ctx is stored in a context variable, which outlives the run")


def _captured_by_tool(f: Frame, node: ast.AST) -> None:
    if f.step is not None and f.step.kind == "tool":
        f.m.report(
            f,
            node,
            Cause("RLV304", "a tool uses the ctx of the workflow that declared it", f.place(node)),
        )


def _given_to_tool(f: Frame, call: CtxCall) -> None:
    """`tools=[partial(ask, ctx)]`, and methods of objects that keep ctx."""
    tools, expr = call.args.kw.get("tools"), call.args.kw_nodes.get("tools")
    if tools is None or expr is None:
        return
    values = tools.items if isinstance(tools, Seq) and tools.items else [tools]
    written = expr.elts if isinstance(expr, (ast.List, ast.Tuple)) else []
    for index, value in enumerate(values):
        if any(_takes_ctx_along(f, option) for option in options_of(value)):
            node = written[index] if len(written) == len(values) else expr
            f.emit(node, Cause("RLV304", "a tool is given the ctx of the workflow", f.place(node)))


def _takes_ctx_along(f: Frame, tool: Value) -> bool:
    if isinstance(tool, Partial):
        return carries_ctx(tool)
    return isinstance(tool, Func) and tool.bound is not None and makes_ctx_work(f, tool)
