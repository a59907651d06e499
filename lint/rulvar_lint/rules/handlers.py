"""RLV307, RLV308: constructs that swallow what the engine raises, and retries around journaled
work.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core import hints
from rulvar_lint.core.arguments import holds_ctx
from rulvar_lint.core.classes import find_attribute
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import HOST, STEP, Guard
from rulvar_lint.core.nodes import own_nodes
from rulvar_lint.core.values import Ext, Func, Inst, Obj, Seq, Star, Value, options_of
from rulvar_lint.core.words import names
from rulvar_lint.rules.concurrency import makes_ctx_work

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks

_SWALLOWS: Final = names("""builtins.BaseException builtins.GeneratorExit asyncio.CancelledError
    asyncio.exceptions.CancelledError builtins.BaseExceptionGroup anyio.get_cancelled_exc_class trio.Cancelled""")
_RETRIES: Final = (
    "tenacity.",
    "backoff.",
    "stamina.",
    "retrying.",
    "retry.",
    "retry_async.",
    "aioretry.",
    "opnieuw.",
    "asyncstdlib.retry",
    "redo.",
    "pyfailsafe.",
)

_RETRYING_CALLS: Final = """tenacity.Retrying.__call__ tenacity.Retrying.call tenacity.Retrying.wraps
backoff.on_exception().__call__ backoff.on_predicate().__call__ stamina.retry().__call__
retrying.retry().__call__"""


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.contexts.append(_context)
    hooks.guard.append(_guarded)
    hooks.region_end.append(_decorators)
    hooks.helper_end.append(_decorators)
    hooks.on_call(_RETRYING_CALLS, _retried)


def _context(f: Frame, node: ast.AST, value: Value | None, how: str, expr: ast.expr) -> None:
    for option in options_of(value):
        if isinstance(option, Obj):
            if option.type == "contextlib.suppress" and isinstance(option.node, ast.Call):
                if any(_swallows(f, arg) for arg in option.node.args):
                    f.guards.append(Guard("suppress", expr))
            elif option.type == "tenacity.Retrying":
                f.guards.append(Guard("retry", expr))
        elif (isinstance(option, Seq) and isinstance(expr, ast.Call) and _yield_is_swallowed(f, expr)) or (
            isinstance(option, Inst) and _exit_swallows(option, how)
        ):
            f.guards.append(Guard("suppress", expr))


def _exit_swallows(manager: Inst, how: str) -> bool:
    """Whether a context manager of the project says that it has handled whatever is raised."""
    found = find_attribute(manager.decl, "__aexit__" if how == "async with" else "__exit__")
    if found is None or not isinstance(found[1], Func):
        return False
    ends = [stmt for stmt in found[1].decl.body if isinstance(stmt, ast.Return)]
    return bool(ends) and isinstance(ends[0].value, ast.Constant) and ends[0].value.value is True


def _yield_is_swallowed(f: Frame, call: ast.Call) -> bool:
    """Whether a generator that is a context manager catches all that comes out of its `yield`."""
    if not isinstance(call.func, (ast.Name, ast.Attribute)):
        return False
    for option in options_of(f.ev[call.func.__class__](f, call.func)):
        if isinstance(option, Func) and "contextmanager" in option.decl.flags:
            decl = option.decl
            inside = f.m.new_frame(decl.module, decl, HOST, {}, option.frame, option.env)
            if any(_catches_all(inside, node) for node in own_nodes(decl.node)):
                return True
    return False


def _catches_all(f: Frame, node: ast.AST) -> bool:
    """Whether a statement with a `yield` inside lets neither suspension nor cancellation out."""
    if isinstance(node, (ast.Try, ast.TryStar)) and _yields(node.body):
        return any(
            (handler.type is None or _swallows(f, handler.type))
            and not always_raises(handler.body, handler.name)
            for handler in node.handlers
        )
    if not isinstance(node, ast.With) or not _yields(node.body):
        return False
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    for call in calls:
        head = f.ev[call.func.__class__](f, call.func)
        if isinstance(head, Ext) and head.path == "contextlib.suppress":
            return any(_swallows(f, arg) for arg in call.args)
    return False


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Yield) for stmt in body for node in ast.walk(stmt))


def _guarded(f: Frame, guard: Guard) -> None:
    if f.mode == STEP:
        return
    if guard.kind == "suppress":
        _report(f, guard.node, f"`{f.segment(guard.node)}` swallows suspension and cancellation")
    elif guard.kind == "retry":
        f.effect(
            guard.node,
            "RLV308",
            f"`{f.segment(guard.node)}` re-runs journaled work outside the engine",
            "warning",
        )
    elif guard.kind == "try":
        _judge_try(f, guard.node)
    elif guard.kind == "finally":
        for jump in _jumps(getattr(guard.node, "finalbody", []), False):
            kind = type(jump).__name__.lower()
            _report(f, jump, f"`{kind}` in `finally` discards suspension and cancellation")


def _report(f: Frame, node: ast.AST, what: str, fix: object = None) -> None:
    f.emit(node, Cause("RLV307", what, f.place(node)), fix=fix)


def _judge_try(f: Frame, node: ast.AST) -> None:
    assert isinstance(node, (ast.Try, ast.TryStar))
    for handler in node.handlers:
        if handler.type is not None and not _swallows(f, handler.type):
            continue
        if always_raises(handler.body, handler.name):
            continue
        if handler.type is None:
            _report(
                f,
                handler,
                "a bare `except` swallows suspension and cancellation",
                _narrow(f, handler),
            )
        else:
            _report(
                f,
                handler,
                f"`except {f.segment(handler.type)}` swallows suspension and cancellation",
            )


def _narrow(f: Frame, handler: ast.ExceptHandler) -> Plan | None:
    line = f.module.source.line_text(handler.lineno)
    start = handler.col_offset
    if not line.isascii() or line[start : start + 7].rstrip(": ") != "except":
        return None
    return ("safe", "Catch `Exception` only", [(handler, "except Exception")], "keyword")


def _swallows(f: Frame, expr: ast.expr) -> bool:
    """Whether an exception type, or one in a tuple of them, covers suspension or cancellation."""
    if isinstance(expr, ast.Tuple):
        return any(_swallows(f, elt) for elt in expr.elts)
    if isinstance(expr, ast.Starred):
        return _swallows(f, expr.value)
    if isinstance(expr, ast.Call):
        return _value_swallows(f.ev[expr.func.__class__](f, expr.func))
    return _value_swallows(f.ev[expr.__class__](f, expr))


def _value_swallows(value: Value | None) -> bool:
    for option in options_of(value):
        if isinstance(option, Ext) and option.path in _SWALLOWS:
            return True
        if isinstance(option, Seq) and any(_value_swallows(item) for item in option.items or ()):
            return True
        if isinstance(option, Star) and _value_swallows(option.value):
            return True
    return False


def always_raises(body: list[ast.stmt], name: str | None) -> bool:
    """Whether every way through a handler ends in raising what was caught."""
    for stmt in body:
        if isinstance(stmt, ast.Raise):
            return _reraises(stmt, name)
        if isinstance(stmt, (ast.Return, ast.Break, ast.Continue)):
            return False
        if isinstance(stmt, ast.If):
            if always_raises(stmt.body, name) and always_raises(stmt.orelse, name):
                return True
            if _leaves(stmt.body, name) or _leaves(stmt.orelse, name):
                return False
        elif isinstance(stmt, (ast.With, ast.AsyncWith)):
            if always_raises(stmt.body, name):
                return True
            if _leaves(stmt.body, name):
                return False
        elif isinstance(stmt, (ast.Try, ast.TryStar)):
            if always_raises(stmt.finalbody, name):
                return True
            if always_raises(stmt.body, name) and all(always_raises(h.body, name) for h in stmt.handlers):
                return True
            if _leaves(stmt.body, name) or any(_leaves(h.body, name) for h in stmt.handlers):
                return False
        elif isinstance(stmt, (ast.For, ast.AsyncFor, ast.While)):
            if _leaves(stmt.body, name) or _leaves(stmt.orelse, name):
                return False
        elif isinstance(stmt, ast.Match):
            ends = [always_raises(case.body, name) for case in stmt.cases]
            if ends and all(ends) and _is_total(stmt):
                return True
            if any(_leaves(case.body, name) for case in stmt.cases):
                return False
    return False


def _is_total(stmt: ast.Match) -> bool:
    last = stmt.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None


def _reraises(stmt: ast.Raise, name: str | None) -> bool:
    raised = stmt.exc
    if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Attribute):
        if raised.func.attr != "with_traceback":
            return False
        raised = raised.func.value
    return raised is None or (isinstance(raised, ast.Name) and raised.id == name)


def _leaves(body: list[ast.stmt], name: str | None) -> bool:
    """Whether some way through a block leaves the handler without re-raising."""
    for stmt in body:
        if isinstance(stmt, ast.Return):
            return True
        if isinstance(stmt, ast.Raise):
            return not _reraises(stmt, name)
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and _leaves(
                getattr(stmt, part, []), name
            ):
                return True
        for inner in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            if _leaves(inner.body, name):
                return True
    return False


def _jumps(body: list[ast.stmt], in_loop: bool) -> list[ast.stmt]:
    """The statements in a `finally` block that leave it."""
    found: list[ast.stmt] = []
    for stmt in body:
        if isinstance(stmt, ast.Return) or (isinstance(stmt, (ast.Break, ast.Continue)) and not in_loop):
            found.append(stmt)
        if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        looped = in_loop or isinstance(stmt, (ast.For, ast.AsyncFor, ast.While))
        for part in ("body", "orelse", "finalbody"):
            found += _jumps(getattr(stmt, part, []), looped)
        for inner in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            found += _jumps(inner.body, looped)
    return found


# RLV308


def _retried(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    """`AsyncRetrying(...)(helper, ctx)`."""
    if f.mode != STEP and (holds_ctx(args) or makes_ctx_work(f, args.get(0, "fn"))):
        what = f"`{f.segment(getattr(node, 'func', node))}` re-runs journaled work outside the engine"
        f.effect(node, "RLV308", what, "warning")


def _decorators(f: Frame) -> None:
    decl = f.decl
    if decl is None or not decl.decorators:
        return
    if not (hints.ctx_parameters(f.m, decl) or decl in f.m.registered or f.journals):
        return
    for node, head in decl.decorators:
        if isinstance(head, (Ext, Obj)):
            path = head.path if isinstance(head, Ext) else head.type
            if path.startswith(_RETRIES):
                cause = Cause(
                    "RLV308",
                    f"`@{f.segment(node)}` re-runs journaled work outside the engine",
                    f.place(node),
                    (),
                    "warning",
                )
                f.emit(node, cause)
