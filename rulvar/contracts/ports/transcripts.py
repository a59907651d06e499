"""The seam behind which transcripts and checkpoints are kept: blobs beside the journal."""

from __future__ import annotations

from typing import Protocol

__all__ = ["TranscriptStore"]


class TranscriptStore(Protocol):
    """Keeps blobs by reference ``<run id>/<name>``, for instance ``r1/t0`` or ``r1/ckpt/4``."""

    async def put(self, ref: str, data: bytes) -> None:
        """Store a blob, replacing one of the same reference."""

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""

    async def delete_run(self, run_id: str) -> None:
        """Forget every blob of a run."""
