"""Stores that live as long as the process: the default of tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.lease import Lease, LeaseState
from rulvar.contracts.ports.store import RunMeta
from rulvar.contracts.ports.transcripts import split_ref
from rulvar.stores.meta_row import decode_meta, encode_meta
from rulvar.stores.refusals import lease_held, order_violated, superseded

__all__ = ["InMemoryStore", "InMemoryTranscripts"]


@dataclass(slots=True)
class _Holder:
    owner: str
    epoch: int
    expires: float
    released: bool = False


class InMemoryStore:
    """Keeps journals and meta rows in memory."""

    def __init__(self) -> None:
        self._journals: dict[str, list[JournalEntry]] = {}
        self._metas: dict[str, bytes] = {}
        self._holders: dict[str, _Holder] = {}
        self.transcripts = InMemoryTranscripts(self)
        """Where an engine over this store keeps transcripts unless told otherwise."""

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a copy of a run's list of entries."""
        return list(self._journals.get(check_run_id(run_id), ()))

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """Store entries; an entry whose seq is not after the tail is refused."""
        self.fence_now(lease)
        self.append_now(run_id, entries)

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries before returning."""
        journal = self._journals.get(run_id)
        if journal is None:
            journal = self._journals[check_run_id(run_id)] = []
        tail = journal[-1].seq if journal else -1
        for entry in entries:
            if entry.seq <= tail:
                raise order_violated(run_id, entry.seq, tail)
            tail = entry.seq
        journal.extend(entries)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""
        data = self._metas.get(check_run_id(run_id))
        return None if data is None else decode_meta(data, f"run {run_id}")

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """Replace a run's meta row."""
        self.fence_now(lease)
        self._metas[check_run_id(run_id)] = encode_meta(meta)

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""
        return [decode_meta(self._metas[run_id], f"run {run_id}") for run_id in sorted(self._metas)]

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget a run, its transcripts included."""
        self.fence_now(lease)
        self._journals.pop(check_run_id(run_id), None)
        self._metas.pop(run_id, None)
        await self.transcripts.delete_run(run_id)

    # -- leases --------------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
        """Take a run that nobody holds; raises LeaseHeldError otherwise."""
        now = time.monotonic()
        holder = self._holders.get(check_run_id(run_id))
        if holder is not None and not holder.released and holder.expires > now:
            raise lease_held(run_id, holder.owner, holder.expires - now)
        if holder is not None:
            holder.released = True
        epoch = 1 if holder is None else holder.epoch + 1
        self._holders[run_id] = _Holder(owner, epoch, now + ttl_s)
        return Lease(run_id=run_id, owner=owner, epoch=epoch, ttl_s=ttl_s)

    async def renew_lease(self, lease: Lease) -> None:
        """Hold a run for longer; raises SupersededError when it has been lost."""
        self.fence_now(lease)
        self._holders[lease.run_id].expires = time.monotonic() + lease.ttl_s

    async def release_lease(self, lease: Lease) -> None:
        """Let a run go."""
        holder = self._holders.get(lease.run_id)
        if holder is not None and holder.epoch == lease.epoch:
            holder.released = True

    async def lease_of(self, run_id: str) -> LeaseState | None:
        """Return who holds a run, or held it last."""
        holder = self._holders.get(check_run_id(run_id))
        if holder is None:
            return None
        left = 0.0 if holder.released else max(0.0, holder.expires - time.monotonic())
        return LeaseState(owner=holder.owner, epoch=holder.epoch, expires_in_s=left)

    def append_now_under(self, lease: Lease) -> Callable[[str, Sequence[JournalEntry]], None]:
        """Return an ``append_now`` that raises SupersededError once a lease has been lost."""
        holder = self._holders[lease.run_id]
        append = self.append_now

        def fenced(run_id: str, entries: Sequence[JournalEntry]) -> None:
            if holder.released:
                raise superseded(lease)
            append(run_id, entries)

        return fenced

    def fence_now(self, lease: Lease | None) -> None:
        """Raise SupersededError when a lease is not a run's latest."""
        if lease is not None:
            holder = self._holders.get(lease.run_id)
            if holder is None or holder.epoch != lease.epoch or holder.released:
                raise superseded(lease)


class InMemoryTranscripts:
    """Keeps transcripts and checkpoints in memory."""

    immediate = True
    """Whether ``put`` stores without waiting."""

    def __init__(self, store: InMemoryStore | None = None) -> None:
        self._blobs: dict[str, dict[str, bytes]] = {}
        self._store = store

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """Store a blob."""
        run_id, name = split_ref(ref)
        self._fence(lease)
        self._blobs.setdefault(run_id, {})[name] = data

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        run_id, name = split_ref(ref)
        return self._blobs.get(run_id, {}).get(name)

    async def refs(self, run_id: str) -> list[str]:
        """Return the references of a run's blobs, in order."""
        return [f"{run_id}/{name}" for name in sorted(self._blobs.get(check_run_id(run_id), ()))]

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget every blob of a run."""
        self._fence(lease)
        self._blobs.pop(check_run_id(run_id), None)

    def _fence(self, lease: Lease | None) -> None:
        if self._store is not None:
            self._store.fence_now(lease)
