"""One run in one file: ``{"v": 1, "kind": "rulvar-run", "runId", "meta", "entries", "transcripts"}``.

Entries are the journal's lines as they are, so that what comes out again is the same byte for byte.
Transcripts are base64 by their name within the run. Everything read from such a file is checked: a
name that could leave the run's folder is refused, and so is an order that no journal has.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError, NonSerializableValueError
from rulvar.stores.journal_lines import portions

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.contracts.ports.transcripts import TranscriptStore

__all__ = ["KEPT_ARGS", "KIND", "Bundle", "decode_bundle", "encode_bundle", "is_blob_name"]

KEPT_ARGS = "cli-args"
"""The transcript that holds a run's arguments, where they are kept; a journal holds their hash only."""

KIND = "rulvar-run"
VERSION = 1
_PART = re.compile(r"[A-Za-z0-9._-]{1,200}")
_SPACE = re.compile(r"[ \t\r\n]+")
_MOST_PARTS = 8


class Taking(Protocol):
    """What takes a run in: a store, or a run that somebody holds."""

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries."""

    async def save_meta(self, run_id: str, meta: RunMeta) -> None:
        """Replace the meta row."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run apart from any store: its meta row, its journal, its transcripts by name."""

    run_id: str
    meta: RunMeta
    entries: list[JournalEntry]
    transcripts: Mapping[str, bytes] = field(default_factory=dict)

    async def put_into(self, store: Taking, transcripts: TranscriptStore) -> None:
        """Write the run into a store that does not hold it; the meta row comes last."""
        for name, data in self.transcripts.items():
            await transcripts.put(f"{self.run_id}/{name}", data)
        for part in portions(self.entries):
            await store.append(self.run_id, part)
        await store.save_meta(self.run_id, {**self.meta, "runId": self.run_id})


def is_blob_name(name: str) -> bool:
    """Whether a transcript may go by a name: it must not lead out of its run's folder."""
    parts = name.split("/")
    return len(parts) <= _MOST_PARTS and all(
        _PART.fullmatch(part) and part not in {".", ".."} for part in parts
    )


def encode_bundle(bundle: Bundle, version: str) -> bytes:
    """Return the bytes of a run's file.

    Args:
        version: of the rulvar that writes it.

    Raises:
        ConfigError: an entry holds bytes that no JSON text may hold; names its seq.
    """
    head = {"v": VERSION, "kind": KIND, "rulvar": version, "runId": bundle.run_id, "meta": bundle.meta}
    for entry in bundle.entries:
        try:
            entry.line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"entry {entry.seq}: not UTF-8 at byte {error.start} of its line") from None
    lines = b",\n".join(entry.line.strip() for entry in bundle.entries)
    blobs = {
        name: base64.b64encode(data).decode("ascii") for name, data in sorted(bundle.transcripts.items())
    }
    return b"".join(
        (
            encode_json(head)[:-1],
            b',"entries":[\n' if lines else b',"entries":[',
            lines,
            b'\n],"transcripts":' if lines else b'],"transcripts":',
            encode_json(blobs),
            b"}\n",
        )
    )


def decode_bundle(data: bytes, name: str) -> Bundle:
    """Read a run's file.

    Raises:
        ConfigError: it is no such file, or something in it is wrong; names file and field.
    """
    try:
        file, lines = _read(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        _refuse(name, "", f"not an exported run: {problem}")
    if file.get("kind") != KIND:
        _refuse(name, "kind", f"expected {KIND!r}, got {file.get('kind')!r}: this is not an exported run")
    version = file.get("v")
    if isinstance(version, bool) or version != VERSION:
        _refuse(name, "v", f"this rulvar reads version {VERSION}, the file is of version {version!r}")
    try:
        run_id = check_run_id(file.get("runId"))
    except ConfigError as error:
        _refuse(name, "runId", error.message)
    meta = _meta(file.get("meta"), name, run_id)
    transcripts = _transcripts(file.get("transcripts", {}), name)
    return Bundle(run_id, meta, _entries(lines, name), transcripts)


def _read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the file's object; the items of ``entries`` are returned as they stand in the text.

    Raises:
        ValueError: not JSON, or ``entries`` is no array.
    """
    decode = json.JSONDecoder().raw_decode
    fields: dict[str, Any] = {}
    lines: list[str] = []
    at = _expect(text, 0, "{")
    while text[at : at + 1] != "}":
        key, end = decode(text, at)
        if not isinstance(key, str):
            raise ValueError(f"expected a name at character {at}")
        at = _expect(text, end, ":")
        if key == "entries":
            at = _slices(text, at, decode, lines)
        else:
            fields[key], at = decode(text, at)
        at = _separator(text, at, "}")
    _expect_end(text, at + 1)
    return fields, lines


def _slices(text: str, at: int, decode: Callable[[str, int], tuple[Any, int]], lines: list[str]) -> int:
    lines.clear()
    at = _expect(text, at, "[")
    while text[at : at + 1] != "]":
        _, end = decode(text, at)
        lines.append(text[at:end])
        at = _separator(text, end, "]")
    return at + 1


def _expect(text: str, at: int, mark: str) -> int:
    """Step over a mark and the white space around it."""
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {at}")
    return _skip(text, at + 1)


def _separator(text: str, at: int, closing: str) -> int:
    """Step to the next item, or to the closing mark."""
    at = _skip(text, at)
    if text[at : at + 1] == closing:
        return at
    at = _expect(text, at, ",")
    if text[at : at + 1] == closing:
        raise ValueError(f"expected another item at character {at}")
    return at


def _expect_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise ValueError(f"more text at character {at}")


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _meta(meta: Any, name: str, run_id: str) -> RunMeta:
    if not isinstance(meta, dict):
        _refuse(name, "meta", "expected an object")
    if meta.get("runId", run_id) != run_id:
        _refuse(name, "meta.runId", f"is {meta['runId']!r}, but the file is of run {run_id!r}")
    return meta


def _entries(lines: Iterable[str], name: str) -> list[JournalEntry]:
    entries: list[JournalEntry] = []
    tail = -1
    for number, text in enumerate(lines):
        where, line = f"entries[{number}]", text.encode("utf-8")
        try:
            if b"\n" in line or b"\r" in line:
                line = encode_json(decode_json(line))
            entry = decode_entry(line)
        except (ValueError, NonSerializableValueError, RecursionError) as error:
            _refuse(name, where, str(error))
        if not line.startswith(b"{"):
            _refuse(name, where, "expected an object")
        if entry.seq <= tail:
            _refuse(name, f"{where}.seq", f"{entry.seq} is not after {tail}")
        tail = entry.seq
        entries.append(entry)
    return entries


def _transcripts(blobs: Any, name: str) -> dict[str, bytes]:
    if not isinstance(blobs, dict):
        _refuse(name, "transcripts", "expected an object")
    decoded = {}
    for ref, text in blobs.items():
        where = f"transcripts[{ref!r}]"
        if not is_blob_name(ref):
            _refuse(name, where, "not a name within the run: use A-Z a-z 0-9 . _ - and / between them")
        try:
            decoded[ref] = base64.b64decode(text, validate=True)
        except (TypeError, ValueError, binascii.Error):
            _refuse(name, where, "expected base64")
    return decoded


def _refuse(name: str, field_name: str, problem: str) -> NoReturn:
    where = f"{name}: {field_name}" if field_name else name
    raise ConfigError(f"{where}: {problem}", data={"file": name, "field": field_name})
