"""A recorded run as tests hand it over: entries, a store, a file, an exported run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.entries import JournalEntry, as_entries
from rulvar.contracts.ports.store import JournalStore
from rulvar.contracts.ports.transcripts import TranscriptStore
from rulvar.engine.compatibility import check_journal
from rulvar.errors import ConfigError, JournalOrderViolation
from rulvar.stores.bundle import KEPT_ARGS, KIND, Bundle, decode_bundle
from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.memory import InMemoryTranscripts
from rulvar.stores.run_file import read_run_file

__all__ = ["Journal", "kept_args", "recorded_run", "run_of_file", "transcripts_beside", "transcripts_of"]

Journal = (
    Iterable[JournalEntry | Mapping[str, Any]]
    | tuple[JournalStore, str]
    | str
    | os.PathLike[str]
    | Bundle
    | Mapping[str, Any]
)
"""Entries or their JSON objects, ``(store, run_id)``, the path of a journal or of an exported run, or such a run."""

UNNAMED = "replay"
"""The id of a run of which nothing but entries is known."""

_KINDS_OF_JOURNAL = "expected entries, (store, run_id), the path of a journal (.jsonl) or of an exported run, or an exported run"


async def recorded_run(journal: Journal) -> Bundle:
    """Return a recorded run.

    Raises:
        ConfigError: it is none of what a journal can be, or cannot be read.
        JournalCompatibilityError: an entry is none that can be replayed.
        JournalOrderViolation: the journal is damaged. Both name the run or file, and the entry or line.
    """
    run = await _read(journal)
    check_journal(run.run_id, run.entries)
    return run


def run_of_file(path: str | os.PathLike[str]) -> Bundle:
    """Return a run that lies in a file and can be replayed: a journal, or an exported run.

    Raises:
        ConfigError: there is no such file, or it is no run.
        JournalCompatibilityError: an entry is none that can be replayed.
        JournalOrderViolation: the journal is damaged. Both name the file and the line, or the entry.
    """
    run = read_run_file(path)
    check_journal(run.run_id, run.entries, lambda entry: _place(Path(path), entry))
    return run


def _place(path: Path, entry: int) -> str:
    """Return how an entry of a run's file is named: by line in a journal."""
    if path.suffix != ".jsonl":
        return f"{path}: entry {entry} of the journal"
    full = (number for number, line in enumerate(path.read_bytes().split(b"\n"), 1) if line)
    return f"{path}, line {next(islice(full, entry - 1, None), entry)}"


async def _read(journal: Any) -> Bundle:
    if isinstance(journal, Bundle):
        return journal
    if isinstance(journal, (str, os.PathLike)):
        return run_of_file(journal)
    if isinstance(journal, tuple) and len(journal) == 2 and isinstance(journal[1], str):
        return await _stored(*journal)
    if isinstance(journal, Mapping):
        if journal.get("kind") != KIND:
            raise ConfigError(f"journal: {_KINDS_OF_JOURNAL}", data={"field": "journal"})
        return decode_bundle(encode_json(dict(journal)), "journal")
    if isinstance(journal, (bytes, bytearray)) or not isinstance(journal, Iterable):
        raise ConfigError(
            f"journal: {_KINDS_OF_JOURNAL}, got {type(journal).__name__}", data={"field": "journal"}
        )
    entries = as_entries(journal)
    _check_order(entries)
    return Bundle(_run_id_of(entries) or UNNAMED, {}, entries)


def _check_order(entries: list[JournalEntry]) -> None:
    """Refuse what no store could have handed out; nobody else has written to it."""
    before = -1
    for index, entry in enumerate(entries):
        if entry.seq < 0:
            raise ConfigError(
                f"journal[{index}].seq: expected an integer from 0 up; hand over the entries as the store loaded them",
                data={"field": f"journal[{index}].seq"},
            )
        if entry.seq <= before:
            raise JournalOrderViolation(
                f"journal[{index}].seq: {entry.seq} does not come after {before}, the seq of the entry before it; hand "
                "over the entries in their order",
                data={"field": f"journal[{index}].seq"},
            )
        before = entry.seq


async def _stored(store: JournalStore, run_id: str) -> Bundle:
    entries, meta = await store.load(run_id), await store.load_meta(run_id)
    if not entries and meta is None:
        raise ConfigError(
            f"journal: the store has no run {run_id!r}", data={"field": "journal", "runId": run_id}
        )
    blobs: dict[str, bytes] = {}
    transcripts = getattr(store, "transcripts", None)
    if transcripts is not None:
        kept = await transcripts.get(f"{run_id}/{KEPT_ARGS}")
        if kept is not None:
            blobs[KEPT_ARGS] = kept
    return Bundle(run_id, meta or {}, entries, blobs)


async def transcripts_of(run: Bundle, journal: Journal) -> TranscriptStore | None:
    """Return where the conversations of a recorded run are, or None where only its journal is at hand."""
    if isinstance(journal, tuple) and len(journal) == 2:
        beside: TranscriptStore | None = getattr(journal[0], "transcripts", None)
        return beside
    if isinstance(journal, (str, os.PathLike)) and not run.transcripts:
        return transcripts_beside(journal)
    kept = InMemoryTranscripts()
    for name, data in run.transcripts.items():
        await kept.put(f"{run.run_id}/{name}", data)
    return kept


def transcripts_beside(journal: str | os.PathLike[str]) -> TranscriptStore | None:
    """Return the transcripts of the store that a journal file lies in, or None where it lies alone."""
    folder = Path(journal).parent
    return JsonlFileStore(folder).transcripts if (folder / "transcripts").is_dir() else None


def kept_args(run: Bundle) -> Any:
    """Return the arguments that are kept with a run; None when there are none."""
    data = run.transcripts.get(KEPT_ARGS)
    if data is None:
        return None
    try:
        return decode_json(data)
    except ValueError as error:
        raise ConfigError(
            f"run {run.run_id!r}: the kept arguments cannot be read: {error}; pass args",
            data={"field": "args"},
        ) from None


def _run_id_of(entries: list[JournalEntry]) -> str | None:
    """Return the id that the transcripts of a journal are filed under: a workflow may have read it."""
    for entry in entries:
        if b'"transcriptRef"' in entry.line:
            ref = entry.to_wire().get("transcriptRef")
            if isinstance(ref, str) and "/" in ref:
                return ref.partition("/")[0] or None
    return None
