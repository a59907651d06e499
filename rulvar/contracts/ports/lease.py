"""The seam through which one owner at a time drives a run, and everyone else's writes are refused.

A lease is held for a while and renewed. Every acquisition of a run gets a higher *epoch*, also after
the run was deleted and made anew. A write that carries a lease is stored only while that lease is the
run's latest and has not been released; the store decides this together with the write, so an owner
that was stopped, or whose clock went wrong, cannot write into a run that somebody else has taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.store import JournalStore, RunMeta
from rulvar.contracts.ports.transcripts import TranscriptStore

__all__ = ["Lease", "LeaseState", "LeasedStore", "LeasedTranscripts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What an owner holds of a run.

    Attributes:
        run_id: the run.
        owner: who holds it, for people to read: ``host:pid``.
        epoch: the fencing token; higher for every acquisition of the run.
        ttl_s: for how many seconds it holds unless it is renewed.
    """

    run_id: str
    owner: str
    epoch: int
    ttl_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """Who held a run last, and for how many more seconds; 0 when it is free."""

    owner: str
    epoch: int
    expires_in_s: float

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it now."""
        return self.expires_in_s > 0


@runtime_checkable
class LeasedStore(JournalStore, Protocol):
    """A store that several processes may share. Without ``lease`` a write is not fenced.

    A store whose leases end with the process that holds them, and not by time, has an attribute
    ``leases_expire`` that is false.
    """

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
        """Take a run that nobody holds.

        Raises:
            LeaseHeldError: somebody holds it; ``data`` has ``owner`` and, where it is known, ``expiresInS``.
        """

    async def renew_lease(self, lease: Lease) -> None:
        """Hold a run for another ``ttl_s`` from now; an expired lease that nobody took is renewed too.

        Raises:
            SupersededError: somebody else has taken the run, or the lease was released.
        """

    async def release_lease(self, lease: Lease) -> None:
        """Let a run go; nothing happens when it has been lost already."""

    async def lease_of(self, run_id: str) -> LeaseState | None:
        """Return who holds a run, or held it last; None when nobody ever did or the store forgot."""

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """As in JournalStore; raises SupersededError and stores nothing when the lease was lost."""

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """As in JournalStore; raises SupersededError and stores nothing when the lease was lost."""

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """As in JournalStore; raises SupersededError and deletes nothing when the lease was lost."""


@runtime_checkable
class LeasedTranscripts(TranscriptStore, Protocol):
    """A transcript store whose writes the lease of a journal store fences too."""

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """As in TranscriptStore; raises SupersededError and stores nothing when the lease was lost."""

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """As in TranscriptStore; raises SupersededError and deletes nothing when the lease was lost."""
