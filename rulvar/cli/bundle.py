"""One run in one file: ``{"v": 1, "kind": "rulvar-run", "runId", "meta", "entries", "transcripts"}``.

Entries are the journal's lines as they are, so that what comes out again is the same byte for byte.
Transcripts are base64 by their name within the run. Everything read from such a file is checked: a
name that could leave the run's folder is refused, and so is an order that no journal has.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError, NonSerializableValueError

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import JournalStore, RunMeta
    from rulvar.contracts.ports.transcripts import TranscriptStore

__all__ = ["KIND", "Bundle", "decode_bundle", "encode_bundle"]

KIND = "rulvar-run"
VERSION = 1
_PART = re.compile(r"[A-Za-z0-9._-]{1,200}")
_MOST_PARTS = 8


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run apart from any store: its meta row, its journal, its transcripts by name."""

    run_id: str
    meta: RunMeta
    entries: list[JournalEntry]
    transcripts: Mapping[str, bytes] = field(default_factory=dict)

    async def put_into(self, store: JournalStore, transcripts: TranscriptStore) -> None:
        """Write the run into a store that does not hold it; the meta row comes last."""
        for name, data in self.transcripts.items():
            await transcripts.put(f"{self.run_id}/{name}", data)
        if self.entries:
            await store.append(self.run_id, self.entries)
        await store.save_meta(self.run_id, {**self.meta, "runId": self.run_id})


class _File(msgspec.Struct):
    v: Any = None
    kind: Any = None
    runId: Any = None  # the name in the file
    meta: Any = None
    entries: list[msgspec.Raw] = []
    transcripts: Any = {}


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
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError) as error:
        _refuse(name, "", f"not an exported run: {error}")
    if file.kind != KIND:
        _refuse(name, "kind", f"expected {KIND!r}, got {file.kind!r}: this is not an exported run")
    if isinstance(file.v, bool) or file.v != VERSION:
        _refuse(name, "v", f"this rulvar reads version {VERSION}, the file is of version {file.v!r}")
    try:
        run_id = check_run_id(file.runId)
    except ConfigError as error:
        _refuse(name, "runId", error.message)
    meta = _meta(data, file, name, run_id)
    return Bundle(run_id, meta, _entries(file.entries, name), _transcripts(file.transcripts, name))


def _meta(data: bytes, file: _File, name: str, run_id: str) -> RunMeta:
    if not isinstance(file.meta, dict):
        _refuse(name, "meta", "expected an object")
    meta: RunMeta = decode_json(data)["meta"]  # exact: big numbers and lone surrogates stay
    if meta.get("runId", run_id) != run_id:
        _refuse(name, "meta.runId", f"is {meta['runId']!r}, but the file is of run {run_id!r}")
    return meta


def _entries(lines: Iterable[msgspec.Raw], name: str) -> list[JournalEntry]:
    entries: list[JournalEntry] = []
    tail = -1
    for number, raw in enumerate(lines):
        where, line = f"entries[{number}]", bytes(raw)
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
        parts = ref.split("/")
        if len(parts) > _MOST_PARTS or any(
            not _PART.fullmatch(part) or part in {".", ".."} for part in parts
        ):
            _refuse(name, where, "not a name within the run: use A-Z a-z 0-9 . _ - and / between them")
        try:
            decoded[ref] = base64.b64decode(text, validate=True)
        except (TypeError, ValueError, binascii.Error):
            _refuse(name, where, "expected base64")
    return decoded


def _refuse(name: str, field_name: str, problem: str) -> NoReturn:
    where = f"{name}: {field_name}" if field_name else name
    raise ConfigError(f"{where}: {problem}", data={"file": name, "field": field_name})
