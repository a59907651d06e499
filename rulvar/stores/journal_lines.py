"""Reading the bytes of a JSONL journal: whole lines, torn tails, records glued together.

A process that dies while it appends leaves a fragment behind its last whole line. The fragment was
never acknowledged, so it is invisible; whole records that a later append glued onto it are kept. A
line before the last that cannot be read is damage, and is refused with its line number. A repaired journal
has one line per record, as it was written, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import JournalOrderViolation

__all__ = ["JournalLines", "decode_row", "portions", "read_journal_lines"]

_PORTION = 32 << 20
_SPACE = b" \t\r\n"
_OPENING = re.compile(r"[ \t\r\n]*[{\[]")


@dataclass(frozen=True, slots=True)
class JournalLines:
    """What a journal file holds.

    Attributes:
        entries: the readable entries, in order.
        intact: how many bytes from the start are whole lines as they stand.
        salvaged: whole records found in the damaged tail, one line each.
        torn: whether the file has bytes behind ``intact`` that are not whole lines.
        terminated: whether the intact part ends with a line feed.
    """

    entries: list[JournalEntry]
    intact: int
    salvaged: bytes
    torn: bool
    terminated: bool

    def repaired(self, data: bytes) -> bytes:
        """Return the file's bytes without the damage."""
        return b"".join([entry.line + b"\n" for entry in self.entries]) if self.torn else data


def read_journal_lines(data: bytes, name: str) -> JournalLines:
    """Read a journal's bytes.

    Raises:
        JournalOrderViolation: a line before the last cannot be read; names file and line.
    """
    entries: list[JournalEntry] = []
    start, number = 0, 0
    while start < len(data):
        number += 1
        stop = data.find(b"\n", start)
        line = data[start:] if stop < 0 else data[start:stop]
        if line:
            try:
                entries.append(decode_entry(line))
            except ValueError as error:
                if stop >= 0 and data[stop:].strip(b"\n"):
                    raise JournalOrderViolation(
                        f"{name}, line {number}: not a journal entry ({error}); "
                        "restore the file from a copy, or cut it before this line",
                        data={"file": name, "line": number},
                    ) from None
                return _torn(entries, start, line)
        start = len(data) if stop < 0 else stop + 1
    return JournalLines(entries, len(data), b"", torn=False, terminated=not data or data.endswith(b"\n"))


def _torn(entries: list[JournalEntry], intact: int, line: bytes) -> JournalLines:
    """Return what is left of a journal whose last line is torn, as it is written after the repair."""
    whole = [_alone(entry) for entry in entries]
    salvaged = list(_glued_records(line))
    text = b"".join([entry.line + b"\n" for entry in salvaged])
    return JournalLines([*whole, *salvaged], intact, text, torn=True, terminated=True)


def _alone(entry: JournalEntry) -> JournalEntry:
    """Return an entry without the white space around it."""
    line = entry.line.strip(_SPACE)
    return entry if line == entry.line else decode_entry(line)


def decode_row(line: object, run_id: str, seq: object) -> JournalEntry:
    """Read the line that a database keeps of an entry.

    Raises:
        JournalOrderViolation: it is no entry, or another row's; names run and seq.
    """
    try:
        if not isinstance(line, bytes):
            raise ValueError(f"expected bytes, got {type(line).__name__}")
        entry = decode_entry(line)
        if entry.seq != seq:
            raise ValueError(f"its line says seq {entry.seq}")
        return entry
    except ValueError as error:
        raise JournalOrderViolation(
            f"run {run_id}, seq {seq}: not a journal entry ({error}); restore the run from an archive or a backup",
            data={"runId": run_id, "seq": seq},
        ) from None


def portions(entries: Sequence[JournalEntry]) -> Iterator[Sequence[JournalEntry]]:
    """Yield a journal in portions of about 32 MB: no database takes a gigabyte in one statement."""
    start = size = 0
    for index, entry in enumerate(entries):
        size += len(entry.line)
        if size >= _PORTION:
            yield entries[start : index + 1]
            start, size = index + 1, 0
    if start < len(entries):
        yield entries[start:]


def _glued_records(line: bytes) -> Iterator[JournalEntry]:
    """Yield the whole JSON records at the start of a damaged line."""
    text = line.decode("utf-8", "surrogateescape")
    decoder = json.JSONDecoder()
    stop = 0
    while (opening := _OPENING.match(text, stop)) is not None:
        try:
            start = opening.end() - 1
            _, stop = decoder.raw_decode(text, start)
            yield decode_entry(text[start:stop].encode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            return
