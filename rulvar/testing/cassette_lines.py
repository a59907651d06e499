"""Reads and writes one line of a cassette: at C speed where it is plain, exactly where it is not.

The fast decoder never takes a line that the exact check refuses. What it leaves (integers written as
``10.0``, lone surrogates, refusals, faults) goes through the exact check, which decides and explains.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from rulvar.contracts.canonical import MAX_SAFE_INTEGER, canonical_json, decode_json, encode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.testing.cassette_shape import caps_from_wire, check_caps, check_row, is_terminal

__all__ = ["Declaration", "LineReader", "RowFacts", "encode_line"]

_Count = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
_Name = Annotated[str, Meta(min_length=1)]


class _TextDelta(Struct, tag_field="type", tag="text-delta", gc=False):
    text: str


class _ReasoningDelta(Struct, tag_field="type", tag="reasoning-delta", gc=False):
    text: str


class _CallStart(Struct, tag_field="type", tag="tool-call-start", gc=False):
    id: _Name
    name: _Name


class _CallDelta(Struct, tag_field="type", tag="tool-call-delta", rename="camel", gc=False):
    id: _Name
    args_text_delta: str


class _CallEnd(Struct, tag_field="type", tag="tool-call-end", gc=False):
    id: _Name
    args: Raw


class _PartialUsage(Struct, rename="camel", gc=False):
    input_tokens: _Count | UnsetType = UNSET
    output_tokens: _Count | UnsetType = UNSET
    cache_read_tokens: _Count | UnsetType = UNSET
    cache_write_tokens: _Count | UnsetType = UNSET
    reasoning_tokens: _Count | UnsetType = UNSET
    five_minutes: _Count | UnsetType = msgspec.field(default=UNSET, name="cacheWrite5mTokens")
    one_hour: _Count | UnsetType = msgspec.field(default=UNSET, name="cacheWrite1hTokens")


class _UsageUpdate(Struct, tag_field="type", tag="usage", gc=False):
    usage: _PartialUsage


class _Usage(Struct, rename="camel", gc=False):
    input_tokens: _Count
    output_tokens: _Count
    cache_read_tokens: _Count
    cache_write_tokens: _Count
    reasoning_tokens: _Count | UnsetType = UNSET
    five_minutes: _Count | UnsetType = msgspec.field(default=UNSET, name="cacheWrite5mTokens")
    one_hour: _Count | UnsetType = msgspec.field(default=UNSET, name="cacheWrite1hTokens")


class _FinishInfo(Struct, gc=False):
    reason: Literal["stop", "tool-calls", "max-tokens", "context-window-exceeded"]


class _Finish(Struct, tag_field="type", tag="finish", rename="camel", gc=False):
    finish: _FinishInfo
    usage: _Usage
    provider_metadata: dict[str, Raw] | UnsetType = UNSET


class _WireError(Struct, gc=False):
    code: _Name
    message: str
    retryable: bool


class _Error(Struct, tag_field="type", tag="error", gc=False):
    error: _WireError


_Event = _TextDelta | _ReasoningDelta | _CallStart | _CallDelta | _CallEnd | _UsageUpdate | _Finish | _Error


class _FastRow(Struct, rename="camel", gc=False):
    """A row as the fast decoder sees it; the request is only known to be well-formed JSON."""

    adapter_id: _Name
    request_hash: _Name
    model: _Name
    request: Raw
    events: list[_Event]
    caps: Raw
    provider: str | UnsetType = UNSET
    usage_semantics: _Name | UnsetType = UNSET
    occurrence: _Count | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an adapter declared of itself and of one model when a row was recorded.

    ``caps_json`` is the canonical JSON of the capabilities snapshot.
    """

    adapter_id: str
    provider: str | None
    usage_semantics: str | None
    model: str
    caps_json: bytes

    @property
    def caps(self) -> ModelCaps:
        """The capabilities snapshot."""
        return _caps_of(self.caps_json)


