"""Findings of files that are not open, where `rulvar.workspaceDiagnostics` is switched on.

Files are looked at one by one between the looks at open documents, which always come first. Findings are pushed, or
pulled by a client that can: its request is held until there is news. Opening a file takes these findings back, since
from then on the document has its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from rulvar_lsp.edge.uris import path_to_uri, uri_key

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench
    from rulvar_lsp.features.views import FileLook
    from rulvar_lsp.snapshot import Document

_DELAY_SECONDS = 1.0

Reports = list[lsp.WorkspaceFullDocumentDiagnosticReport | lsp.WorkspaceUnchangedDocumentDiagnosticReport]


@dataclass(frozen=True, slots=True)
class _Told:
    """What was found in a closed file, and a digest of it; the digest of nothing is empty."""

    items: tuple[lsp.Diagnostic, ...] = ()
    digest: str = ""

    @classmethod
    def of(cls, found: list[lsp.Diagnostic]) -> _Told:
        digest = hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return cls(tuple(found), digest) if found else cls()


class WorkspaceCheck:
    """Keeps the findings of closed files up to date."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._told: dict[str, _Told] = {}  # by path
        self._looks: dict[str, FileLook] = {}  # by path
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def soon(self) -> None:
        """Look at the workspace a moment after the last of these calls."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._bench.protocol.spawn(self._look(), "workspace diagnostics")

    def opened(self, document: Document) -> None:
        """A file was opened: its findings come with the document now."""
        self._looks.pop(document.path or "", None)
        if document.path is not None and (told := self._told.pop(document.path, None)) and told.digest:
            self._tell(document.uri, [])

    async def pull(self, params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
        """Answer `workspace/diagnostic` as soon as there is something that the client does not know."""
        known = {uri_key(one.uri): (one.uri, one.value) for one in params.previous_result_ids}
        while True:
            self._news.clear()
            items = self._reports(known)
            if any(isinstance(item, lsp.WorkspaceFullDocumentDiagnosticReport) for item in items):
                return lsp.WorkspaceDiagnosticReport(items=items)
            await self._news.wait()

    def _reports(self, known: dict[str, tuple[str, str]]) -> Reports:
        items: Reports = []
        left = dict(known)
        for path, told in self._told.items():
            uri = path_to_uri(path)
            spelled, before = left.pop(uri_key(uri), (uri, ""))
            if told.digest == before and before:
                items.append(lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri=spelled, result_id=before))
            elif told.digest != before:
                items.append(_full(spelled, told))
        opened = {uri_key(document.uri) for document in self._bench.session.documents}
        # a file that is gone, or clean: one that is open is pulled by itself, and its results are not ours
        items += [_full(uri, _Told()) for key, (uri, before) in left.items() if before and key not in opened]
        return items

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
        for path in [p for p in {*self._told, *self._looks} if p not in seen]:
            self._looks.pop(path, None)
            self._learn(path, _Told())
        self._news.set()

    async def _look_at(self, folder: str, path: str) -> None:
        before = self._looks.get(path)
        look = await self._bench.analyst.look_at_file(folder, path, before)
        if look is before or path in {d.path for d in self._bench.session.documents}:
            return
        if look is None or look.view is None:
            self._looks.pop(path, None)
            return
        self._looks[path] = replace(look, view=None)  # the text is not kept
        found = self._bench.convert.diagnostics(look.view.document, look.view.findings)
        self._learn(path, _Told.of(found))

    def _learn(self, path: str, told: _Told) -> None:
        before = self._told.pop(path, _Told())
        if told.digest:
            self._told[path] = told
        if told.digest != before.digest:
            self._tell(path_to_uri(path), list(told.items))

    def _tell(self, uri: str, found: list[lsp.Diagnostic]) -> None:
        if self._bench.session.client.pulls_diagnostics:
            self._news.set()
        else:
            self._bench.documents.send(uri, None, found)


def _full(uri: str, told: _Told) -> lsp.WorkspaceFullDocumentDiagnosticReport:
    return lsp.WorkspaceFullDocumentDiagnosticReport(
        uri=uri, items=list(told.items), result_id=told.digest or None, version=None
    )
