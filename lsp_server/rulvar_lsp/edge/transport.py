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
from typing import Any, BinaryIO

_LENGTH = re.compile(rb"content-length\s*:\s*(\d+)\s*", re.IGNORECASE)
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


def read_message(stream: BinaryIO) -> dict[str, Any] | Malformed | None:
    """Read one message; None at the end of the stream. Header names count in any case."""
    length = None
    while True:
        line = stream.readline()
        if not line:
            return None
        line = line.strip()
        if not line:
            if length is None:
                continue
            break
        if match := _LENGTH.fullmatch(line):
            length = int(match[1])
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        return Malformed(f"not JSON: {error}")
    if not isinstance(message, dict):
        return Malformed(f"expected an object, got {type(message).__name__}")
    return message


def frame(message: object) -> bytes:
    """Return the message with its header, ready to be written."""
    # no raw non-ASCII: lone surrogates, which a client may send, have no UTF-8 form
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class Inbox:
    """Messages read and not yet handled, filled by a reader thread."""

    def __init__(self, stream: BinaryIO, wake: Callable[[], None]) -> None:
        """Say whether a cancellation of this request waits further back in the queue."""
        self._stream = stream
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

    def has_newer(self, uri: str) -> bool:
        """Say whether a change of this document waits behind the message being handled."""
        return uri in self._changes

    def _read(self) -> None:
        while True:
            try:
                message = read_message(self._stream)
            except (OSError, ValueError):
                message = None
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
