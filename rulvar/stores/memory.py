"""Stores that live as long as the process: the default of tests."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.store import RunMeta
from rulvar.errors import JournalOrderViolation

__all__ = ["InMemoryStore", "InMemoryTranscripts"]


class InMemoryStore:
    """Keeps journals and meta rows in memory."""

    def __init__(self) -> None:
        self._journals: dict[str, list[JournalEntry]] = {}
        self._metas: dict[str, bytes] = {}
        self.transcripts = InMemoryTranscripts()
        """Where an engine over this store keeps transcripts unless told otherwise."""

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a copy of a run's list of entries."""
        return list(self._journals.get(run_id, ()))

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries; an entry whose seq is not after the tail is refused."""
        self.append_now(run_id, entries)

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries before returning."""
        journal = self._journals.setdefault(run_id, [])
        tail = journal[-1].seq if journal else -1
        for entry in entries:
            if entry.seq <= tail:
                raise JournalOrderViolation(
                    f"run {run_id}: entry seq {entry.seq} is not after the stored tail {tail}",
                    data={"runId": run_id, "seq": entry.seq, "tail": tail},
                )
            tail = entry.seq
        journal.extend(entries)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""
        data = self._metas.get(run_id)
        return None if data is None else orjson.loads(data)

    async def save_meta(self, run_id: str, meta: RunMeta) -> None:
        """Replace a run's meta row."""
        self._metas[run_id] = orjson.dumps(meta)

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""
        return [orjson.loads(self._metas[run_id]) for run_id in sorted(self._metas)]

    async def delete(self, run_id: str) -> None:
        """Forget a run."""
        self._journals.pop(run_id, None)
        self._metas.pop(run_id, None)


class InMemoryTranscripts:
    """Keeps transcripts and checkpoints in memory."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, ref: str, data: bytes) -> None:
        """Store a blob."""
        self._blobs[ref] = data

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        return self._blobs.get(ref)

    async def delete_run(self, run_id: str) -> None:
        """Forget every blob of a run."""
        for ref in [ref for ref in self._blobs if ref.startswith(f"{run_id}/")]:
            del self._blobs[ref]
