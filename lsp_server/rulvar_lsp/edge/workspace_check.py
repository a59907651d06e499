"""Findings of files that are not open, where `rulvar.workspaceDiagnostics` is switched on.

Files are looked at one by one between the looks at open documents, which always come first. They are pushed
to every client; opening a file takes its pushed findings back, since from then on the document has its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from rulvar_lsp.edge.uris import path_to_uri

if TYPE_CHECKING:
    from lsprotocol import types as lsp

    from rulvar_lsp.edge.workbench import Workbench
    from rulvar_lsp.snapshot import Document

_DELAY_SECONDS = 1.0


class WorkspaceCheck:
    """Keeps the findings of closed files up to date."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._sent: dict[str, str] = {}  # path -> digest of what the client was told, "" for nothing
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Look at the workspace a moment after the last of these calls."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._bench.protocol.spawn(self._look(), "workspace diagnostics")

    def opened(self, document: Document) -> None:
        """A file was opened: its findings come with the document now."""
        if document.path is not None and self._sent.pop(document.path, ""):
            self._bench.documents.send(document.uri, None, [])

    async def _look(self) -> None:
        await asyncio.sleep(_DELAY_SECONDS)
        session = self._bench.session
        seen: set[str] = set()
        for folder in session.folders:
            settings = session.settings_for(folder)
            if settings.diagnostics and settings.workspace_diagnostics:
                for path in await self._bench.analyst.candidates(folder):
                    seen.add(path)
                    await self._look_at(folder, path)
        for path in [p for p, told in self._sent.items() if told and p not in seen]:
            self._tell(path, [], "")

    async def _look_at(self, folder: str, path: str) -> None:
        view = await self._bench.analyst.look_at_file(folder, path)
        if view is None or path in {d.path for d in self._bench.session.documents}:
            return
        found = self._bench.convert.diagnostics(view.document, view.findings)
        digest = hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest() if found else ""
        if digest != self._sent.get(path, ""):
            self._tell(path, found, digest)

    def _tell(self, path: str, found: list[lsp.Diagnostic], digest: str) -> None:
        self._sent[path] = digest
        self._bench.documents.send(path_to_uri(path), None, found)
