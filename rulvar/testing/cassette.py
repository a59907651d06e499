"""Reads cassettes: recorded exchanges with models, one JSON line each, found by request hash.

A file is checked in depth in one pass when it is opened and indexed by (adapter, request hash). Its
rows stay bytes until somebody asks for one, so that a file of 100,000 rows costs little more memory
than its size.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, overload

import msgspec

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.foreign_text import tell_foreign_text
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError
from rulvar.testing.cassette_lines import Declaration, LineReader, RowFacts
from rulvar.testing.cassette_shape import (
    WrongField,
    caps_from_wire,
    check_header,
    event_from_wire,
)

__all__ = ["Cassette", "CassetteHeader", "CassetteRow", "read_cassette"]

_BLANK = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" + (
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


_OPEN_BRACE = ord("{")
_RECORD_AGAIN = "record the cassette again"
_TORN = "the last line is torn (a recording was cut off there): delete the line, or record again"
_CORRECT = f"correct it, or {_RECORD_AGAIN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteHeader:
    """The first line of a cassette; ``wire`` is the JSON object with whatever else it holds."""

    hash_version: int
    recorded_at: str
    wire: dict[str, Any]


class CassetteRow:
    """One recorded exchange.

    ``line`` is its 1-based line in the file and ``number`` its 1-based place among the rows. ``wire``
    is the whole JSON object, unknown fields included.
    """

    __slots__ = ("line", "number", "wire")

    def __init__(self, number: int, line: int, wire: dict[str, Any]) -> None:
        self.number = number
        self.line = line
        self.wire = wire

    @property
    def adapter_id(self) -> str:
        """The adapter that made the exchange."""
        return str(self.wire["adapterId"])

    @property
    def model(self) -> str:
        """The model that was asked."""
        return str(self.wire["model"])

    @property
    def request_hash(self) -> str:
        """The hash of the request before it was redacted."""
        return str(self.wire["requestHash"])

    @property
    def occurrence(self) -> int | None:
        """The number that the call claimed among the calls of its request hash; None in old files."""
        number = self.wire.get("occurrence")
        return None if number is None else int(number)

    @property
    def provider(self) -> str | None:
        """The provider family that the adapter declared."""
        return self.wire.get("provider")

    @property
    def usage_semantics(self) -> str | None:
        """How the adapter declared that its usage is to be read."""
        return self.wire.get("usageSemantics")

    @property
    def request(self) -> dict[str, Any]:
        """The redacted request as its JSON object."""
        request: dict[str, Any] = self.wire["request"]
        return request

    @property
    def events(self) -> tuple[ChatEvent, ...]:
        """The redacted events of the stream, in order."""
        return tuple(event_from_wire(event) for event in self.wire["events"])

    @property
    def last_event(self) -> ChatEvent | None:
        """The event that the stream ended with; None when there is none."""
        events = self.wire["events"]
        return event_from_wire(events[-1]) if events else None

    @property
    def caps(self) -> ModelCaps:
        """What the adapter said of the model when the exchange was recorded."""
        return caps_from_wire(self.wire["caps"])

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the row."""
        return self.wire

    def __repr__(self) -> str:
        return f"<CassetteRow line {self.line}: {self.adapter_id} {self.request_hash[:8]} #{self.occurrence}>"


class Rows(Sequence[CassetteRow]):
    """The rows of a cassette in file order; each is decoded when it is asked for."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette

    def __len__(self) -> int:
        return len(self._cassette.starts)

    @overload
    def __getitem__(self, index: int) -> CassetteRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[CassetteRow]: ...
    def __getitem__(self, index: int | slice) -> CassetteRow | list[CassetteRow]:
        if isinstance(index, slice):
            return [self._cassette.row(i) for i in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"row {index} of {count}")
        return self._cassette.row(index % count)

    def __iter__(self) -> Iterator[CassetteRow]:
        return (self._cassette.row(index) for index in range(len(self)))


class Cassette:
    """An open cassette.

    Attributes:
        path: the file, as it was given.
        place: its absolute path; the working directory may change.
        header: its first line.
        rows: a sequence of :class:`CassetteRow` in file order.
    """

    def __init__(self, path: str, data: bytes, header: CassetteHeader) -> None:
        self.path = path
        self.place = os.path.abspath(path)
        self.header = header
        self.rows = Rows(self)
        self.data = data
        self.starts = array("Q")
        self.ends = array("Q")
        self.lines = array("Q")
        self.occurrences = array("q")  # -1: the row carries no number
        self.declared = array("I")
        self.declarations: list[Declaration] = []
        self.unterminated = array("I")  # rows that do not end with their one terminal event
        self.groups: dict[str, dict[str, int | list[int]]] = {}
        self.sketches: dict[str, Any] = {}  # what the search for a nearest row keeps, per adapter

    def row(self, index: int) -> CassetteRow:
        """Return the row at a 0-based index."""
        wire = decode_json(self.data[self.starts[index] : self.ends[index]])
        return CassetteRow(index + 1, self.lines[index], wire)

    def events(self, index: int) -> tuple[ChatEvent, ...]:
        """Return the events of the row at a 0-based index, and decode nothing else of it."""
        line = self.data[self.starts[index] : self.ends[index]]
        try:
            return _decode_served(line).events
        except (msgspec.DecodeError, UnicodeDecodeError):
            return tuple(event_from_wire(event) for event in decode_json(line)["events"])

    def group(self, adapter_id: str, request_hash: str) -> Sequence[int]:
        """Return the 0-based indexes of the rows of one request, in file order."""
        group = self.groups.get(adapter_id, {}).get(request_hash, ())
        return (group,) if isinstance(group, int) else group

    def __repr__(self) -> str:
        return f"<Cassette {self.path}: {len(self.rows)} rows>"


class _Served(msgspec.Struct, gc=False):
    events: tuple[ChatEvent, ...]


_decode_served = msgspec.json.Decoder(_Served).decode


def read_cassette(path: str | os.PathLike[str]) -> Cassette:
    """Open a cassette and check every line of it in depth.

    Raises:
        ConfigError: the file cannot be read, is no cassette, or one of its rows is wrong. The
            message names the file, the line and the field; ``data`` has them too.
    """
    name = cassette_name(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        problem = f"cannot read the cassette: {error.strerror or error}; record it first, or correct the path"
        raise ConfigError(f"{name}: {problem}", data={"cassette": name}) from None
    return parse_cassette(name, data)


def cassette_name(path: Any, field: str = "cassette") -> str:
    """Return the path of a cassette as text.

    Raises:
        ConfigError: it is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ConfigError(f"{field}={path!r}: expected the path of a file", data={"field": field})
    return os.fsdecode(path)


