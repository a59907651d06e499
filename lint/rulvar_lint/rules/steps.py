"""RLV305, RLV306, RLV405: what a step body may do, and what it must return."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.containers import MUTATORS
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import STEP
from rulvar_lint.core.nodes import own_nodes
from rulvar_lint.core.values import (
    Bound,
    Const,
    Container,
    Coro,
    CtxMember,
    Ext,
    Func,
    Inst,
    Obj,
    Partial,
    Seq,
    Set,
    Union,
    Unknown,
    Value,
    options_of,
)
from rulvar_lint.rules.eager import is_eager, report_eager

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.memory import Result


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.nested.append(_nested)
    hooks.step.append(_step)
    hooks.mutation.append(_mutation)
    hooks.store.append(_store)
    hooks.store_item.append(_store_item)
    hooks.store_name.append(_store_name)


# RLV305


def _nested(f: Frame, node: ast.AST) -> None:
    if f.step is not None and f.step.kind == "step":
        _report_nested(f, node)


def _report_nested(f: Frame, node: ast.AST) -> None:
    cause = Cause(
        "RLV305",
        "a step body does journaled work, which is skipped when the step is replayed",
        f.place(node),
    )
    f.m.report(f, node, cause)


# RLV310, RLV405


def _step(f: Frame, call: CtxCall, fn: Value | None, result: Result | None) -> None:
    if f.mode == STEP:
        return
    expr = call.expr("fn")
    if result is not None and result.journals and result.frame is not None and result.frame.depth > 0:
        _report_nested(f, call.node)
    _changing_method(f, expr, fn)
    if isinstance(fn, CtxMember) or (isinstance(fn, Partial) and isinstance(fn.func, CtxMember)):
        _report_nested(f, call.node)
        return
    if expr is None:
        return
    if is_eager(f, expr, fn):
        f.m.drop(*call.args.marks.get(expr, (0, 0)))
        report_eager(f, call, expr)
        return
    _result(f, call, fn, result)


_HANDLES: Final = {
    "io.IOBase": "a file handle",
    "io.RawIOBase": "a file handle",
    "socket.socket": "a socket",
    "requests.Response": "a raw HTTP response",
    "httpx.Response": "a raw HTTP response",
    "aiohttp.ClientResponse": "a raw HTTP response",
    "urllib3.Response": "a raw HTTP response",
    "http.client.HTTPResponse": "a raw HTTP response",
    "threading.Lock": "a lock",
    "threading.RLock": "a lock",
    "threading.Event": "an event",
    "threading.Thread": "a thread",
    "threading.Semaphore": "a lock",
    "threading.Condition": "a lock",
    "asyncio.Lock": "a lock",
    "asyncio.Semaphore": "a lock",
    "asyncio.Event": "an event",
    "asyncio.Queue": "a queue",
    "queue.Queue": "a queue",
    "builtins.bytes": "bytes",
    "sqlite3.Connection": "a connection",
    "sqlite3.Cursor": "a cursor",
    "asyncpg.Connection": "a connection",
    "psycopg.Connection": "a connection",
    "psycopg.AsyncConnection": "a connection",
    "io.BytesIO": "a buffer",
    "io.StringIO": "a buffer",
    "re.Pattern": "a compiled pattern",
    "subprocess.Popen": "a process",
    "zipfile.ZipFile": "an archive",
    "httpx.AsyncClient": "a client",
    "httpx.Client": "a client",
    "requests.Session": "a client",
    "aiohttp.ClientSession": "a client",
    "hashlib.Hash": "a hash object",
}
_ITERATORS: Final = {
    "gen": "a generator",
    "map": "a map",
    "filter": "a filter",
    "zip": "a zip",
    "iter": "an iterator",
    "keys": "a view of a mapping",
}


def _result(f: Frame, call: CtxCall, fn: Value | None, result: Result | None) -> None:
    value = result.value if result is not None else _result_of(f, fn)
    returns = "returns" in call.args.kw
    for option in options_of(value):
        kind = _unserialisable(option, returns, set())
        if kind is not None:
            f.emit(
                call.node,
                Cause("RLV405", f"the step returns {kind}, which is not JSON", f.place(call.node)),
            )
            return


def _result_of(f: Frame, fn: Value | None) -> Value | None:
    """The result of a step function that is not part of the project."""
    for option in options_of(fn):
        func = option.func if isinstance(option, Partial) else option
        if isinstance(func, Ext):
            path = func.path
            if path in ("builtins.set", "builtins.frozenset"):
                return Set()
            if path in ("builtins.map", "builtins.filter", "builtins.zip"):
                return Seq(path.rpartition(".")[2])
            if path in ("builtins.bytes", "builtins.bytearray"):
                return Obj("builtins.bytes")
            kind = f.m.catalog.result(path)
            if kind is not None:
                return Obj(kind)
    return None


def _unserialisable(value: Value, returns: bool, seen: set[Value]) -> str | None:
    if value in seen:
        return None
    seen.add(value)
    if isinstance(value, Coro):
        return _unserialisable(value.result, returns, seen) if value.result is not None else None
    if isinstance(value, Set):
        return None if returns else "a set"
    if isinstance(value, Seq):
        return _ITERATORS.get(value.kind) or _inner(value.items or [value.elem], returns, seen)
    if isinstance(value, Container):
        return _inner([*getattr(value, "entries", {}).values(), value.elem], returns, seen)
    if isinstance(value, (Func, Partial)):
        return "a function"
    if isinstance(value, Const) and isinstance(value.value, bytes):
        return None if returns else "bytes"
    if isinstance(value, Obj):
        kind = _HANDLES.get(value.type)
        return None if returns and kind == "bytes" else kind
    return None


def _inner(values: list[Value | None], returns: bool, seen: set[Value]) -> str | None:
    for value in values:
        for option in options_of(value):
            found = _unserialisable(option, returns, seen)
            if found is not None:
                return f"{found} inside its result"
    return None


# RLV306


def is_outer(f: Frame, value: Value | None) -> bool:
    """Whether data comes from outside the step body that is running."""
    for option in options_of(value):
        if isinstance(option, Unknown) and option.outer:
            return True
        if isinstance(option, Container) and option.home is not f.step:
            return True
        if isinstance(option, Inst) and option.home is not f.step and option.scope != "module":
            return True
    return False


def _changing_method(f: Frame, expr: ast.expr | None, fn: Value | None) -> None:
    """`ctx.step("add", partial(rows.append, row))`."""
    for option in options_of(fn):
        func = option.func if isinstance(option, Partial) else option
        if isinstance(func, Bound) and func.name in MUTATORS and expr is not None:
            what = f"`{func.name}` on outer data in place of a step body is lost when the step is replayed"
            f.m.report(f, expr, Cause("RLV306", what, f.place(expr)))


def _in_step(f: Frame) -> bool:
    return f.mode == STEP and f.step is not None and f.step.kind == "step"


def _lost(f: Frame, node: ast.AST, what: str) -> None:
    cause = Cause("RLV306", f"{what} inside a step body is lost when the step is replayed", f.place(node))
    assert f.step is not None
    if f.depth == 0 or f.decl is f.step.decl:
        f.m.report(f, node, cause)
    else:
        f.outward.setdefault("RLV306", cause)


def _mutation(f: Frame, node: ast.AST, receiver: Value | None, method: str, args: Args | None) -> None:
    if _in_step(f) and isinstance(receiver, (Container, Union, Unknown)) and is_outer(f, receiver):
        _lost(f, node, f"`{method}` on outer data")


def _store(
    f: Frame,
    node: ast.AST,
    target: ast.AST | None,
    base: Value | None,
    name: str,
    value: Value | None,
) -> None:
    if not _in_step(f) or not is_outer(f, base):
        return
    assert f.step is not None
    if f.depth == 0 or f.decl is f.step.decl or _is_read_outside(f, base, name):
        _lost(f, node, f"setting `{name}` of outer data")


def _is_read_outside(f: Frame, base: Value | None, attribute: str) -> bool:
    """Whether the code around the step looks at an attribute that a method sets in it. What objects
    keep for themselves, as a client that is opened late, may get lost.
    """
    objects = options_of(base)
    owner = f.step.owner if f.step is not None else None
    while owner is not None:
        for node in own_nodes(owner.decl.node) if owner.decl is not None else ():
            if (
                isinstance(node, ast.Attribute)
                and node.attr == attribute
                and isinstance(node.value, ast.Name)
            ):
                held = owner.env.get(node.value.id)
                if any(held is one for one in objects):
                    return True
        owner = owner.outer
    return False


def _store_item(f: Frame, node: ast.AST, target: ast.AST, base: Value | None, value: Value | None) -> None:
    if _in_step(f) and is_outer(f, base):
        _lost(f, node, "a write to outer data")


def _store_name(f: Frame, node: ast.AST, name: str, kind: str, value: Value | None) -> None:
    if not _in_step(f):
        return
    if kind == "global":
        if f.depth == 0 or (f.step is not None and f.decl is f.step.decl):
            _lost(f, node, f"setting the global `{name}`")
        return
    owner = f.owner_of(name)
    if owner is None or owner.step is not f.step:
        _lost(f, node, f"setting the {kind} `{name}`")
