"""Calls on ctx: what is journaled, what identifies it, which functions run outside replay."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.alternatives import element_of
from rulvar_lint.core.arguments import Args, holds_ctx
from rulvar_lint.core.calls import call_value, consume
from rulvar_lint.core.frame import PLAIN, REGION, STEP, StepBody
from rulvar_lint.core.order import order_event, order_of, use_order
from rulvar_lint.core.values import (
    ATOMS,
    Bound,
    Class,
    Container,
    Coro,
    Ctx,
    Dict,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Seq,
    Set,
    Star,
    Union,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.memory import Result
    from rulvar_lint.core.values import Env

# Parameters of the calls, in order; the first ones identify the call.
SIGNATURES: Final[dict[str, tuple[str, ...]]] = {
    "agent": ("prompt",),
    "step": ("label", "fn", "deps", "key", "returns"),
    "parallel": ("tasks",),
    "pipeline": ("items",),
    "workflow": ("child", "args", "key"),
    "await_external": ("key", "schema", "prompt"),
    "brief": ("prompt",),
    "orchestrate": ("goal",),
}
_INDEX: Final = {
    (method, name): index for method, names in SIGNATURES.items() for index, name in enumerate(names)
}
COROUTINES: Final = frozenset(SIGNATURES)
SHIMS: Final = {
    "now": "datetime.datetime",
    "time": "builtins.float",
    "random": "builtins.float",
    "uuid": "uuid.UUID",
}
# Arguments that are written down: a coroutine there has not been awaited.
_WRITTEN: Final = frozenset({"prompt", "key", "label", "args", "goal", "deps"})
_INERT: Final = frozenset({*ATOMS, Func})
_FUNCTIONS: Final = ("fn",)
# What `ctx.step` and friends may do without being journaled.
TELEMETRY: Final = frozenset({"log", "budget", "phase"})


class CtxCall:
    """One call on ctx: `name` is the method, `node` the call, `loops` the loops around it,
    innermost last. A call that is `refused` cannot run as it is written.
    """

    __slots__ = ("args", "frame", "loops", "name", "node", "refused")

    def __init__(self, name: str, node: ast.AST, args: Args, frame: Frame) -> None:
        self.name = name
        self.node = node
        self.args = args
        self.frame = frame
        self.refused = False
        self.loops = tuple(loop.node for loop in frame.loops if not loop.is_retry)

    def value(self, name: str) -> Value | None:
        """The value of the argument `name`."""
        return self.args.get(self._index(name), name)

    def expr(self, name: str) -> ast.expr | None:
        """The expression of the argument `name`."""
        return self.args.node(self._index(name), name)

    def _index(self, name: str) -> int:
        return _INDEX.get((self.name, name), 1 << 30)


def ctx_call(f: Frame, node: ast.AST, name: str, args: Args) -> Value | None:
    """Call `ctx.<name>`."""
    call = CtxCall(name, node, args, f)
    if name in SHIMS:
        return _shim(f, call)
    if name not in COROUTINES:
        for value in args.values() if name != "log" else ():
            consume(value)
        return Obj("rulvar.Phase") if name == "phase" else None
    _run_given_functions(f, call)
    for hook in f.m.hooks.ctx_call:
        hook(f, call)
    _see_arguments(f, call)
    typed = args.kw_nodes and (args.kw_nodes.get("schema") or args.kw_nodes.get("returns"))
    result = f.m.from_annotation(f.module, typed) if typed else None
    coro = Coro(node, True, result, f"ctx.{name}")
    given = args.values()
    if not _INERT.issuperset(map(type, given)):
        lost = [value for value in map(call.value, _WRITTEN) if value is not None]
        given = [value for value in given if not any(value is one for one in lost)]
    coro.held = tuple(given)
    if f.mode == REGION:
        f.calls.append(call)
        if isinstance(node, ast.Call):
            f.module.ctx_calls[node] = name
        f.coros.append(coro)
    else:
        coro.used = True
    f.journal(node)
    order_event(f, node)
    return coro


def _shim(f: Frame, call: CtxCall) -> Value:
    for hook in f.m.hooks.ctx_call:
        hook(f, call)
    if f.mode == STEP:
        f.journal(call.node)
    for value in call.args.values():
        use_order(f, call.node, value)
    return Obj(SHIMS[call.name], None, call.node)


def _see_arguments(f: Frame, call: CtxCall) -> None:
    """Arguments become part of the identity or go to other code: their order matters, their
    coroutines run.
    """
    functions = _FUNCTIONS if call.name == "step" else ()
    names = SIGNATURES[call.name]
    for index, value in enumerate(call.args.pos):
        if value is not None and not (index < len(names) and names[index] in functions):
            written = call.args.pos_nodes[index] if index < len(call.args.pos_nodes) else None
            _see_argument(f, call.node, written, value, names[index] if index < len(names) else "")
    for name, value in call.args.kw.items():
        if value is not None and name not in functions and name not in ("tools", "label"):
            _see_argument(f, call.node, call.args.kw_nodes.get(name), value, name)
    if call.args.rest is not None:
        consume(call.args.rest)


def _see_argument(f: Frame, call: ast.AST, written: ast.AST | None, value: Value, name: str) -> None:
    if name not in _WRITTEN:
        consume(value)
    serialise(f, written or call, value, expr=written)


def serialise(
    f: Frame,
    node: ast.AST,
    value: Value | None,
    depth: int = 0,
    seen: set[Value] | None = None,
    expr: ast.AST | None = None,
) -> None:
    """A value becomes JSON: the orders in it, those of sets included, are written down. `expr` is
    where the value itself is written, if that is known.
    """
    if value is None or depth > 4 or value.__class__ in ATOMS:
        return
    if isinstance(value, Set):
        found = order_of(f, node, value, "serialises")
        if found is not None:
            found.expr = expr
            found.matters(f, node)
        else:
            use_order(f, node, value)
    elif isinstance(value, Container):
        seen = set() if seen is None else seen
        if value in seen:
            return
        seen.add(value)
        use_order(f, node, value)
        if isinstance(value, Seq):
            for index, item in enumerate(value.items or ()):
                serialise(f, node, item, depth + 1, seen, _item_of(expr, index))
        elif isinstance(value, Dict):
            for key, item in value.entries.items():
                serialise(f, node, item, depth + 1, seen, _entry_of(expr, key))
        serialise(f, node, value.elem, depth + 1, seen)
    elif isinstance(value, Union):
        for option in value.options:
            serialise(f, node, option, depth + 1, seen, expr)
    elif isinstance(value, Star):
        serialise(f, node, value.value, depth + 1, seen)


def _item_of(expr: ast.AST | None, index: int) -> ast.AST | None:
    """The expression of an item of a list that is written out."""
    if not isinstance(expr, (ast.List, ast.Tuple)) or any(isinstance(e, ast.Starred) for e in expr.elts):
        return None
    return expr.elts[index] if index < len(expr.elts) else None


def _entry_of(expr: ast.AST | None, key: object) -> ast.AST | None:
    """The expression of an entry of a mapping that is written out."""
    if isinstance(expr, ast.Dict):
        for written, value in zip(expr.keys, expr.values, strict=True):
            if isinstance(written, ast.Constant) and written.value == key:
                return value
    return None


def _run_given_functions(f: Frame, call: CtxCall) -> None:
    """Step bodies, tools and hooks run outside replay; thunks and stages are replayed."""
    args = call.args
    if call.name == "step":
        fn = call.value("fn")
        for given in (*fn.args, *fn.keywords.values()) if fn.__class__ is Partial else ():
            use_order(f, call.node, given)
        result = exempt(f, call.node, fn, "step")
        for hook in f.m.hooks.step:
            hook(f, call, fn, result)
        return
    for name, value in args.kw.items():
        if value is not None and name == "tools":
            exempt(f, args.kw_nodes.get(name, call.node), value, "tool")
            use_order(f, call.node, value)
        elif value is not None and name.startswith("on_"):
            exempt(f, call.node, value, "hook")
    if call.name == "parallel":
        _run_thunks(f, call, call.value("tasks"), [])
    elif call.name == "pipeline":
        for value in args.pos[1:]:
            _run_thunks(f, call, value, [None])


def _run_thunks(f: Frame, call: CtxCall, value: Value | None, given: list[Value | None]) -> None:
    """Functions given to `ctx.parallel` and `ctx.pipeline` are replayed code. Those that are
    closures are judged where they are written; others are called from here.
    """
    for option in options_of(value):
        if isinstance(option, Container):
            _run_thunks(f, call, element_of(option), given)
        elif isinstance(option, Star):
            _run_thunks(f, call, option.value, given)
        elif isinstance(option, (Func, Partial, Bound, Ext, Class, Inst)):
            if isinstance(option, Func) and option.frame is not None:
                option.frame.closure_uses.append((f, option, call.node))
                continue
            consume(call_value(f, call.node, option, Args(list(given), {})))


def exempt(f: Frame, node: ast.AST, value: Value | None, kind: str) -> Result | None:
    """A function runs outside replay: as a step body, a tool or a hook."""
    found: Result | None = None
    for option in options_of(value):
        if isinstance(option, Container):
            exempt(f, node, element_of(option), kind)
        elif isinstance(option, Star):
            exempt(f, node, option.value, kind)
        elif isinstance(option, Partial):
            found = _exempt_partial(f, node, option, kind) or found
        elif isinstance(option, Func):
            found = _exempt_function(f, node, option, kind, None) or found
        elif isinstance(option, Inst) and kind == "step":
            f.m.call_special(_step_frame(f, node, kind), node, option, "__call__", [])
    return found


def _exempt_partial(f: Frame, node: ast.AST, value: Partial, kind: str) -> Result | None:
    if not isinstance(value.func, Func):
        return exempt(f, node, value.func, kind) if value.func is not None else None
    return _exempt_function(f, node, value.func, kind, Args(list(value.args), dict(value.keywords)))


def _exempt_function(f: Frame, node: ast.AST, func: Func, kind: str, args: Args | None) -> Result | None:
    decl = func.decl
    if func.frame is not None:
        func.frame.exempt.add(decl)
    if f.mode not in (REGION, PLAIN):
        return None
    if kind == "hook":
        return None
    env, _ = f.m.bind(f, func, args or Args([], {}))
    if kind == "tool" and not (args is not None and holds_ctx(args)):
        _forget_ctx(decl, env)
    body = StepBody(kind, node, f, decl)
    inline = func.frame is not None
    return f.m.run(func, env, STEP, body, 0 if inline else 1)


def _forget_ctx(decl: FunctionDecl, env: Env) -> None:
    """A tool's own `ctx` parameter is the tool context, not the workflow's."""
    for param in decl.params:
        if param.default is None and isinstance(env.get(param.name), Ctx):
            env[param.name] = None


def _step_frame(f: Frame, node: ast.AST, kind: str) -> Frame:
    frame = f.m.new_frame(f.module, f.decl, STEP, f.env, f.outer, f.outer_env)
    frame.step = StepBody(kind, node, f)
    frame.depth = 1
    return frame
