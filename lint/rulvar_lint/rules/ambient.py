"""RLV101-RLV114: clocks, chance, identifiers, waiting, I/O, the host, processes, threads,
terminals and foreign awaits.

What each library function does is in the library table; here is only what needs more than a name.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.frame import HOST, REGION, STEP
from rulvar_lint.core.values import Ext, Obj, Value, options_of
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.arguments import Args
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.awaited.append(_opaque)
    hooks.unknown_call.append(_logger_by_name)
    hooks.on_call(_POOLED, _pooled)


def _opaque(f: Frame, node: ast.AST, value: Value, how: str) -> None:
    """RLV114: waiting for something that nothing is known about."""
    if f.mode in (STEP, HOST):
        return
    for option in options_of(value):
        path = option.type if isinstance(option, Obj) else option.path if isinstance(option, Ext) else ""
        if path and path[0] != "." and not f.m.catalog.is_known(path):
            f.effect(
                node,
                "RLV114",
                (f"`{how} {f.segment(node)}` waits for `{path.partition('.')[0]}`, which is not journaled"),
                "warning",
            )
            return


_POOLED: Final = """concurrent.futures.ThreadPoolExecutor.submit concurrent.futures.ThreadPoolExecutor.map
concurrent.futures.ProcessPoolExecutor.submit concurrent.futures.ProcessPoolExecutor.map
concurrent.futures.InterpreterPoolExecutor.submit concurrent.futures.InterpreterPoolExecutor.map
multiprocessing.pool.ThreadPool.map multiprocessing.pool.ThreadPool.apply threading.Thread.start"""


def _pooled(f: Frame, node: ast.AST, ext: Ext, args: Args) -> None:
    """RLV110: work for a pool that was made elsewhere; a pool made here is reported where it is made."""
    if f.mode in (STEP, HOST) or ext.receiver is None:
        return
    known = {cause.place for cause in f.effects.values()}
    known |= {found.cause.place for found in f.m.findings.values()}
    if not any(cause.code == "RLV110" and cause.place in known for cause in ext.taint or ()):
        what = f"`{f.segment(getattr(node, 'func', node))}()` runs work outside the engine's scheduler"
        f.effect(node, "RLV110", what)


_LOGGERS: Final = names("log logger logging LOG LOGGER _log _logger _LOG _LOGGER")
_LEVELS: Final = names("debug info warning warn error critical exception log")


def _logger_by_name(f: Frame, node: ast.AST, args: Args) -> None:
    """RLV113: a logger that comes from a module that cannot be seen."""
    func = node.func if isinstance(node, ast.Call) else None
    if f.mode != REGION or not isinstance(func, ast.Attribute) or func.attr not in _LEVELS:
        return
    base = func.value
    if isinstance(base, ast.Name) and base.id in _LOGGERS and not f.is_local(base.id):
        f.effect(node, "RLV113", f"`{f.segment(func)}()` is repeated on every replay", "warning")
