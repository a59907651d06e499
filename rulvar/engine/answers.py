"""Answers to runs that are not live: journaled under the run's lease, and read by the next resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_form, journal_value
from rulvar.contracts.ports.clock import iso_ms
from rulvar.contracts.ports.queue import RunQueue
from rulvar.engine.journal import JournalWriter
from rulvar.engine.waits import describe_wait, refuse_payload, resolution_wire
from rulvar.errors import ResolutionError, RunNotFoundError
from rulvar.kernel.matching import JournalIndex

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.lease import HeldRun

__all__ = ["queue_answer", "resolve_wait"]


async def resolve_wait(engine: Engine, run_id: str, key: str, value: Any) -> None:
    """Journal an answer; see ``Engine.resolve_external``."""
    if not await engine.knows(run_id):
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    held = await engine.hold(run_id)
    try:
        await _resolve(engine, held, run_id, key, value)
    finally:
        await held.release()


async def queue_answer(engine: Engine, run_id: str, key: str, value: Any, queue: RunQueue) -> None:
    """Queue an answer to a run that somebody drives, after the checks that journaling it would make.

    Raises:
        ResolutionError: no open wait has that key, or its schema refuses the value.
    """
    _open_wait(JournalIndex(await engine.store.load(run_id)), run_id, key, value)
    await queue.answer(run_id, key, journal_value(value, f"resolve_external({key!r})"))


async def _resolve(engine: Engine, held: HeldRun, run_id: str, key: str, value: Any) -> None:
    index = JournalIndex(await held.load(run_id))
    first = _open_wait(index, run_id, key, value)
    data = journal_form(value, f"resolve_external({key!r})")
    writer = JournalWriter(held, run_id, index.next_seq)
    now = iso_ms(engine.clock.now_ms())
    await writer.append(resolution_wire(first.seq, first.scope, first.span_id, fragment(data), now))


def _open_wait(index: JournalIndex, run_id: str, key: str, value: Any) -> JournalEntry:
    """Return the entry of an open wait that takes a value, or raise ResolutionError."""
    waits = {
        describe_wait(operation.first).key: operation.first
        for operation in index.operations.values()
        if operation.first.kind in ("external", "approval") and operation.resolution is None
    }
    first = waits.get(key)
    if first is None:
        names = ", ".join(map(repr, waits)) or "none"
        raise ResolutionError(
            f"run {run_id!r} does not wait for {key!r}; open waits: {names}", data={"key": key}
        )
    refuse_payload(describe_wait(first), value)
    return first
