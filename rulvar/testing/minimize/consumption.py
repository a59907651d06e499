"""Which entries of a journal a replay reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.observer import ClaimRecord
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import JournalIndex, Operation

__all__ = ["consumed_operations", "entries_read", "slim"]

_UNREAD_FIELDS = ("providerCalls", "transcriptRef", "checkpointRef")
"""What people and audits read, and no replay."""


def consumed_operations(
    entries: Sequence[JournalEntry], claims: Sequence[ClaimRecord]
) -> list[Operation | None]:
    """Return the operation that each call of a replay took; None for a call that took none."""
    index = JournalIndex(entries)
    taken: list[Operation | None] = []
    for claim in claims:
        older = content_key(claim.identity, 1) if index.has_v1 else None
        operation = index.take(claim.scope, claim.key, older)
        if operation is None and claim.action != "live":
            operation = index.take_anywhere(claim.key)
        taken.append(operation)
    return taken


def entries_read(
    entries: Sequence[JournalEntry], claims: Sequence[ClaimRecord], operations: Iterable[Operation | None]
) -> list[JournalEntry]:
    """Return the entries that a replay with these calls reads, in order.

    Where it ends at a call that is not in the journal, what else stands in that call's scope is kept:
    the explanation of the miss speaks of it.
    """
    kept: set[int] = set()
    for operation in operations:
        if operation is not None:
            for entry in (operation.first, operation.terminal, operation.resolution):
                if entry is not None:
                    kept.add(entry.seq)
    last = claims[-1] if claims else None
    missed = last.scope if last is not None and last.action == "live" else None
    skips = any(claim.action == "skip" for claim in claims)
    settle = max((entry.seq for entry in entries if b'"run_settle"' in entry.line), default=-1)
    return [
        entry
        for entry in entries
        if entry.seq in kept
        or entry.seq == settle
        or (missed is not None and entry.scope == missed and entry.kind != "decision")
        or (skips and entry.kind == "abandon")
        or (entry.kind == "decision" and b'"run_budget_override"' in entry.line)
    ]


def slim(entry: JournalEntry) -> JournalEntry:
    """Return an entry without the fields that no replay reads."""
    if not any(field.encode() in entry.line for field in _UNREAD_FIELDS):
        return entry
    wire = entry.to_wire()
    return JournalEntry.from_wire({name: value for name, value in wire.items() if name not in _UNREAD_FIELDS})
