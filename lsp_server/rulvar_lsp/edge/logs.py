"""Log records for the client's log window and for standard error; neither can hold the server up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from rulvar_lsp.edge.protocol import RulvarProtocol

_TYPES = (
    (logging.ERROR, lsp.MessageType.Error),
    (logging.WARNING, lsp.MessageType.Warning),
    (logging.INFO, lsp.MessageType.Info),
)

_MOST_WAITING = 1000
_FLUSH_SECONDS = 0.3


class BackgroundLog(logging.Handler):
    """Writes records to a stream from a thread of its own.

    A client that does not read the server's standard error fills the pipe; then records are dropped, and counted.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, name="rulvar-lsp log", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written."""
        if self._writer.ident is None:
            self._writer.start()
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        """Wait a moment for what has not been written yet."""
        end = time.monotonic() + _FLUSH_SECONDS
        while self._waiting.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.005)

    def _write(self) -> None:
        while True:
            text = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text = f"{dropped} records were dropped: nobody read them\n{text}"
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text + "\n")
                self._stream.flush()
            self._waiting.task_done()


class ClientLog(logging.Handler):
    """Sends the server's records as `window/logMessage`; tracebacks stay on standard error."""

    def __init__(self, protocol: RulvarProtocol, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.INFO)
        self._protocol = protocol
        self._loop = loop
        self._logger = logging.getLogger("rulvar_lsp")

    def __enter__(self) -> ClientLog:
        self._logger.addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record from any thread."""
        kind = next((t for level, t in _TYPES if record.levelno >= level), lsp.MessageType.Log)
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        params = lsp.LogMessageParams(type=kind, message=text)
        try:
            self._loop.call_soon_threadsafe(self._protocol.notify, lsp.WINDOW_LOG_MESSAGE, params)
        except RuntimeError:  # the loop is closed: the server is leaving
            return
