"""Bytes in, messages out: the standard streams of a language server.

The reader runs in a thread of its own and notes, the moment they arrive, which requests were
cancelled and which documents have changes waiting, so that the loop never works on what nobody
wants any more. Standard output belongs to the protocol: `claim_stdout` moves it aside, so that a
stray `print` ends up in the log.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

_LENGTH = re.compile(rb"content-length\s*:\s*(\d+)$", re.IGNORECASE)
_LONGEST_LINE = 64 * 1024
MOST_BYTES = 1024 * 1024 * 1024
CANCEL = "$/cancelRequest"
DID_CHANGE = "textDocument/didChange"


@dataclass(frozen=True, slots=True)
class Malformed:
    """A message body that is not a JSON object."""

    reason: str


def claim_stdout() -> BinaryIO:
    """Return a private stream to the client; file descriptor 1 and `sys.stdout` become standard
    error.
    """
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(private, "wb")


def accept_client(address: str) -> tuple[BinaryIO, BinaryIO]:
    """Wait for one client at `HOST:PORT` and return its streams; only this machine may connect.

    Port 0 takes a free one, which is said on standard error. Raises `ValueError` for an address that is none or
    that others could reach, `OSError` for one that is taken.
    """
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]") or not port.isdigit():
        raise ValueError(f"{address}: expected 127.0.0.1:PORT; other machines may not connect")
    family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
    with socket.create_server((host.strip("[]"), int(port)), family=family) as server:
        print(f"rulvar-lsp waits at {host}:{server.getsockname()[1]}", file=sys.stderr, flush=True)
        connection, _ = server.accept()
    return connection.makefile("rb"), connection.makefile("wb")


class MessageReader:
    """Messages of a stream, one after the other.

    A wrong length costs the message that it belongs to: what was read too far, or left over, is looked through for the
    next header. Header names count in any case.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._again = BytesIO()  # read already, to be read once more

    def next(self) -> dict[str, Any] | Malformed | None:
        """Return the next message, None at the end of the stream."""
        length = self._header()
        if length is None:
            return None
        if length > MOST_BYTES:
            return Malformed(f"a message of {length} bytes; at most {MOST_BYTES} are read")
        body = self._read(length)
        if len(body) < length:
            return None
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._again = BytesIO(body + self._again.read())
            return Malformed(f"not JSON: {error}")
        if not isinstance(message, dict):
            return Malformed(f"expected an object, got {type(message).__name__}")
        return message

    def _header(self) -> int | None:
        """The length that the next header gives, None at the end of the stream."""
        length = None
        while line := self._line():
            content = line.strip()
            if match := _LENGTH.search(content):
                length = int(match[1][:20])
            elif not content and length is not None:
                return length
        return None

    def _line(self) -> bytes:
        line = self._again.readline(_LONGEST_LINE)
        if line.endswith(b"\n") or len(line) == _LONGEST_LINE:
            return line
        return line + self._stream.readline(_LONGEST_LINE)

    def _read(self, length: int) -> bytes:
        body = self._again.read(length)
        return body + self._stream.read(length - len(body)) if len(body) < length else body


def frame(message: object) -> bytes:
    """Return the message with its header, ready to be written."""
    # no raw non-ASCII: lone surrogates, which a client may send, have no UTF-8 form
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class Inbox:
    """Messages read and not yet handled, filled by a reader thread."""

    def __init__(self, stream: BinaryIO, wake: Callable[[], None]) -> None:
        """`wake` is called from the reader's thread when a message has come."""
        self._reader = MessageReader(stream)
        self._wake = wake
        self._waiting: deque[dict[str, Any] | Malformed] = deque()
        self._cancelled: set[int | str] = set()
        self._changes: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.closed = False
        self._thread = threading.Thread(target=self._read, name="rulvar-lsp reader", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def take(self) -> dict[str, Any] | Malformed | None:
        """Return the oldest waiting message, or None."""
        with self._lock:
            if not self._waiting:
                return None
            message = self._waiting.popleft()
            if isinstance(message, dict) and message.get("method") == DID_CHANGE:
                uri = _uri_of(message)
                self._changes[uri] -= 1
                if self._changes[uri] <= 0:
                    del self._changes[uri]
        return message

    def is_cancelled(self, msg_id: int | str) -> bool:
        """Say whether a cancellation of this request has arrived already, though later in the
        queue.
        """
        return msg_id in self._cancelled

    def forget(self, msg_id: int | str) -> None:
        """Drop a cancellation that has been handled."""
        self._cancelled.discard(msg_id)

    @property
    def cancellations(self) -> int:
        """Number of cancellations that wait to be handled."""
        return len(self._cancelled)

    @property
    def changes(self) -> int:
        """Number of documents with changes that wait to be handled."""
        return len(self._changes)

    def has_newer(self, uri: str) -> bool:
        """Say whether a change of this document waits behind the message being handled."""
        return uri in self._changes

    def _read(self) -> None:
        while True:
            try:
                message = self._reader.next()
            except (OSError, ValueError):
                message = None
            except MemoryError:
                message = Malformed("not enough memory for a message")
            if message is None:
                break
            with self._lock:
                if isinstance(message, dict):
                    self._note(message)
                self._waiting.append(message)
            self._wake()
        self.closed = True
        self._wake()

    def _note(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method == CANCEL:
            params = message.get("params")
            msg_id = params.get("id") if isinstance(params, dict) else None
            if isinstance(msg_id, int | str):
                self._cancelled.add(msg_id)
        elif method == DID_CHANGE:
            self._changes[_uri_of(message)] += 1


def _uri_of(message: dict[str, Any]) -> str:
    params = message.get("params")
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else ""
