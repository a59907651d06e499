"""The lease under which one execution segment drives a run.

It is taken before the journal is read, renewed at a third of its time, and let go when the segment
has settled. Everything the segment writes carries it, so a segment that has been overtaken stores
nothing more. A store without leases is used as it is: one process at a time is then up to the user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeGuard

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.lease import Lease, LeasedStore
from rulvar.contracts.ports.store import JournalStore, RunMeta
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import ConfigError, RulvarError, StoreError, SupersededError

__all__ = ["HeldRun", "check_ttl", "default_owner", "is_leased"]

AppendNow = Callable[[str, Sequence[JournalEntry]], None]
_RETRY_FRACTION = 10


class HeldRun:
    """A run in a store, as the one who drives it sees it: reads are plain, writes carry the lease.

    Attributes:
        append_now: stores entries before it returns; None when the store does not.
        transcripts: where the run's transcripts and checkpoints go.
        stores_at_once: whether entries and transcripts are stored without waiting.
    """

    def __init__(self, store: JournalStore, transcripts: TranscriptStore, lease: Lease | None) -> None:
        self._store: Any = store
        self._lease = lease
        self._kw: dict[str, Any] = {} if lease is None else {"lease": lease}
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._lost: Callable[[RulvarError], None] | None = None
        self.append_now = _append_now(store, lease)
        fenced = transcripts is getattr(store, "transcripts", None)
        # asked of the very class: one that passes attributes on, or was derived from it, may wait by itself
        at_once = "immediate" in vars(type(transcripts)) and transcripts.immediate  # type: ignore[attr-defined]
        self.stores_at_once = bool(at_once) and self.append_now is not None
        self.transcripts: TranscriptStore = _HeldTranscripts(transcripts, self._kw if fenced else {})

    @classmethod
    async def take(
        cls, store: JournalStore, transcripts: TranscriptStore, run_id: str, owner: str, ttl_s: float
    ) -> Self:
        """Take a run's lease.

        Raises:
            LeaseHeldError: somebody else drives the run.
        """
        lease = None
        if is_leased(store):
            lease = await _acquire(store, run_id, owner, ttl_s)
        return cls(store, transcripts, lease)

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return the run's entries."""
        entries: list[JournalEntry] = await self._store.load(run_id)
        return entries

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries under the lease."""
        await self._store.append(run_id, entries, **self._kw)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return the run's meta row."""
        meta: RunMeta | None = await self._store.load_meta(run_id)
        return meta

    async def save_meta(self, run_id: str, meta: RunMeta) -> None:
        """Replace the run's meta row under the lease."""
        await self._store.save_meta(run_id, meta, **self._kw)

    async def delete(self, run_id: str) -> None:
        """Forget the run under the lease."""
        await self._store.delete(run_id, **self._kw)

    def keep(self, lost: Callable[[RulvarError], None]) -> None:
        """Renew the lease from now on; call back once when somebody else has taken the run."""
        if self._lease is not None:
            self._lost = lost
            self._schedule(self._lease.ttl_s / 3)

    async def release(self) -> None:
        """Let the run go; a store that cannot be reached lets it go by itself when the time is over."""
        self._lost = None
        if self._timer is not None:
            self._timer.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(RulvarError, OSError):
                await self._store.release_lease(lease)

    def _schedule(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start_renewal)

    def _start_renewal(self) -> None:
        self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        lease = self._lease
        if lease is None:
            return
        pause = lease.ttl_s / 3
        try:
            await self._store.renew_lease(lease)
        except SupersededError as error:
            if self._lost is not None:
                self._lost(error)
            return
        except Exception:
            # the store is in trouble: the lease may still be ours, and every write finds out by itself
            pause = lease.ttl_s / _RETRY_FRACTION
        if self._lost is not None:
            self._schedule(pause)


class _HeldTranscripts:
    """Transcripts whose writes carry the lease, when it is one of the same store."""

    def __init__(self, transcripts: Any, kw: dict[str, Any]) -> None:
        self._transcripts = transcripts
        self._kw = kw

    async def put(self, ref: str, data: bytes) -> None:
        try:
            await self._transcripts.put(ref, data, **self._kw)
        except OSError as error:
            raise StoreError(f"{ref}: cannot be stored: {error}", data={"reason": "io"}) from error

    async def get(self, ref: str) -> bytes | None:
        data: bytes | None = await self._transcripts.get(ref)
        return data

    async def delete_run(self, run_id: str) -> None:
        await self._transcripts.delete_run(run_id, **self._kw)


async def _acquire(store: LeasedStore, run_id: str, owner: str, ttl_s: float) -> Lease:
    """Acquire a lease; one that arrives after the caller was cancelled is let go again."""
    loop = asyncio.get_running_loop()
    acquiring = loop.create_task(store.acquire_lease(run_id, owner, ttl_s))

    def let_go(done: asyncio.Task[Lease]) -> None:
        if not done.cancelled() and done.exception() is None:
            releasing = loop.create_task(store.release_lease(done.result()))
            releasing.add_done_callback(lambda task: task.cancelled() or task.exception())

    try:
        return await asyncio.shield(acquiring)
    except asyncio.CancelledError:
        acquiring.add_done_callback(let_go)
        raise


def is_leased(store: object) -> TypeGuard[LeasedStore]:
    """Whether a store has leases; one look instead of one per method of the protocol."""
    return callable(getattr(store, "acquire_lease", None))


def _append_now(store: Any, lease: Lease | None) -> AppendNow | None:
    append: AppendNow | None = getattr(store, "append_now", None)
    if append is None or not getattr(store, "immediate", True):
        return None
    # asked of the class: one that only passes attributes on must not be passed by
    if lease is None or not hasattr(type(store), "append_now_under"):
        return append
    fenced: AppendNow = store.append_now_under(lease)
    return fenced


def default_owner() -> str:
    """Return what names this process to people: ``host:pid``."""
    return f"{platform.node() or 'localhost'}:{os.getpid()}"


def check_ttl(seconds: object) -> float:
    """Return a lease time.

    Raises:
        ConfigError: not a number of seconds above zero.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ConfigError(
            f"lease_ttl_s={seconds!r}: expected a number of seconds above 0", data={"field": "lease_ttl_s"}
        )
    return float(seconds)
