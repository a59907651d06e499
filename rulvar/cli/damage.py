"""What is wrong with the files of a run before its entries are looked at: a torn tail, a missing meta row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar.cli.amounts import count_text
from rulvar.stores.file_writes import read_file
from rulvar.stores.journal_lines import JournalLines, read_journal_lines
from rulvar.stores.jsonl import JsonlFileStore

if TYPE_CHECKING:
    from rulvar.contracts.entries import JournalEntry
    from rulvar.contracts.ports.store import JournalStore, RunMeta

__all__ = ["RawJournal", "damage_of", "read_raw"]


@dataclass(frozen=True, slots=True)
class RawJournal:
    """A journal as it lies in its file.

    Attributes:
        torn: what its last line is instead of an entry, or None.
    """

    entries: Sequence[JournalEntry]
    torn: str | None = None


async def read_raw(store: JournalStore, run_id: str) -> RawJournal:
    """Read a journal without mending it; of a folder, the bytes themselves are looked at.

    Raises:
        JournalOrderViolation: a line before the last cannot be read.
        ConfigError: the file cannot be read.
    """
    if not isinstance(store, JsonlFileStore):
        return RawJournal(await store.load(run_id))
    path = store.directory / f"{run_id}.jsonl"
    data = read_file(path)
    lines = read_journal_lines(data, str(path))
    return RawJournal(lines.entries, _torn(lines, data) if lines.torn else None)


async def damage_of(
    store: JournalStore, run_id: str, meta: RunMeta | None, entries: Sequence[JournalEntry]
) -> list[str]:
    """Return what a person who looks at a run is told of its files, a line each."""
    torn = (await read_raw(store, run_id)).torn
    told = [] if torn is None else [torn]
    if meta is None:
        told.append(
            "there is a journal and no meta row" if entries else "there is neither a meta row nor an entry"
        )
    return told


def _torn(lines: JournalLines, data: bytes) -> str:
    kept = lines.salvaged.count(b"\n")
    is_are = "is" if kept == 1 else "are"
    salvaged = f"; {count_text(kept, 'whole entry', 'whole entries')} in it {is_are} kept" if kept else ""
    lost = len(data) - lines.intact
    verb = "is" if lost == 1 else "are"
    return f"the last line is torn: {count_text(lost, 'byte')} {verb} no entry{salvaged}"
