"""Which unstable calls have a journaled twin on ctx."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.frame import HOST, REGION
from rulvar_lint.core.values import Ext, Func, Value

if TYPE_CHECKING:
    from rulvar_lint.core.frame import Frame

# Dotted name -> (safety, replacement); `{ctx}` is the variable that holds ctx.
DIRECT: Final = {
    "time.time": ("safe", "{ctx}.time()"),
    "datetime.datetime.utcnow": ("unsafe", "{ctx}.now().replace(tzinfo=None)"),
    "datetime.datetime.today": ("unsafe", "{ctx}.now()"),
    "datetime.date.today": ("unsafe", "{ctx}.now().date()"),
    "time.time_ns": ("unsafe", "int({ctx}.time() * 1_000_000_000)"),
    "time.monotonic": ("unsafe", "{ctx}.time()"),
    "time.perf_counter": ("unsafe", "{ctx}.time()"),
    "uuid.uuid4": ("safe", "{ctx}.uuid()"),
    "uuid.uuid1": ("unsafe", "{ctx}.uuid()"),
    "uuid.uuid6": ("unsafe", "{ctx}.uuid()"),
    "uuid.uuid7": ("unsafe", "{ctx}.uuid()"),
}


def shim_of(f: Frame, factory: Value | None) -> str | None:
    """What gives the value of an impure factory from ctx instead, such as `ctx.now()`."""
    name = f.ctx_name()
    path = _path_of(f, factory)
    if name is None or f.mode != REGION:
        return None
    if path == "datetime.datetime.now":
        return f"{name}.now()"
    return DIRECT[path][1].format(ctx=name) if path in DIRECT else None


def _path_of(f: Frame, factory: Value | None) -> str:
    """The function that a factory calls, if it does nothing else."""
    if isinstance(factory, Ext):
        return factory.path
    body = factory.decl.node.body if isinstance(factory, Func) else None
    if not isinstance(factory, Func) or not isinstance(body, ast.Call):
        return ""
    if isinstance(body.func, ast.Name) and body.func.id == "str" and len(body.args) == 1:
        inner = body.args[0]
        body = inner if isinstance(inner, ast.Call) else body
    scratch = f.m.new_frame(factory.decl.module, factory.decl, HOST, {}, factory.frame, factory.env)
    head = scratch.ev[body.func.__class__](scratch, body.func)
    return head.path if isinstance(head, Ext) else ""