@lru_cache(maxsize=256)
def _caps_of(snapshot: bytes) -> ModelCaps:
    """Read a snapshot: an engine asks for it at every turn, and a suite's cassettes share a few."""
    return caps_from_wire(decode_json(snapshot))


class RowFacts(NamedTuple):
    """What the index keeps of a row.

    ``declaration`` is an index into the reader's declarations, ``occurrence`` is -1 when the row
    carries no number, and ``ends_well`` says that its last event is its only terminal one.
    """

    declaration: int
    adapter_id: str
    request_hash: str
    occurrence: int
    ends_well: bool


_decode_fast = msgspec.json.Decoder(_FastRow).decode
_OPEN_BRACE = ord("{")


class LineReader:
    """Reads the row lines of one cassette and collects the declarations it meets."""

    def __init__(self) -> None:
        self.declarations: list[Declaration] = []
        self._known: dict[tuple[str, str | None, str | None, str, bytes], int] = {}

    def read(self, line: memoryview) -> RowFacts:
        """Check a line in depth.

        Raises:
            WrongField: a field is wrong.
            ValueError: the line is not JSON.
        """
        try:
            row = _decode_fast(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._read_exactly(line)
        well = _ends_well(row)
        if well is None:
            return self._read_exactly(line)
        occurrence = row.occurrence
        return RowFacts(
            self._declaration(
                row.adapter_id,
                None if row.provider is UNSET else row.provider,
                None if row.usage_semantics is UNSET else row.usage_semantics,
                row.model,
                bytes(row.caps),
            ),
            row.adapter_id,
            row.request_hash,
            -1 if occurrence is UNSET else occurrence,
            well,
        )

    def _read_exactly(self, line: memoryview) -> RowFacts:
        row = decode_json(bytes(line))
        check_row(row)
        terminals = [is_terminal(event) for event in row["events"]]
        declaration = self._declaration(
            row["adapterId"],
            row.get("provider"),
            row.get("usageSemantics"),
            row["model"],
            canonical_json(row["caps"], lenient=True),
        )
        occurrence = int(row.get("occurrence", -1))
        well = sum(terminals) == 1 and terminals[-1]
        return RowFacts(declaration, row["adapterId"], row["requestHash"], occurrence, well)

    def _declaration(
        self, adapter_id: str, provider: str | None, semantics: str | None, model: str, caps: bytes
    ) -> int:
        key = (adapter_id, provider, semantics, model, caps)
        known = self._known.get(key)
        if known is None:
            snapshot = _caps_snapshot(caps)
            known = self._known[key] = len(self.declarations)
            self.declarations.append(Declaration(adapter_id, provider, semantics, model, snapshot))
        return known


def encode_line(row: dict[str, Any]) -> bytes:
    """Return a row as one line; a lone surrogate is escaped, other text stands as it is.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold; ``data["path"]`` names it.
    """
    line = encode_json(row)
    if b"\\ud" not in line:
        return line
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode("utf-8")


_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _ends_well(row: _FastRow) -> bool | None:
    """Whether the last event of a row is its only terminal; None when the exact check must decide."""
    if memoryview(row.request)[0] != _OPEN_BRACE or memoryview(row.caps)[0] != _OPEN_BRACE:
        return None
    terminals = 0
    last: type[Any] | None = None
    for event in row.events:
        last = type(event)
        if isinstance(event, _Finish):
            if not _adds_up(event.usage):
                return None
            terminals += 1
        elif last is _Error:
            terminals += 1
    return terminals == 1 and (last is _Finish or last is _Error)


@lru_cache(maxsize=256)
def _caps_snapshot(caps_json: bytes) -> bytes:
    caps = decode_json(caps_json)
    check_caps(caps)
    return canonical_json(caps, lenient=True)


def _adds_up(usage: _Usage) -> bool:
    if usage.cache_read_tokens + usage.cache_write_tokens > usage.input_tokens:
        return False
    five, hour = usage.five_minutes, usage.one_hour
    if five is UNSET and hour is UNSET:
        return True
    return (0 if five is UNSET else five) + (0 if hour is UNSET else hour) == usage.cache_write_tokens
