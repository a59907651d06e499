"""Records exchanges with models into a cassette.

``record`` wraps live adapters; the wrappers are drop-in. Every stream that completes with exactly
one terminal event becomes one redacted row. A stream that is aborted, truncated, raises, or says
anything after its terminal event leaves no row, only a gap in the numbering.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter, Served
from rulvar.contracts.redaction import MASK, Masked, Redactor
from rulvar.contracts.request_hash import plain_request, request_hash
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError, NonSerializableValueError
from rulvar.kernel.keys import CURRENT_HASH_VERSION
from rulvar.testing.cassette import cassette_name, parse_cassette
from rulvar.testing.cassette_file import CassetteFile, WrittenLine
from rulvar.testing.cassette_lines import encode_line
from rulvar.testing.cassette_rules import LAST_OCCURRENCE, check_appendable, refuse_ceiling
from rulvar.testing.cassette_shape import (
    FORMAT_VERSION,
    KIND,
    WrongField,
    check_row,
    is_terminal,
    with_integers,
)
from rulvar.testing.wrapped import check_adapters, start_stream

__all__ = ["LeftOut", "MaskedRow", "RecordedAdapters", "RecordingAdapter", "record"]


@dataclass(frozen=True, slots=True)
class MaskedRow:
    """What was masked in a recorded row: its line in the cassette, and the places."""

    line: int
    places: tuple[Masked, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An exchange that left no row, and why."""

    adapter_id: str
    request_hash: str
    occurrence: int
    reason: str


SHORTEST_CREDENTIAL = 12
"""A shorter text may be an ordinary word, and masking it would change what a replay serves."""


def record(
    *,
    adapters: Iterable[Adapter],
    cassette: str | os.PathLike[str],
    redact: Callable[[str], str] | None = None,
    fresh: bool = False,
) -> RecordedAdapters:
    """Wrap live adapters so that every completed exchange is appended to a cassette.

    An existing cassette is continued: it is checked first, and numbering goes on where it ends.

    Args:
        adapters: the adapters to wrap; each keeps its id, declarations and capabilities.
        cassette: the file; it is created, with its folder, when it is missing.
        redact: masks what the built-in policy does not know; takes and returns a text.
        fresh: begin anew: what is in the file is thrown away, unless another recorder is active on it.

    Returns:
        The wrapped adapters, as a list. The session holds a lock on the file until the list and its
        adapters are closed or dropped.

    Raises:
        ConfigError: another recorder is active on the file, it is no cassette, was recorded under
            another hash version, or is numbered ambiguously.
    """
    live = [(adapter, _redactor(adapter, redact)) for adapter in _checked_adapters(adapters)]
    session = RecordingSession(cassette_name(cassette), fresh=fresh)
    return RecordedAdapters(session, [RecordingAdapter(session, *wrapped) for wrapped in live])


def _redactor(adapter: Adapter, redact: Callable[[str], str] | None) -> Redactor:
    """Return what masks an adapter's rows: its own credentials too, wherever they are repeated."""
    checked = Redactor(redact)
    credentials = getattr(adapter, "credentials", None)
    if not callable(credentials):
        return checked

    def mask(text: str) -> str:
        for secret in credentials():
            if len(secret) >= SHORTEST_CREDENTIAL:
                text = text.replace(secret, MASK)
        return text if redact is None else redact(text)

    return Redactor(mask)


