"""Recorded segments, and the finished child workflows in them as segments of their own.

A replay serves a finished child as a whole, so its body would never be looked at. Its part of the
journal, with the scopes cut short, is a journal that its body can be run on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import ClaimRecord, SegmentRecord
from rulvar.engine.engine import Engine
from rulvar.engine.workflow import Workflow
from rulvar.kernel.keys import hash_output
from rulvar.kernel.matching import JournalIndex, Operation
from rulvar.testing.shake.ctx import ChildCall
from rulvar.testing.shake.trace import RecordedSegment, Trace, trace_of, trace_replay

__all__ = ["child_segments", "journal_segment", "recorded_segment"]


def recorded_segment(record: SegmentRecord) -> RecordedSegment:
    """Return what a replay needs of an observed segment."""
    return RecordedSegment(
        run_id=record.run_id,
        workflow=record.workflow.name,
        args=record.args,
        journal=record.journal,
        budget_usd=record.budget_usd,
        trace=trace_of(record),
    )


def journal_segment(engine: Engine, workflow: Workflow[Any], recorded: RecordedSegment) -> RecordedSegment:
    """Return a segment of which only the journal is known, with the calls that a replay of it makes."""
    trace = trace_replay(engine, workflow, recorded)
    claims = list(trace.claims)
    for call, segment in child_segments(recorded, trace.children):
        inner = journal_segment(engine, call.workflow, segment)
        claims += [_lengthened(claim, call.scope) for claim in inner.trace.claims]
    return replace(recorded, trace=replace(trace, claims=tuple(claims), children=()))


def child_segments(
    recorded: RecordedSegment, asked: tuple[ChildCall, ...]
) -> Iterator[tuple[ChildCall, RecordedSegment]]:
    """Yield the finished children of a segment that a replay of it asked for.

    A machine is left out: its commits are served, and its waits are told apart by where it stands.
    """
    finished = {
        scope: operation
        for operation in JournalIndex(recorded.journal).operations.values()
        if operation.first.kind == "child" and operation.status == "ok"
        for scope in (_scope_of(operation),)
        if scope is not None
    }
    for call in asked:
        operation = finished.get(call.scope)
        if operation is not None and not call.workflow.is_driver:
            yield call, _child(recorded, call, operation)


def _child(recorded: RecordedSegment, call: ChildCall, operation: Operation) -> RecordedSegment:
    terminal = operation.terminal
    assert terminal is not None
    return RecordedSegment(
        run_id=recorded.run_id,
        workflow=call.workflow.name,
        args=call.args,
        journal=tuple(
            _cut(entry, call.scope) for entry in recorded.journal if _is_in(entry.scope, call.scope)
        ),
        budget_usd=recorded.budget_usd,
        trace=Trace(
            claims=tuple(
                _shortened(claim, call.scope)
                for claim in recorded.trace.claims
                if _is_in(claim.scope, call.scope)
            ),
            status="ok",
            output_hash=hash_output(terminal.value),
        ),
    )


def _scope_of(operation: Operation) -> str | None:
    value = operation.first.value
    scope = value.get("childScope") if isinstance(value, dict) else None
    return scope if isinstance(scope, str) else None


def _is_in(scope: str, around: str) -> bool:
    return scope == around or scope.startswith(f"{around}/")


def _cut(entry: JournalEntry, around: str) -> JournalEntry:
    return JournalEntry.from_wire({**entry.to_wire(), "scope": entry.scope[len(around) + 1 :]})


def _shortened(claim: ClaimRecord, around: str) -> ClaimRecord:
    return replace(claim, scope=claim.scope[len(around) + 1 :])


def _lengthened(claim: ClaimRecord, around: str) -> ClaimRecord:
    return replace(claim, scope=f"{around}/{claim.scope}" if claim.scope else around)
