"""A workflow run again on its journal: which calls it makes, in which order, and how it ends.

Nothing goes live and nothing is written. The replay has a thread and an event loop of its own, so
that it can happen in the middle of a test; time on that loop passes as soon as nobody else can move.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import CallRecord, ClaimRecord, RunRecord, SegmentRecord
from rulvar.engine.ctx import Ctx
from rulvar.engine.engine import Engine
from rulvar.engine.guard import Guard
from rulvar.engine.options import transcripts_of
from rulvar.engine.run import Run
from rulvar.engine.workflow import Workflow
from rulvar.errors import DeterminismError, JournalMissError
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.shake.ctx import ChildCall, Pace, ReplayCtx
from rulvar.testing.shake.loop import ReplayLoop
from rulvar.testing.strict import NetworkGuard

__all__ = ["RecordedSegment", "Trace", "trace_of", "trace_replay"]

LIMIT_S = 5.0
"""How long a replay may take; what hangs longer waits for something that a replay cannot give."""


_STOPS = frozenset({JournalMissError.code, DeterminismError.code})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The calls of a segment and how it ended.

    Attributes:
        error, error_code: of the error that it ended with.
        stopped: something from outside ended it: a call that the journal does not serve, or the
            determinism guard.
        finished: False when the time ran out.
        children: the child workflows that were asked for.
    """

    claims: tuple[ClaimRecord, ...]
    status: str = ""
    output_hash: str | None = None
    error: str | None = None
    error_code: str | None = None
    stopped: bool = False
    finished: bool = True
    children: tuple[ChildCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSegment:
    """What a replay needs of a recorded segment.

    Attributes:
        args: the JSON text of the arguments, or None.
    """

    run_id: str
    workflow: str
    args: bytes | None
    journal: tuple[JournalEntry, ...]
    budget_usd: float | None
    trace: Trace


def trace_of(record: SegmentRecord) -> Trace:
    """Return the trace of a segment as it was observed."""
    return Trace(
        claims=record.claims,
        status=record.status,
        output_hash=record.output_hash,
        error=None if record.error is None else record.error.message,
        error_code=None if record.error is None else record.error.code,
        stopped=record.error is not None and record.error.code in _STOPS,
    )


def trace_replay(
    engine: Engine,
    workflow: Workflow[Any],
    recorded: RecordedSegment,
    *,
    lateness: random.Random | None = None,
    on_run: Callable[[Run], None] | None = None,
) -> Trace:
    """Run a workflow on the journal of a recorded segment.

    Args:
        engine: whose profiles, routing and registries hold; it is not used otherwise.
        lateness: draws how late the served calls return, so that they finish in another order.
        on_run: is called with the run before its body starts.
    """
    found: list[Trace] = []
    context = copy_context()

    def run() -> None:
        found.append(_in_own_loop(engine, workflow, recorded, Pace(lateness, on_run)))

    thread = threading.Thread(target=context.run, args=(run,), daemon=True, name="rulvar shake")
    with _silence():
        thread.start()
        thread.join(2 * LIMIT_S)
    return found[0] if found else Trace(claims=(), finished=False)


class _Observer:
    """Keeps the segment of one replay."""

    wants_sites = True
    wants_segments = True

    def __init__(self) -> None:
        self.segment: SegmentRecord | None = None

    def engine_created(self, adapters: Any) -> None:
        """Nothing to see."""

    def call_finished(self, record: CallRecord) -> None:
        """Nothing to see: claims tell more."""

    def run_settled(self, record: RunRecord) -> None:
        """Nothing to see."""

    def segment_ended(self, record: SegmentRecord) -> None:
        """Keep it."""
        self.segment = record

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """Nothing to see: the guard is off."""


def _in_own_loop(engine: Engine, workflow: Workflow[Any], recorded: RecordedSegment, pace: Pace) -> Trace:
    observer = _Observer()
    loop = ReplayLoop(pace.lateness)
    guard = NetworkGuard(lambda: "shake")
    guard.install()
    try:
        in_time = loop.run_until_complete(_replay(engine, workflow, recorded, observer, pace, loop))
    finally:
        guard.uninstall()
        loop.finish()
    if observer.segment is None:
        return Trace(claims=(), finished=False)
    return replace(trace_of(observer.segment), finished=in_time, children=tuple(pace.children))


async def _replay(
    engine: Engine,
    workflow: Workflow[Any],
    recorded: RecordedSegment,
    observer: _Observer,
    pace: Pace,
    loop: ReplayLoop,
) -> bool:
    """Replay; return whether it came to an end by itself."""
    store = InMemoryStore()
    store.append_now(recorded.run_id, recorded.journal)
    await store.save_meta(recorded.run_id, {"budgetUsd": recorded.budget_usd})
    args = None if recorded.args is None else decode_json(recorded.args)
    handle = _engine_over(engine, store, observer, pace).resume(
        recorded.run_id, workflow, args=args, dry_run=True
    )
    cancelled: list[Any] = []

    def cancel() -> None:
        cancelled.append(loop.create_task(handle.cancel("shake: out of time")))

    loop.on_stuck(cancel)
    timer = threading.Timer(LIMIT_S, lambda: loop.call_soon_threadsafe(cancel))
    timer.daemon = True
    timer.start()
    try:
        await handle.result()
    except Exception:
        return True
    finally:
        timer.cancel()
    return not cancelled


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Let a replay print, log, warn and fail without a trace: the test that it happens in is not meant."""
    hooks = (sys.unraisablehook, threading.excepthook)
    level = logging.root.manager.disable
    sys.unraisablehook = threading.excepthook = _ignore
    logging.disable(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        sys.unraisablehook, threading.excepthook = hooks


def _ignore(unraisable: Any) -> None:
    """Say nothing."""


def _engine_over(engine: Engine, store: InMemoryStore, observer: _Observer, pace: Pace) -> Engine:
    def ctx_of(run: Run) -> Ctx:
        pace.meet(run)
        return ReplayCtx(run, pace)

    other = copy.copy(engine)
    other.store = store
    other.transcripts = transcripts_of(store)
    other.observers = (observer,)
    other.guard = Guard("off")
    vars(other)["ctx_of"] = ctx_of
    return other
