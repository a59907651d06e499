"""Server-sent events, decoded as the bytes come: any split of the bytes gives the same events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MAX_EVENT_BYTES", "ServerEvent", "SseDecoder", "SseError"]

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""An event larger than this is no answer of a model; reading on would only fill the memory."""


class SseError(ValueError):
    """The bytes are no event stream: not UTF-8, or an event without end."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name ("" when it has none) and its data."""

    name: str
    data: str


class SseDecoder:
    """Takes bytes, gives events. Pure: it reads nothing and keeps only the event under way."""

    __slots__ = ("_data", "_line", "_name", "_size", "_start", "_swallow")

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._size = 0
        self._swallow = False  # a CR ended the last line: an LF right after it belongs to it
        self._start = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that a chunk completes.

        Raises:
            SseError: the bytes are no event stream.
        """
        if self._swallow and chunk:
            self._swallow = False
            chunk = chunk.removeprefix(b"\n")
        at = 0
        while True:
            end = _line_end(chunk, at)
            if end < 0:
                self._keep(chunk[at:])
                return
            self._keep(chunk[at:end])
            at = end + 1
            if chunk[end] == 13:
                if at == len(chunk):
                    self._swallow = True
                elif chunk[at] == 10:
                    at += 1
            line, self._line = bytes(self._line), bytearray()
            event = self._take(line)
            if event is not None:
                yield event

    def _keep(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) + self._size > MAX_EVENT_BYTES:
            raise SseError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _take(self, raw: bytes) -> ServerEvent | None:
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise SseError("the event stream is not UTF-8") from None
        if self._start:
            self._start = False
            line = line.removeprefix("\ufeff")
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        return ServerEvent(name, "\n".join(data)) if data else None


def _line_end(chunk: bytes, at: int) -> int:
    """Return where the line ends: at the first CR or LF, -1 when it goes on."""
    feed = chunk.find(b"\n", at)
    if feed < 0:
        return chunk.find(b"\r", at)
    carriage = chunk.find(b"\r", at, feed)
    return feed if carriage < 0 else carriage