class RecordedAdapters(list["RecordingAdapter"]):
    """The wrapped adapters of one recording session; a context manager that ends the session."""

    def __init__(self, session: RecordingSession, adapters: Iterable[RecordingAdapter]) -> None:
        super().__init__(adapters)
        self._session = session

    @property
    def masked(self) -> tuple[MaskedRow, ...]:
        """What was masked so far, per row."""
        return tuple(self._session.masked)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The exchanges that left no row so far."""
        return tuple(self._session.left_out)

    def with_more(
        self, adapters: Iterable[Adapter], redact: Callable[[str], str] | None = None
    ) -> RecordedAdapters:
        """Wrap further live adapters, whose exchanges the same session records."""
        live = [(adapter, _redactor(adapter, redact)) for adapter in _checked_adapters(adapters)]
        wrapped = [RecordingAdapter(self._session, *parts) for parts in live]
        return RecordedAdapters(self._session, wrapped)

    def close(self) -> None:
        """End the session and give up the lock; recording further is refused."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class RecordingSession:
    """One writer of one cassette: it numbers calls and commits rows. Safe across threads."""

    def __init__(self, path: str, *, fresh: bool = False) -> None:
        self.path = path
        self.place = os.path.abspath(path)
        self.masked: list[MaskedRow] = []
        self.left_out: list[LeftOut] = []
        self._lock = threading.Lock()
        self._next: dict[tuple[str, str], int] = {}
        self._file = CassetteFile(path, _header(), fresh=fresh)
        try:
            self._continue_numbering()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Give up the file."""
        self._file.close()

    def claim(self, adapter_id: str, digest: str) -> int:
        """Take the next number of a request.

        Raises:
            ConfigError: the session is closed, or the request has no number left.
        """
        if self._file.closed:
            raise ConfigError(f"{self.path}: the recording session is closed", data={"cassette": self.path})
        key = (adapter_id, digest)
        with self._lock:
            number = self._next.get(key, 0)
            if number > LAST_OCCURRENCE:
                raise refuse_ceiling(self.path, adapter_id)
            self._next[key] = number + 1
        return number

    def commit(self, row: dict[str, Any], redactor: Redactor) -> WrittenLine | None:
        """Redact, check and append a row; a row that readers would refuse is left out."""
        request = redactor.redact(row["request"], "request")
        events = redactor.redact_events(row["events"])
        row = {**row, "request": request.value, "events": events.value}
        try:
            check_row(row)
            line = _encode(row)
        except (WrongField, NonSerializableValueError) as wrong:
            reason = str(wrong).removeprefix("$.")
            self.leave_out(row["adapterId"], row["requestHash"], row["occurrence"], reason)
            return None
        with self._lock:
            written = self._file.append(line)
            places = request.masked + events.masked
            if places:
                self.masked.append(MaskedRow(written.number, places))
        return written

    def retract(self, written: WrittenLine) -> None:
        """Take a committed row back."""
        with self._lock:
            self._file.retract(written)
            self.masked = [row for row in self.masked if row.line != written.number]

    def leave_out(self, adapter_id: str, digest: str, occurrence: int, reason: str) -> None:
        """Note an exchange that leaves no row."""
        self.left_out.append(LeftOut(adapter_id, digest, occurrence, reason))

    def _continue_numbering(self) -> None:
        found = parse_cassette(self.path, self._file.found)
        check_appendable(found)
        for adapter_id, group in found.groups.items():
            for digest, rows in group.items():
                numbers = [found.occurrences[row] for row in ([rows] if isinstance(rows, int) else rows)]
                self._next[adapter_id, digest] = max(numbers) + 1


class RecordingAdapter:
    """Wraps a live adapter; everything but ``stream`` is the wrapped adapter's own."""

    def __init__(self, session: RecordingSession, adapter: Adapter, redactor: Redactor) -> None:
        self._session = session
        self._adapter = adapter
        self._redactor = redactor

    @property
    def id(self) -> str:
        """The wrapped adapter's id."""
        return self._adapter.id

    def caps(self, model: str) -> ModelCaps:
        """Return what the wrapped adapter says of a model."""
        return self._adapter.caps(model)

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange. Its number is claimed here, in the order of the calls.

        Raises:
            ConfigError: the session is closed, or the request has no number left.
        """
        wire = plain_request(request)
        digest = request_hash(request)
        occurrence = self._session.claim(self.id, digest)
        row: dict[str, Any] = {"adapterId": self.id}
        for field, attribute in (("provider", "provider"), ("usageSemantics", "usage_semantics")):
            declared = getattr(self._adapter, attribute, None)
            if declared is not None:
                row[field] = declared
        row.update(occurrence=occurrence, requestHash=digest, request=wire, events=[])
        model = str(wire.get("model", ""))
        row.update(caps=with_integers(self._adapter.caps(model).to_wire()), model=model)
        inner = start_stream(self._adapter, request, signal)
        return RecordingStream(self._session, self._redactor, row, inner)

    def close(self) -> None:
        """End the session of this adapter and of those it was wrapped with."""
        self._session.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._adapter, name)


class RecordingStream:
    """Passes the events of one exchange on, and commits its row at the terminal event.

    The row is committed before the consumer sees the terminal event, since a consumer may stop there.
    It is taken back when the stream turns out to say more.
    """

    def __init__(
        self,
        session: RecordingSession,
        redactor: Redactor,
        row: dict[str, Any],
        inner: AsyncIterator[ChatEvent],
    ) -> None:
        self._session = session
        self._redactor = redactor
        self._row = row
        self._inner = inner
        self._over = False
        self._written: WrittenLine | None = None

    @property
    def served(self) -> Served:
        """Live; with cassette and line once the row is committed."""
        return Served(
            how="live",
            request_hash=self._row["requestHash"],
            occurrence=self._row["occurrence"],
            cassette=self._session.place if self._written else None,
            row=self._written.number if self._written else None,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        try:
            event = await anext(self._inner)
        except StopAsyncIteration:
            if not self._over:
                self._leave_out("the stream ended without a terminal event")
            raise
        except BaseException as error:
            self._leave_out(f"the stream raised {type(error).__name__}")
            raise
        self._see(event)
        return event

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()

    def _see(self, event: ChatEvent) -> None:
        if self._over:
            self._leave_out("the stream went on after its terminal event")
            return
        events = self._row["events"]
        try:
            wire = dict(event) if isinstance(event, Mapping) else event.to_wire()
        except (AttributeError, TypeError, ValueError) as error:
            self._leave_out(f"events[{len(events)}]: {type(event).__name__} has no JSON form: {error}")
            return
        events.append(wire)
        if is_terminal(wire):
            self._over = True
            self._written = self._session.commit(self._row, self._redactor)

    def _leave_out(self, reason: str) -> None:
        if self._over and self._written is None:
            return
        if self._written is not None:
            self._session.retract(self._written)
            self._written = None
        self._over = True
        row = self._row
        self._session.leave_out(row["adapterId"], row["requestHash"], row["occurrence"], reason)


def _header() -> bytes:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return encode_json(
        {"v": FORMAT_VERSION, "kind": KIND, "hashVersion": CURRENT_HASH_VERSION, "recordedAt": now}
    )


def _encode(row: dict[str, Any]) -> bytes:
    try:
        return encode_line(row)
    except NonSerializableValueError:
        return encode_line(_indexed_bytes(row))


def _checked_adapters(adapters: Iterable[Adapter]) -> list[Adapter]:
    live = list(check_adapters(adapters, "record"))
    if not live:
        raise ConfigError("record: adapters is empty, so nothing would be recorded")
    ids = [adapter.id for adapter in live]
    for adapter_id in ids:
        if ids.count(adapter_id) > 1:
            raise ConfigError(f'record: two adapters have the id "{adapter_id}"')
    return live


def _indexed_bytes(value: Any) -> Any:
    """Return a JSON value with its bytes as objects of index to byte, which is how they are hashed."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {str(index): byte for index, byte in enumerate(bytes(value))}
    if isinstance(value, dict):
        return {key: _indexed_bytes(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_indexed_bytes(item) for item in value]
    return value
