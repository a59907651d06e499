"""Journal entries: the append-only records of a run.

An entry keeps the line it was read from, so that unknown kinds and fields pass through byte for
byte and a value is parsed only when something asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.errors import ConfigError

__all__ = ["JournalEntry", "as_entries", "decode_entry"]


class JournalEntry(msgspec.Struct, rename="camel", gc=False, frozen=True, eq=False):
    """One entry of a journal.

    The attributes are what matching needs; everything else is in :meth:`to_wire`. ``seq`` gives the
    total order of a run, ``ref`` (always smaller) names the entry that this one closes. ``hash_version`` may be
    any number that somebody wrote; only 1 and 2 are read.
    """

    seq: int = -1
    kind: str = ""
    status: str = ""
    scope: str = ""
    key: str = ""
    ordinal: int = 0
    ref: int | None = None
    hash_version: int | float = 1
    span_id: str = ""
    memoize_outcome: bool = False
    line: bytes = msgspec.field(default=b"", name="~line")

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Make an entry of its JSON object.

        Raises:
            NonSerializableValueError: a value that JSON cannot hold.
        """
        return cls(
            seq=wire.get("seq", -1),
            kind=wire.get("kind", ""),
            status=wire.get("status", ""),
            scope=wire.get("scope", ""),
            key=wire.get("key", ""),
            ordinal=wire.get("ordinal", 0),
            ref=wire.get("ref"),
            hash_version=wire.get("hashVersion", 1),
            span_id=wire.get("spanId", ""),
            memoize_outcome=wire.get("memoizeOutcome", False),
            line=encode_json(wire),
        )

    def to_wire(self) -> dict[str, Any]:
        """Return the entry's whole JSON object, freshly parsed."""
        wire: dict[str, Any] = decode_json(self.line)
        return wire

    @property
    def value(self) -> Any:
        """The entry's value, freshly parsed; None when it has none."""
        return self.to_wire().get("value")


_LARGEST = 2**63
_HEAD = msgspec.json.Decoder(JournalEntry)
_FIELDS: Mapping[str, Any] = {
    "seq": int,
    "kind": str,
    "status": str,
    "scope": str,
    "key": str,
    "ordinal": int,
    "ref": int,
    "hashVersion": (int, float),
    "spanId": str,
    "memoizeOutcome": bool,
}


def decode_entry(line: bytes) -> JournalEntry:
    """Read one journal line.

    A line that is JSON but not an entry (a bare number, an entry without a seq) is kept as an entry
    of kind ``""``: it matches nothing and passes through.

    Raises:
        ValueError: the line is not JSON.
    """
    try:
        entry = _HEAD.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return _decode_loosely(line)
    if entry.hash_version == 1 or not _is_utf8(line):
        return _decode_loosely(line)  # the version may stand in the legacy field "v"
    msgspec.structs.force_setattr(entry, "line", line)
    return entry


def _is_utf8(line: bytes) -> bool:
    """Whether a line is UTF-8 as a whole: what is skipped is not looked at."""
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


def _decode_loosely(line: bytes) -> JournalEntry:
    wire = decode_json(line)
    if not isinstance(wire, dict):
        is_number = isinstance(wire, (int, float)) and not isinstance(wire, bool)
        seq = int(wire) if is_number and abs(wire) < _LARGEST else -1
        return JournalEntry(seq=seq, line=line)
    told = {name: _whole(wire[name]) for name in _FIELDS if name in wire}
    known = {name: value for name, value in told.items() if _is_of(value, _FIELDS[name])}
    if "hashVersion" not in known and _is_of(legacy := _whole(wire.get("v")), _FIELDS["hashVersion"]):
        known["hashVersion"] = legacy
    head = msgspec.convert(known, JournalEntry)
    return msgspec.structs.replace(head, line=line)


def _whole(value: Any) -> Any:
    """Return a number without a fraction as an integer: JSON does not tell 1.0 from 1."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < _LARGEST else value


def _is_of(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def as_entries(journal: Iterable[JournalEntry | Mapping[str, Any]]) -> list[JournalEntry]:
    """Take entries, or their plain JSON objects, and return entries.

    Raises:
        ConfigError: something that is neither.
    """
    entries: list[JournalEntry] = []
    for index, item in enumerate(journal):
        if isinstance(item, JournalEntry):
            entries.append(item)
        elif isinstance(item, Mapping):
            entries.append(decode_entry(encode_json(dict(item))))
        else:
            raise ConfigError(
                f"journal[{index}]: expected an entry or its JSON object, got {type(item).__name__}"
            )
    return entries