def parse_cassette(path: str, data: bytes) -> Cassette:
    """Check and index the bytes of a cassette; the path is for messages."""
    return _Reader(path, data).read()


def refuse(path: str, line: int | None, field: str | None, problem: str) -> NoReturn:
    """Raise the ConfigError that names a place in a cassette."""
    where = ": ".join([path, *([f"line {line}"] if line else []), *([field] if field else [])])
    raise ConfigError(f"{where}: {problem}", data={"cassette": path, "line": line, "field": field})


class _Reader:
    """One pass over the bytes of a cassette."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.ascii = data.isascii()

    def read(self) -> Cassette:
        lines = self.content_lines()
        first = next(lines, None)
        if first is None:
            problem = (
                "the file is empty, and a cassette starts with its header line; delete it and record again"
            )
            refuse(self.path, None, None, problem)
        cassette = Cassette(self.path, self.data, self.header(*first))
        reader = LineReader()
        view = memoryview(self.data)
        for number, start, end in lines:
            try:
                facts = reader.read(view[start:end])
            except WrongField as wrong:
                refuse(self.path, number, wrong.field, f"{wrong.problem}; {_CORRECT}")
            except (ValueError, RecursionError) as error:
                self.refuse_text(number, start, end, error)
            _add(cassette, facts, number, start, end)
        cassette.declarations = reader.declarations
        return cassette

    def content_lines(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of every line that is not blank."""
        data, position, number, size = self.data, 0, 0, len(self.data)
        while position < size:
            end = data.find(b"\n", position)
            if end < 0:
                end = size
            number += 1
            if (self.ascii and data[position] == _OPEN_BRACE) or self.has_content(number, position, end):
                yield number, position, end
            position = end + 1

    def has_content(self, number: int, start: int, end: int) -> bool:
        try:
            return bool(self.data[start:end].decode("utf-8").strip(_BLANK))
        except UnicodeDecodeError as error:
            if number > 1 and error.end == end - start and end == len(self.data):
                refuse(self.path, number, None, _TORN)  # it ends within a character
            problem = tell_foreign_text(self.data[start:end], error, _RECORD_AGAIN)
            refuse(self.path, number, None, problem)

    def header(self, number: int, start: int, end: int) -> CassetteHeader:
        try:
            wire = decode_json(self.data[start:end])
            check_header(wire)
        except WrongField as wrong:
            said = wrong.problem
            refuse(self.path, number, wrong.field, said if ";" in said else f"{said}; {_CORRECT}")
        except (ValueError, RecursionError) as error:
            otherwise = "this file is not a cassette, or its header was cut off: record to a new file"
            problem = tell_foreign_text(self.data[start:end], error, otherwise)
            refuse(self.path, number, None, problem)
        return CassetteHeader(
            hash_version=int(wire["hashVersion"]), recorded_at=wire["recordedAt"], wire=wire
        )

    def refuse_text(self, number: int, start: int, end: int, error: Exception) -> NoReturn:
        if end == len(self.data):
            refuse(self.path, number, None, _TORN)
        problem = tell_foreign_text(self.data[start:end], error, f"delete the line, or {_RECORD_AGAIN}")
        refuse(self.path, number, None, problem)


def _add(cassette: Cassette, facts: RowFacts, line: int, start: int, end: int) -> None:
    declaration, adapter_id, request_hash, occurrence, ends_well = facts
    index = len(cassette.starts)
    cassette.starts.append(start)
    cassette.ends.append(end)
    cassette.lines.append(line)
    cassette.declared.append(declaration)
    cassette.occurrences.append(occurrence)
    if not ends_well:
        cassette.unterminated.append(index)
    group = cassette.groups.setdefault(adapter_id, {})
    there = group.setdefault(request_hash, index)
    if there is not index:
        if isinstance(there, int):
            group[request_hash] = [there, index]
        else:
            there.append(index)
