"""The server's life: the first answer, the loop that never stops for a document, the end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from rulvar_lsp.edge.capabilities import NAME, server_capabilities
from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.collection import hold_back
from rulvar_lsp.edge.logs import ClientLog
from rulvar_lsp.edge.protocol import RulvarProtocol
from rulvar_lsp.edge.session import Session
from rulvar_lsp.edge.settings import Settings, read_settings
from rulvar_lsp.edge.transport import Inbox
from rulvar_lsp.edge.uris import path_to_uri, uri_to_path

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench

logger = logging.getLogger(__name__)

_ENDING = [int(getattr(signal, name)) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
# what the first look at a file needs, and what is received and sent for it
_FIRST_LOOK = ("rulvar_lsp.edge.workbench", "rulvar_lsp.report", "rulvar_lint.project")
_FIRST_RECEIVED = (
    lsp.INITIALIZED,
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DIAGNOSTIC,
    lsp.TEXT_DOCUMENT_DID_CHANGE,
)
_FIRST_SENT = (
    lsp.ConfigurationParams,
    lsp.Diagnostic,
    lsp.PublishDiagnosticsParams,
    lsp.RelatedFullDocumentDiagnosticReport,
)


class RulvarServer(LanguageServer):
    """One client, one session."""

    protocol: RulvarProtocol

    def __init__(self, version: str) -> None:
        super().__init__(NAME, version, protocol_cls=RulvarProtocol, converter_factory=default_converter)
        self.session = Session()
        self.workbench: Workbench | None = None
        self.exit_code: int | None = None
        self._stopped: asyncio.Event | None = None
        self.protocol.on_exit = self._leave
        self.protocol.handlers = {
            lsp.INITIALIZE: self._initialize,
            lsp.SHUTDOWN: self._shutdown,
            lsp.SET_TRACE: lambda params: None,
        }

    def _initialize(self, raw: Any) -> lsp.InitializeResult:
        params = raw if isinstance(raw, dict) else {}
        given = params.get("initializationOptions")
        options = given if isinstance(given, dict) else {}
        session = self.session
        session.client = Client.of(params, options)
        session.trusted = options.get("trusted") is True
        session.settings, faults = read_settings(options.get("settings"), Settings())
        for uri in _folder_uris(params):
            session.add_folder(uri)
        self.protocol.state = "initialized"
        self.protocol.after_first_answer(lambda: self._open(params.get("processId"), faults))
        return lsp.InitializeResult(
            capabilities=server_capabilities(session.client),
            server_info=lsp.ServerInfo(name=self.name, version=self.version),
        )

    def _open(self, process_id: Any, faults: tuple[str, ...]) -> None:
        from rulvar_lsp.edge.workbench import Workbench

        for fault in faults:
            logger.warning("settings: %s", fault)
        self.workbench = Workbench(self.version, self.session, self.protocol, self.session.settings)
        self.workbench.watcher.watch_parent(process_id)
        self.protocol.handlers |= self.workbench.handlers()

    def _shutdown(self, params: object) -> None:
        self.protocol.state = "shutdown"
        if self.workbench is not None:
            self.workbench.stop()
        self.protocol.cancel_all()

    def _leave(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
            if self.workbench is not None:
                self.workbench.stop()
            if self._stopped is not None:
                self._stopped.set()

    async def serve(self, stdin: BinaryIO, stdout: BinaryIO) -> int:
        """Talk to the client until it leaves; return the exit code."""
        loop = asyncio.get_running_loop()
        preload()
        self.protocol.prepare(_FIRST_RECEIVED, _FIRST_SENT)
        hold_back()
        self._stopped = asyncio.Event()
        loop.set_exception_handler(_log_loop_error)
        for number in _ENDING:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not on every platform
                loop.add_signal_handler(number, self._leave, 128 + number)
        with ClientLog(self.protocol, loop):
            inbox = Inbox(stdin, lambda: _wake(loop, self.protocol.drain))
            self.protocol.connect(inbox, stdout)
            inbox.start()
            await self._stopped.wait()
            self.protocol.cancel_all()
            await asyncio.sleep(0)
        return self.exit_code or 0


def _folder_uris(params: dict[str, Any]) -> list[str]:
    folders = params.get("workspaceFolders")
    if isinstance(folders, list) and folders:
        uris = [f.get("uri") for f in folders if isinstance(f, dict)]
        return [uri for uri in uris if isinstance(uri, str)]
    root = params.get("rootUri")
    if isinstance(root, str):
        return [root]
    path = params.get("rootPath")
    return [path_to_uri(path)] if isinstance(path, str) and uri_to_path(path_to_uri(path)) else []


def _wake(loop: asyncio.AbstractEventLoop, drain: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: the server is leaving
        loop.call_soon_threadsafe(drain)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    logger.error("%s", context.get("message"), exc_info=context.get("exception"))


def preload() -> None:
    """Import what the first look at a file needs: a file is opened as soon as the client has been answered."""
    for name in _FIRST_LOOK:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run(version: str, reader: BinaryIO, writer: BinaryIO) -> int:
    """Serve one client over its two streams; return the exit code."""

    async def serve() -> int:
        return await RulvarServer(version).serve(reader, writer)

    return asyncio.run(serve())


def leave_now(code: int) -> None:
    """End the process without waiting for worker threads."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(code)
