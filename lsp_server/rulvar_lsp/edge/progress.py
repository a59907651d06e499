"""Work-done progress: begun only where the client can show it, always ended, cancellable."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from rulvar_lsp.edge.protocol import ResponseFault

if TYPE_CHECKING:
    from rulvar_lsp.edge.protocol import RulvarProtocol

Token = int | str


class ProgressBoard:
    """Progress bars that are open; a token is forgotten when its bar ends."""

    def __init__(self, protocol: RulvarProtocol) -> None:
        self._protocol = protocol
        self._cancels: dict[Token, Callable[[], None]] = {}
        self._ids = itertools.count(1)

    @property
    def open(self) -> int:
        """Number of open bars."""
        return len(self._cancels)

    async def begin(
        self, title: str, cancel: Callable[[], None], token: Token | None, can_create: bool
    ) -> Token | None:
        """Open a bar and return its token; None where the client shows none."""
        if token is None:
            if not can_create:
                return None
            token = f"rulvar-progress-{next(self._ids)}"
            try:
                params = lsp.WorkDoneProgressCreateParams(token=token)
                await self._protocol.ask(lsp.WINDOW_WORK_DONE_PROGRESS_CREATE, params, timeout=5.0)
            except (ResponseFault, TimeoutError):
                return None
        self._cancels[token] = cancel
        self._send(token, lsp.WorkDoneProgressBegin(title=title, cancellable=True))
        return token

    def report(self, token: Token | None, message: str) -> None:
        """Show a message."""
        if token in self._cancels:
            assert token is not None
            self._send(token, lsp.WorkDoneProgressReport(message=message))

    def end(self, token: Token | None, message: str) -> None:
        """Close the bar; closing it twice does nothing."""
        if token is not None and self._cancels.pop(token, None) is not None:
            self._send(token, lsp.WorkDoneProgressEnd(message=message))

    def cancel(self, token: Token) -> None:
        """The user pressed cancel."""
        with suppress(KeyError):
            self._cancels[token]()

    def _send(
        self,
        token: Token,
        value: lsp.WorkDoneProgressBegin | lsp.WorkDoneProgressReport | lsp.WorkDoneProgressEnd,
    ) -> None:
        # `value` is any JSON in the protocol: converted here, else it would go out untyped
        body = self._protocol.plain(value)
        self._protocol.notify(lsp.PROGRESS, lsp.ProgressParams(token=token, value=body))
