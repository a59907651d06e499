"""Answers to runs that are not live: journaled under the run's lease, and read by the next resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.ports.clock import iso_ms
from rulvar.engine.journal import JournalWriter
from rulvar.engine.waits import describe_wait, refuse_payload, resolution_wire
from rulvar.errors import ResolutionError, RunNotFoundError
from rulvar.kernel.matching import JournalIndex

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.lease import HeldRun

__all__ = ["resolve_wait"]


async def resolve_wait(engine: Engine, run_id: str, key: str, value: Any) -> None:
    """Journal an answer; see ``Engine.resolve_external``."""
    if not await engine.knows(run_id):
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    held = await engine.hold(run_id)
    try:
        await _resolve(engine, held, run_id, key, value)
    finally:
        await held.release()


async def _resolve(engine: Engine, held: HeldRun, run_id: str, key: str, value: Any) -> None:
    index = JournalIndex(await held.load(run_id))
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
    data = journal_form(value, f"resolve_external({key!r})")
    writer = JournalWriter(held, run_id, index.next_seq)
    now = iso_ms(engine.clock.now_ms())
    await writer.append(resolution_wire(first.seq, first.scope, first.span_id, fragment(data), now))
