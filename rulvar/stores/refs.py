"""Which blobs belong to a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rulvar.contracts.entries import JournalEntry

__all__ = ["refs_of"]


async def refs_of(transcripts: Any, run_id: str, entries: Sequence[JournalEntry]) -> list[str]:
    """Return the references of a run's blobs; a store that cannot list them is asked for what the journal names."""
    listing = getattr(transcripts, "refs", None)
    if callable(listing):
        found: list[str] = await listing(run_id)
        return found
    named: dict[str, None] = {}
    for entry in entries:
        if entry.kind != "agent":
            continue
        wire = entry.to_wire()
        for field in ("transcriptRef", "checkpointRef"):
            if isinstance(wire.get(field), str):
                named[wire[field]] = None
        if entry.ref is None:
            named[f"{run_id}/ckpt/{entry.seq}"] = None  # a call that is under way has only that
    return list(named)
