"""Segments of a run that broke off, and whether the run got any further from one to the next.

A segment that its process did not live to settle leaves the meta row at ``running``. One that breaks
off now and then is what resuming is for. One that breaks off again and again at the same place takes
whatever drives it down with it, and a worker had better stop trying.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import RunInterruptedError

__all__ = ["Interruptions", "count_interruptions", "interruptions_of"]


class Interruptions(msgspec.Struct, frozen=True, rename="camel"):
    """Segments in a row that broke off at one place.

    Attributes:
        times: how many.
        entries: how many entries the journal had.
        checkpoint_bytes: how much the agents under way had put down at their last turns.
    """

    times: int
    entries: int
    checkpoint_bytes: int = 0

    def to_wire(self) -> dict[str, int]:
        """Return the form in the meta row."""
        return {"times": self.times, "entries": self.entries, "checkpointBytes": self.checkpoint_bytes}

    def refusal(self, run_id: str, at_most: int | None) -> RunInterruptedError | None:
        """Return why the run is not driven again, if it broke off that often."""
        if at_most is None or self.times < at_most:
            return None
        place = f"after entry {self.entries - 1}" if self.entries else "before its first entry"
        return RunInterruptedError(
            f"run {run_id!r} broke off {self.times} times in a row {place}, each time without "
            "getting any further: what it does there seems to end its process (memory, a crash in a library). It is not "
            f"taken up again by itself: see `rulvar inspect {run_id}`, then resume it, or wake it in its queue",
            data={"runId": run_id, **self.to_wire()},
        )


async def count_interruptions(
    run_id: str, meta: Mapping[str, Any], entries: Sequence[JournalEntry], transcripts: TranscriptStore
) -> Interruptions | None:
    """Return how often in a row the run broke off where it stands now; None when its last segment was settled."""
    if meta.get("status") != "running":
        return None
    kept = 0
    for seq in _agents_under_way(entries):
        kept += len(await transcripts.get(f"{run_id}/ckpt/{seq}") or b"")
    now = Interruptions(1, len(entries), kept)
    last = interruptions_of(meta)
    if last is None or (last.entries, last.checkpoint_bytes) != (now.entries, now.checkpoint_bytes):
        return now
    return msgspec.structs.replace(now, times=last.times + 1)


def interruptions_of(meta: Mapping[str, Any]) -> Interruptions | None:
    """Return what a meta row says of segments that broke off."""
    try:
        return msgspec.convert(meta.get("interrupted"), Interruptions)
    except msgspec.ValidationError:
        return None


def _agents_under_way(entries: Sequence[JournalEntry]) -> list[int]:
    begun = {entry.seq for entry in entries if entry.kind == "agent" and entry.status == "running"}
    return sorted(begun - {entry.ref for entry in entries if entry.ref is not None})
