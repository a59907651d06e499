"""Runs that nobody needs any more: deleted one by one, or by age and status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.clock import epoch_ms
from rulvar.contracts.ports.lease import Lease
from rulvar.contracts.ports.store import JournalStore, RunMeta
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import ConfigError, JournalOrderViolation, LeaseHeldError, RulvarError, StoreError

__all__ = ["Pruned", "delete_run", "holding", "is_known", "prune_runs"]

ENDED = ("ok", "error", "cancelled", "exhausted")
_TTL_S = 60.0


_UNREADABLE = (ConfigError, StoreError, JournalOrderViolation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning did, or would do.

    Attributes:
        deleted: runs that were deleted.
        held: runs that are old enough, and that somebody drives.
        unreadable: runs whose meta row cannot be read, because it is damaged or sealed with a key that is
            not there; ``delete_run`` takes them.
    """

    deleted: tuple[str, ...]
    held: tuple[str, ...]
    unreadable: tuple[str, ...] = ()


async def delete_run(
    store: JournalStore, run_id: str, *, transcripts: TranscriptStore | None = None, owner: str = "retention"
) -> bool:
    """Delete a run: journal, meta row and transcripts. Return whether there was anything to delete.

    A run that cannot be read, because it is damaged or sealed with a key that is not there, is deleted all the same.

    Args:
        transcripts: where the engine keeps transcripts, when that is not the store itself.

    Raises:
        LeaseHeldError: somebody drives the run; cancel it first.
    """
    check_run_id(run_id)
    async with holding(store, run_id, owner) as lease:
        known = await is_known(store, run_id)
        await _delete(store, run_id, transcripts, lease)
    return known


async def prune_runs(
    store: JournalStore,
    *,
    older_than: timedelta | datetime,
    statuses: Iterable[str] = ENDED,
    dry_run: bool = False,
    transcripts: TranscriptStore | None = None,
) -> Pruned:
    """Delete runs that have not been written to for a while and ended in one of the given ways.

    Args:
        older_than: an age, or an aware moment; a run is older when its meta row was last written before.
        statuses: running and suspended runs are only pruned when they are named here; nobody must
            drive them either way.
        dry_run: delete nothing, and return what would be.

    Raises:
        ConfigError: ``older_than`` is no age and no aware moment.
    """
    before = _moment(older_than)
    wanted = frozenset(statuses)
    deleted: list[str] = []
    held: list[str] = []
    metas, unreadable = await _metas(store)
    for run_id, meta in metas.items():
        if not _is_due(meta, wanted, before):
            continue
        try:
            if dry_run or await _prune(store, run_id, wanted, before, transcripts):
                deleted.append(run_id)
        except LeaseHeldError:
            held.append(run_id)
    return Pruned(deleted=tuple(deleted), held=tuple(held), unreadable=unreadable)


async def _prune(
    store: JournalStore,
    run_id: str,
    wanted: frozenset[str],
    before: float,
    transcripts: TranscriptStore | None,
) -> bool:
    """Delete a run, unless somebody has resumed or deleted it since it was listed."""
    async with holding(store, run_id, "retention") as lease:
        meta = await store.load_meta(run_id)
        if meta is None or not _is_due(meta, wanted, before):
            return False
        await _delete(store, run_id, transcripts, lease)
        return True


async def _delete(
    store: JournalStore, run_id: str, transcripts: TranscriptStore | None, lease: Mapping[str, Any]
) -> None:
    if transcripts is not None and transcripts is not getattr(store, "transcripts", None):
        await transcripts.delete_run(run_id)
    await store.delete(run_id, **lease)


async def is_known(store: JournalStore, run_id: str) -> bool:
    """Whether anything is stored of a run; one that cannot be read is there."""
    try:
        return await store.load_meta(run_id) is not None or bool(await store.load(run_id))
    except _UNREADABLE as error:
        if error.retryable:
            raise
        return True


async def _metas(store: Any) -> tuple[dict[str, RunMeta], tuple[str, ...]]:
    """Return the meta rows by run id, and the ids of runs whose row cannot be read."""
    try:
        return {str(meta["runId"]): meta for meta in await store.list_runs() if "runId" in meta}, ()
    except _UNREADABLE as error:
        if error.retryable or not callable(getattr(store, "run_ids", None)):
            raise
    metas: dict[str, RunMeta] = {}
    unreadable: list[str] = []
    for run_id in await store.run_ids():  # one by one: a row that is damaged must not keep all the others
        try:
            meta = await store.load_meta(run_id)
        except _UNREADABLE as error:
            if error.retryable:
                raise
            unreadable.append(run_id)
            continue
        if meta is not None:
            metas[run_id] = meta
    return metas, tuple(unreadable)


@contextlib.asynccontextmanager
async def holding(store: Any, run_id: str, owner: str) -> AsyncIterator[dict[str, Any]]:
    """Hold a run's lease, and give the keyword that writes carry; nothing for a store without leases."""
    if not callable(getattr(store, "acquire_lease", None)):
        yield {}
        return
    lease = await store.acquire_lease(run_id, owner, _TTL_S)
    renewal = asyncio.create_task(_renew(store, lease))
    try:
        yield {"lease": lease}
    finally:
        renewal.cancel()
        await store.release_lease(lease)


async def _renew(store: Any, lease: Lease) -> None:
    while True:
        await asyncio.sleep(lease.ttl_s / 3)
        with contextlib.suppress(RulvarError):  # if it is lost, the next write says so
            await store.renew_lease(lease)


def _moment(older_than: timedelta | datetime) -> float:
    if isinstance(older_than, timedelta) and older_than >= timedelta(0):
        return (datetime.now(UTC) - older_than).timestamp() * 1000
    if isinstance(older_than, datetime) and older_than.tzinfo is not None:
        return older_than.timestamp() * 1000
    raise ConfigError(
        f"older_than={older_than!r}: expected an age (timedelta) or an aware datetime",
        data={"field": "older_than"},
    )


def _is_due(meta: RunMeta, wanted: frozenset[str], before: float) -> bool:
    return meta.get("status") in wanted and _is_older(meta, before)


def _is_older(meta: RunMeta, before: float) -> bool:
    try:
        return epoch_ms(str(meta.get("updatedAt"))) < before
    except ValueError:
        return False  # a row without a date is nobody's to delete by age
