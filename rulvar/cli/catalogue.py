"""The runs of a store, found even where a meta row is missing or cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar.cli.hints import did_you_mean, near_run_ids
from rulvar.cli.stores import name_of_store
from rulvar.contracts.ids import check_run_id, is_run_id
from rulvar.errors import RulvarError, RunNotFoundError, StoreError
from rulvar.stores.jsonl import JsonlFileStore

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.ports.store import JournalStore, RunMeta

__all__ = ["Listed", "journal_of", "list_runs", "meta_of", "not_found", "run_ids"]


@dataclass(frozen=True, slots=True)
class Listed:
    """One run of a store: its meta row, or what is wrong with it."""

    run_id: str
    meta: RunMeta
    problem: str | None = None


async def run_ids(store: JournalStore) -> list[str]:
    """Return the ids of the runs of a store, in order; a store that cannot tell lists its meta rows."""
    listing = getattr(store, "run_ids", None)
    if callable(listing):
        found: list[str] = await listing()
        return found
    rows = await store.list_runs()
    return [str(row["runId"]) for row in rows if is_run_id(str(row.get("runId")))]


async def list_runs(store: JournalStore) -> list[Listed]:
    """Return every run of a store.

    Raises:
        StoreError: the store cannot be reached.
    """
    rows: dict[str, RunMeta] = {}
    if isinstance(store, JsonlFileStore):  # a row is of the run that its file is named after
        return [await _listed(store, run_id, None) for run_id in await run_ids(store)]
    try:
        rows = {str(row.get("runId")): row for row in await store.list_runs()}
    except StoreError as error:
        if error.retryable:
            raise
        # one that is damaged: they are read one by one
    except (RulvarError, OSError):
        pass
    return [await _listed(store, run_id, rows.get(run_id)) for run_id in await run_ids(store)]


async def _listed(store: JournalStore, run_id: str, meta: RunMeta | None) -> Listed:
    if meta is None:
        try:
            meta = await store.load_meta(run_id)
        except (RulvarError, OSError) as error:
            return Listed(run_id, {}, str(error))
    return Listed(run_id, meta or {}, None if meta is not None else "there is a journal and no meta row")


async def meta_of(store: JournalStore, run_id: str) -> RunMeta:
    """Return the meta row of a run; empty when it has a journal only.

    Raises:
        RunNotFoundError: there is no such run; names the nearest.
        ConfigError: the id is no run id, or the meta row cannot be read.
    """
    meta = await store.load_meta(check_run_id(run_id))
    if meta is None and not await store.load(run_id):
        raise await not_found(store, run_id)
    return meta or {}


async def journal_of(store: JournalStore, run_id: str) -> tuple[RunMeta, list[JournalEntry]]:
    """Return the meta row and the entries of a run.

    Raises:
        RunNotFoundError, ConfigError: as for :func:`meta_of`.
        JournalOrderViolation: the journal is damaged; names file and line.
    """
    entries = await store.load(check_run_id(run_id))
    meta = await store.load_meta(run_id)
    if meta is None and not entries:
        raise await not_found(store, run_id)
    return meta or {}, entries


async def not_found(store: JournalStore, run_id: str) -> RunNotFoundError:
    """Return the error that a store has no run of an id, or none of which anything can be told."""
    where = name_of_store(store)
    known = await run_ids(store)
    if run_id in known:
        message = f"run {run_id!r} in {where} has neither a meta row nor an entry; rulvar runs audit {run_id} says more"
        return RunNotFoundError(message, data={"runId": run_id})
    hint = did_you_mean(near_run_ids(run_id, known), "rulvar runs ls lists them")
    return RunNotFoundError(f"no run {run_id!r} in {where}; {hint}", data={"runId": run_id})
