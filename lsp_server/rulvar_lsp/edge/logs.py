"""Log records for the client's log window and for standard error."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING

from rulvar_lsp.edge import messages as lsp
from rulvar_lsp.edge import methods

if TYPE_CHECKING:
    from rulvar_lsp.edge.protocol import RulvarProtocol

_TYPES = (
    (logging.ERROR, lsp.MessageType.Error),
    (logging.WARNING, lsp.MessageType.Warning),
    (logging.INFO, lsp.MessageType.Info),
)


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
        params = {"type": kind, "message": text}
        try:
            self._loop.call_soon_threadsafe(self._protocol.notify, methods.WINDOW_LOG_MESSAGE, params)
        except RuntimeError:  # the loop is closed: the server is leaving
            return
