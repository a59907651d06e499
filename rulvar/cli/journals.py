"""A journal as people read it: operations with their ends, open waits, what is left dangling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Pending
from rulvar.engine.waits import describe_waits
from rulvar.kernel.matching import JournalIndex, Operation

__all__ = ["Call", "Settle", "calls_of", "last_settle", "open_waits", "settles_of"]

_WAITS = frozenset({"external", "approval"})


@dataclass(frozen=True, slots=True)
class Settle:
    """One ``run_settle`` entry."""

    seq: int
    status: str
    segment: int | None
    output_hash: str | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One journaled call, told for people.

    Attributes:
        name: what it is called: an agent's label or type, a child's workflow, a wait's key; a step has
            no name in a journal, only a key.
        status: of the terminal entry; ``running`` or ``suspended`` while there is none.
        wire: the entry that tells most: the terminal one, or the first.
    """

    operation: Operation
    kind: str
    scope: str
    seq: int
    name: str
    status: str
    wire: dict[str, Any]
    first: dict[str, Any]

    @property
    def value(self) -> Any:
        """What the call came to: its value, or the answer to a wait."""
        if self.operation.resolution is not None:
            resolution = self.operation.resolution.to_wire().get("resolution")
            return resolution.get("value") if isinstance(resolution, dict) else None
        if self.kind == "rand":
            value = self.wire.get("value")
            return value.get("value") if isinstance(value, dict) else value
        return self.wire.get("value") if self.operation.terminal is not None else None


def calls_of(entries: Sequence[JournalEntry]) -> list[Call]:
    """Return the calls of a journal, in the order in which they began."""
    return [_call(operation) for operation in JournalIndex(entries).operations.values()]


def open_waits(entries: Sequence[JournalEntry]) -> list[Pending]:
    """Return what a run waits for, in journal order."""
    index = JournalIndex(entries)
    return [
        way
        for operation in index.operations.values()
        if operation.first.kind in _WAITS and operation.resolution is None and not index.is_skipped(operation)
        for way in describe_waits(operation.first)
    ]


def settles_of(entries: Sequence[JournalEntry]) -> list[Settle]:
    """Return the entries that settled a run, in order."""
    found = []
    for entry in entries:
        if entry.kind != "decision" or b'"run_settle"' not in entry.line:
            continue
        value = entry.value
        if isinstance(value, dict) and value.get("decisionType") == "run_settle":
            segment, hashed = value.get("segment"), value.get("outputHash")
            found.append(
                Settle(
                    seq=entry.seq,
                    status=str(value.get("runStatus")),
                    segment=segment if isinstance(segment, int) else None,
                    output_hash=hashed if isinstance(hashed, str) else None,
                    is_last=entry is entries[-1],
                )
            )
    return found


def last_settle(entries: Sequence[JournalEntry]) -> Settle | None:
    """Return the entry that settled a run last."""
    found = settles_of(entries)
    return found[-1] if found else None


def _call(operation: Operation) -> Call:
    first = operation.first
    opened = first.to_wire()
    wire = opened if operation.terminal is None else operation.terminal.to_wire()
    status = operation.status
    if first.kind in _WAITS and operation.resolution is not None:
        status = "answered"
    return Call(
        operation=operation,
        kind=first.kind,
        scope=first.scope,
        seq=first.seq,
        name=_name(first.kind, opened, wire),
        status=status,
        wire=wire,
        first=opened,
    )


def _name(kind: str, first: dict[str, Any], wire: dict[str, Any]) -> str:
    value = first.get("value")
    facts: dict[str, Any] = value if isinstance(value, dict) else {}
    attribution = wire.get("costAttribution")
    attribution = attribution if isinstance(attribution, dict) else {}
    named = {
        "agent": attribution.get("label") or attribution.get("agentType"),
        "child": facts.get("workflow"),
        "external": facts.get("key"),
        "approval": facts.get("toolName"),
        "rand": facts.get("subtype")
        if not facts.get("key")
        else f"{facts.get('subtype')} {facts.get('key')}",
    }.get(kind)
    return str(named) if named else f"#{str(first.get('key', ''))[:8]}"
