"""The runs of a store, found even where a meta row is missing or cannot be read."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError, RulvarError, RunNotFoundError

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.ports.store import JournalStore, RunMeta
    from rulvar.stores.jsonl import JsonlFileStore

__all__ = ["Listed", "journal_of", "list_runs", "meta_of", "run_ids"]

_META, _JOURNAL = ".meta.json", ".jsonl"


@dataclass(frozen=True, slots=True)
class Listed:
    """One run of a store: its meta row, or what is wrong with it."""

    run_id: str
    meta: RunMeta
    problem: str | None = None


def run_ids(store: JsonlFileStore) -> list[str]:
    """Return the ids of the runs in a folder, in order; a file whose name is no run id is passed over."""
    names = set()
    for path in store.directory.iterdir():
        for suffix in (_META, _JOURNAL):
            if path.name.endswith(suffix):
                names.add(path.name.removesuffix(suffix))
    return sorted(name for name in names if _is_run_id(name))


async def list_runs(store: JsonlFileStore) -> list[Listed]:
    """Return every run of a folder."""
    listed = []
    for run_id in run_ids(store):
        try:
            meta = await store.load_meta(run_id)
        except (RulvarError, OSError) as error:
            listed.append(Listed(run_id, {}, str(error)))
            continue
        problem = None if meta is not None else "there is a journal and no meta row"
        listed.append(Listed(run_id, meta or {}, problem))
    return listed


async def meta_of(store: JournalStore, run_id: str) -> RunMeta:
    """Return the meta row of a run; empty when it has a journal only.

    Raises:
        RunNotFoundError: there is no such run; names the nearest.
        ConfigError: the id is no run id, or the meta row cannot be read.
    """
    meta = await store.load_meta(check_run_id(run_id))
    if meta is None and not await store.load(run_id):
        raise RunNotFoundError(_not_found(store, run_id), data={"runId": run_id})
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
        raise RunNotFoundError(_not_found(store, run_id), data={"runId": run_id})
    return meta or {}, entries


def _not_found(store: JournalStore, run_id: str) -> str:
    from rulvar.stores.jsonl import JsonlFileStore

    if not isinstance(store, JsonlFileStore):
        return f"no run {run_id!r} in the store"
    known = run_ids(store) if store.directory.is_dir() else []
    near: Sequence[str] = difflib.get_close_matches(run_id, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "rulvar runs ls lists them"
    return f"no run {run_id!r} in {store.directory}; {hint}"


def _is_run_id(name: str) -> bool:
    try:
        check_run_id(name)
    except ConfigError:
        return False
    return True
