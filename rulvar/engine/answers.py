"""Answers to runs that are not live: journaled under the run's lease, and read by the next resume."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_form, journal_value
from rulvar.contracts.ports.clock import iso_ms
from rulvar.contracts.ports.queue import RunQueue
from rulvar.engine.journal import JournalWriter
from rulvar.engine.waits import admit_answer, describe_waits, find_way, resolution_wire
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError, LeaseHeldError, RunNotFoundError
from rulvar.kernel.matching import JournalIndex

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

__all__ = ["answer_run", "queue_answer", "resolve_wait"]


async def answer_run(
    engine: Engine,
    run_id: str,
    key: str,
    value: Any,
    workflow: Workflow[Any] | None,
    among: Collection[int] = (),
) -> None:
    """Answer an open wait, or queue the answer for whoever drives the run; see ``Engine.resolve_external``.

    Args:
        among: seqs of the waits that the run is known to stand at. Of several waits with the key they come first:
            another may be left of a call that the workflow does not make any more.

    Raises:
        LeaseHeldError: somebody drives the run, and the engine has no queue.
    """
    queue = engine.queue
    if queue is None:
        await resolve_wait(engine, run_id, key, value, workflow, among)
        return
    plain = journal_value(value, f"resolve_external({key!r})")
    stand_by = getattr(queue, "answering", None)
    async with contextlib.nullcontext() if stand_by is None else stand_by(run_id, key, plain):
        try:
            await resolve_wait(engine, run_id, key, value, workflow, among)
        except LeaseHeldError:
            await queue_answer(engine, run_id, key, value, queue)
        else:
            await queue.wake(run_id)


async def resolve_wait(
    engine: Engine,
    run_id: str,
    key: str,
    value: Any,
    workflow: Workflow[Any] | None = None,
    among: Collection[int] = (),
) -> None:
    """Journal an answer; see ``Engine.resolve_external``.

    A workflow may have a say in what it admits: ``workflow.admit(entries, way, value)`` returns what is
    journaled, or raises ResolutionError.
    """
    if not await engine.knows(run_id):
        raise RunNotFoundError(f"no run {run_id!r} in the store", data={"runId": run_id})
    held = await engine.hold(run_id)
    try:
        known = workflow or _known(engine, await engine.store.load_meta(run_id))
        entries = await held.load(run_id)
        index = JournalIndex(entries)
        first, plain = _admitted(index, entries, run_id, key, value, known, among)
        data = journal_form(plain, f"resolve_external({key!r})")
        writer = JournalWriter(held, run_id, index.next_seq)
        now = iso_ms(engine.clock.now_ms())
        await writer.append(resolution_wire(first.seq, first.scope, first.span_id, fragment(data), now))
    finally:
        await held.release()


async def queue_answer(engine: Engine, run_id: str, key: str, value: Any, queue: RunQueue) -> None:
    """Queue an answer to a run that somebody drives, after the checks that journaling it would make.

    Raises:
        ResolutionError: no open wait has that key, or the value is refused.
    """
    workflow = _known(engine, await engine.store.load_meta(run_id))
    entries = await engine.store.load(run_id)
    _admitted(JournalIndex(entries), entries, run_id, key, value, workflow)
    await queue.answer(run_id, key, journal_value(value, f"resolve_external({key!r})"))


def _admitted(
    index: JournalIndex,
    entries: list[JournalEntry],
    run_id: str,
    key: str,
    value: Any,
    workflow: Workflow[Any] | None,
    among: Collection[int] = (),
) -> tuple[JournalEntry, Any]:
    """Return the entry of the open wait that an answer is for, and the answer as it is journaled.

    Raises:
        ResolutionError: no open wait has that key, or the value is refused.
    """
    waits = [
        operation.first
        for operation in index.operations.values()
        if operation.first.kind in ("external", "approval")
        and operation.resolution is None
        and not index.is_skipped(operation)
    ]
    waits.sort(key=lambda first: first.seq not in among)
    ways = [way for first in waits for way in describe_waits(first)]
    way = find_way(key, ways, f"run {run_id!r}")
    if workflow is None or workflow.admit is None:
        plain = admit_answer(way, value)
    else:
        plain = workflow.admit(entries, way, value)
    return index.operations[way.entry_ref].first, plain


def _known(engine: Engine, meta: Any) -> Workflow[Any] | None:
    name = meta.get("workflowName") if isinstance(meta, dict) else None
    try:
        return engine.workflow_of(name) if isinstance(name, str) else None
    except ConfigError:
        return None
