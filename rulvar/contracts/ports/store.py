"""The seam behind which runs are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from rulvar.contracts.entries import JournalEntry

__all__ = ["ImmediateJournalStore", "JournalStore", "RunMeta"]

RunMeta = dict[str, Any]
"""A run's meta row as its JSON object: runId, status, segments, updatedAt, workflowName, ..."""


@runtime_checkable
class JournalStore(Protocol):
    """Keeps journals and meta rows. A run id that ``check_run_id`` refuses is refused with ConfigError.

    Appends to one run come one after another, in seq order. An append whose seq is not after the
    stored tail raises JournalOrderViolation and stores nothing.
    """

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries in order; an unknown run has none."""

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries durably, as this store understands durable."""

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""

    async def save_meta(self, run_id: str, meta: RunMeta) -> None:
        """Replace a run's meta row atomically."""

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""

    async def delete(self, run_id: str) -> None:
        """Forget a run."""


@runtime_checkable
class ImmediateJournalStore(JournalStore, Protocol):
    """A store whose appends finish without waiting; the engine then saves a turn of the event loop.

    A store that only does so at times has an attribute ``immediate`` (bool) that says whether it does. One
    whose leases can be lost while it lives has ``append_now_under(lease)``, which returns a fenced one.
    """

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries before returning."""
