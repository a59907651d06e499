"""Reading the bytes of a JSONL journal: whole lines, torn tails, records glued together.

A process that dies while it appends leaves a fragment behind its last whole line. The fragment was
never acknowledged, so it is invisible; whole records that a later append glued onto it are kept. A
line before the last that cannot be read is damage, and is refused with its line number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import JournalOrderViolation

__all__ = ["JournalLines", "decode_row", "portions", "read_journal_lines"]

_PORTION = 32 << 20


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
        return data[: self.intact] + self.salvaged


def read_journal_lines(data: bytes, name: str) -> JournalLines:
    """Read a journal's bytes.

    Raises:
        JournalOrderViolation: a line before the last cannot be read; names file and line.
    """
    entries: list[JournalEntry] = []
    start, end, number = 0, len(data.rstrip(b"\r\n")), 0
    while start < end:
        number += 1
        stop = data.find(b"\n", start)
        line = data[start:] if stop < 0 else data[start:stop]
        if line:
            try:
                entries.append(decode_entry(line))
            except ValueError as error:
                if 0 <= stop < end:
                    raise JournalOrderViolation(
                        f"{name}, line {number}: not a journal entry ({error}); "
                        "restore the file from a copy, or cut it before this line",
                        data={"file": name, "line": number},
                    ) from None
                salvaged = list(_glued_records(line))
                entries.extend(decode_entry(record) for record in salvaged)
                text = b"".join(record + b"\n" for record in salvaged)
                return JournalLines(entries, start, text, torn=True, terminated=True)
        start = len(data) if stop < 0 else stop + 1
    blank = 0 if end == 0 else data.find(b"\n", end) + 1 or len(data)
    if b"\r" in data[blank:]:  # a lone carriage return is no line that anything may follow
        return JournalLines(entries, blank, b"", torn=True, terminated=True)
    return JournalLines(entries, len(data), b"", torn=False, terminated=not data or data.endswith(b"\n"))


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


def _glued_records(line: bytes) -> Iterator[bytes]:
    """Yield the whole JSON records at the start of a damaged line."""
    text = line.decode("utf-8", "surrogateescape")
    decoder = json.JSONDecoder()
    start = 0
    while start < len(text):
        try:
            value, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        if not isinstance(value, (dict, list)):
            return
        yield text[start:stop].encode("utf-8", "surrogateescape")
        start = stop
