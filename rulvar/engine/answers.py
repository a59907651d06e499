"""Answers to runs that are not live: journaled under the run's lease, and read by the next resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.ports.clock import iso_ms
from rulvar.engine.journal import JournalWriter
from rulvar.engine.waits import admit_answer, describe_waits, find_way, resolution_wire
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError, RunNotFoundError
from rulvar.kernel.matching import JournalIndex

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.lease import HeldRun

__all__ = ["resolve_wait"]


async def resolve_wait(
    engine: Engine, run_id: str, key: str, value: Any, workflow: Workflow[Any] | None = None
) -> None:
    """Journal an answer; see ``Engine.resolve_external``.

    A workflow may have a say in what it admits: ``workflow.admit(entries, way, value)`` returns what is
    journaled, or raises ResolutionError.
    """
    if not await engine.knows(run_id):
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    held = await engine.hold(run_id)
    try:
        await _resolve(engine, held, run_id, key, value, workflow)
    finally:
        await held.release()


async def _resolve(
    engine: Engine, held: HeldRun, run_id: str, key: str, value: Any, workflow: Workflow[Any] | None
) -> None:
    entries = await held.load(run_id)
    index = JournalIndex(entries)
    ways = [
        way
        for operation in index.operations.values()
        if operation.first.kind in ("external", "approval") and operation.resolution is None
        for way in describe_waits(operation.first)
    ]
    way = find_way(key, ways, f"run {run_id!r}")
    known = workflow or _known(engine, await held.load_meta(run_id))
    plain = (
        admit_answer(way, value) if known is None or known.admit is None else known.admit(entries, way, value)
    )
    data = journal_form(plain, f"resolve_external({key!r})")
    first = index.operations[way.entry_ref].first
    writer = JournalWriter(held, run_id, index.next_seq)
    now = iso_ms(engine.clock.now_ms())
    await writer.append(resolution_wire(first.seq, first.scope, first.span_id, fragment(data), now))


def _known(engine: Engine, meta: Any) -> Workflow[Any] | None:
    name = meta.get("workflowName") if isinstance(meta, dict) else None
    try:
        return engine.workflow_of(name) if isinstance(name, str) else None
    except ConfigError:
        return None
