"""Runs that nobody needs any more: deleted one by one, or by age and status."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.clock import epoch_ms
from rulvar.contracts.ports.store import JournalStore, RunMeta
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.errors import ConfigError, LeaseHeldError

__all__ = ["Pruned", "delete_run", "holding", "prune_runs"]

ENDED = ("ok", "error", "cancelled", "exhausted")
_TTL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What pruning did, or would do: ids of runs that were deleted, and of runs that somebody drives."""

    deleted: tuple[str, ...]
    held: tuple[str, ...]


async def delete_run(
    store: JournalStore, run_id: str, *, transcripts: TranscriptStore | None = None, owner: str = "retention"
) -> bool:
    """Delete a run: journal, meta row and transcripts. Return whether there was anything to delete.

    Args:
        transcripts: where the engine keeps transcripts, when that is not the store itself.

    Raises:
        LeaseHeldError: somebody drives the run; cancel it first.
    """
    check_run_id(run_id)
    known = await store.load_meta(run_id) is not None or bool(await store.load(run_id))
    async with holding(store, run_id, owner) as lease:
        if transcripts is not None and transcripts is not getattr(store, "transcripts", None):
            await transcripts.delete_run(run_id)
        await store.delete(run_id, **lease)
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
    for meta in await store.list_runs():
        run_id = str(meta.get("runId", ""))
        if meta.get("status") not in wanted or not _is_older(meta, before):
            continue
        try:
            if not dry_run:
                await delete_run(store, run_id, transcripts=transcripts)
            deleted.append(run_id)
        except LeaseHeldError:
            held.append(run_id)
    return Pruned(deleted=tuple(deleted), held=tuple(held))


@contextlib.asynccontextmanager
async def holding(store: Any, run_id: str, owner: str) -> AsyncIterator[dict[str, Any]]:
    """Hold a run's lease, and give the keyword that writes carry; nothing for a store without leases."""
    if not callable(getattr(store, "acquire_lease", None)):
        yield {}
        return
    lease = await store.acquire_lease(run_id, owner, _TTL_S)
    try:
        yield {"lease": lease}
    finally:
        await store.release_lease(lease)


def _moment(older_than: timedelta | datetime) -> float:
    if isinstance(older_than, timedelta) and older_than >= timedelta(0):
        return (datetime.now(UTC) - older_than).timestamp() * 1000
    if isinstance(older_than, datetime) and older_than.tzinfo is not None:
        return older_than.timestamp() * 1000
    raise ConfigError(
        f"older_than={older_than!r}: expected an age (timedelta) or an aware datetime",
        data={"field": "older_than"},
    )


def _is_older(meta: RunMeta, before: float) -> bool:
    try:
        return epoch_ms(str(meta.get("updatedAt"))) < before
    except ValueError:
        return False  # a row without a date is nobody's to delete by age
