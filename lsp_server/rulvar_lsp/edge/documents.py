"""Document synchronisation: open, change, save, close, and the diagnostics that follow."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from rulvar_lsp.edge.analysis import Superseded
from rulvar_lsp.edge.protocol import CONTENT_MODIFIED, SERVER_CANCELLED, ResponseFault
from rulvar_lsp.edge.session import Change
from rulvar_lsp.edge.uris import ANALYSED_SCHEMES, uri_key, uri_scheme
from rulvar_lsp.features.cassette import is_cassette
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Span

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench
    from rulvar_lsp.features.views import View

logger = logging.getLogger(__name__)

_SLOW_SECONDS = 0.1
_MOST_DEBOUNCE_SECONDS = 0.4
_OTHERS_DELAY_SECONDS = 0.4


class DocumentSync:
    """Keeps the session's documents what the client has, and publishes what is found in them."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._last_seconds: dict[str, float] = {}
        self._others: asyncio.Task[None] | None = None

    def held(self) -> dict[str, int]:
        """How much is remembered."""
        return {"publishing": len(self._publishing), "seconds": len(self._last_seconds)}

    # -- notifications --------------------------------------------------------------------------
    def did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Open a document."""
        item = params.text_document
        document = self._bench.session.open(item.uri, str(item.language_id), item.version, item.text)
        self._bench.analyst.edited(document)
        self._bench.workspace_check.opened(document)
        self.publish(document)

    def did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Apply changes."""
        changes = [_change(change) for change in params.content_changes]
        identifier = params.text_document
        document = self._bench.session.change(identifier.uri, identifier.version, changes)
        if document is None:
            logger.warning("ignored a change of a document that is not open: %s", identifier.uri)
            return
        self._bench.analyst.edited(document)
        self._bench.workspace_check.soon()
        self.publish(document)

    def did_save(self, params: lsp.DidSaveTextDocumentParams) -> None:
        """Run the tests of a saved test file where that is switched on."""
        document = self._bench.session.document(params.text_document.uri)
        if document is not None:
            self._bench.saved(document)

    def did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Close a document and take its diagnostics back."""
        document = self._bench.session.close(params.text_document.uri)
        if document is None:
            return
        key = uri_key(document.uri)
        if (task := self._publishing.pop(key, None)) is not None:
            task.cancel()
        self._last_seconds.pop(key, None)
        self._bench.analyst.closed(document)
        self._bench.answers.closed(document)
        self._bench.workspace_check.soon()
        if not self._bench.session.client.pulls_diagnostics:
            self.send(document.uri, None, [])
            self._publish_others(None, _OTHERS_DELAY_SECONDS)

    # -- push -----------------------------------------------------------------------------------
    def publish(self, document: Document) -> None:
        """Push the document's diagnostics soon, then those of the others; a newer text replaces this one."""
        if self._bench.session.client.pulls_diagnostics or not is_analysed(document):
            return
        key = uri_key(document.uri)
        in_burst = False
        if (task := self._publishing.get(key)) is not None:
            in_burst = not task.done()
            task.cancel()
        work = self._publish(document, in_burst)
        self._publishing[key] = self._bench.protocol.spawn(work, "diagnostics")

    async def _publish(self, document: Document, in_burst: bool) -> None:
        last = self._last_seconds.get(uri_key(document.uri), 0.0)
        if in_burst and last > _SLOW_SECONDS:  # a big file: let the typing pass
            await asyncio.sleep(min(last, _MOST_DEBOUNCE_SECONDS))
        await self._push(document)
        self._publish_others(document, _OTHERS_DELAY_SECONDS)

    async def _push(self, document: Document) -> None:
        await self._bench.know_reports(document)
        try:
            view = await self._bench.analyst.view(document, fresh=True)
        except Superseded:
            return
        self._last_seconds[uri_key(document.uri)] = view.analysis.seconds
        self._bench.show_configuration_faults()
        if self._bench.session.document(document.uri) is document:
            self.send(document.uri, document.version, self.shown(view))

    def _publish_others(self, edited: Document | None, delay: float) -> None:
        """What was found in other open files may have changed with this one."""
        if self._others is not None:
            self._others.cancel()
        self._others = self._bench.protocol.spawn(self._push_others(edited, delay), "diagnostics")

    async def _push_others(self, edited: Document | None, delay: float) -> None:
        """One after the other: the look at what is typed meanwhile waits for one of them at most."""
        await asyncio.sleep(delay)
        for uri in [document.uri for document in self._bench.session.documents]:
            document = self._bench.session.document(uri)
            if document is not None and is_analysed(document) and (edited is None or uri != edited.uri):
                await self._push(document)

    def shown(self, view: View) -> list[lsp.Diagnostic]:
        """The diagnostics of a view that the settings let through."""
        document = view.document
        if not self._bench.session.settings_for(document.path).diagnostics:
            return []
        return self._bench.convert.diagnostics(document, view.findings)

    def send(self, uri: str, version: int | None, found: list[lsp.Diagnostic]) -> None:
        """Push diagnostics."""
        self._bench.protocol.notify(
            lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
            lsp.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=found),
        )

    # -- pull -----------------------------------------------------------------------------------
    async def pull(self, params: lsp.DocumentDiagnosticParams) -> lsp.DocumentDiagnosticReport:
        """Answer with the document's diagnostics, or that they are what they were."""
        document = self._bench.session.document(params.text_document.uri)
        if document is None or not is_analysed(document):
            return lsp.RelatedFullDocumentDiagnosticReport(items=[])
        await self._bench.know_reports(document)
        try:
            view = await self._bench.analyst.view(document, fresh=True)
        except Superseded:
            raise _again() from None
        self._bench.show_configuration_faults()
        if self._bench.session.document(document.uri) is not document:
            raise _again()
        items = self.shown(view)
        known = hashlib.sha256(repr(items).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if params.previous_result_id == known:
            return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id=known)
        return lsp.RelatedFullDocumentDiagnosticReport(items=items, result_id=known)

    def refresh_all(self) -> None:
        """Results changed without an edit: push, or ask the client to pull, again."""
        self._bench.workspace_check.soon()
        if self._bench.session.client.pulls_diagnostics:
            self._bench.refresh(lsp.WORKSPACE_DIAGNOSTIC_REFRESH)
        else:
            self._publish_others(None, 0.0)


def is_analysed(document: Document) -> bool:
    """Say whether the server has something to say about this document at all."""
    if uri_scheme(document.uri) not in ANALYSED_SCHEMES:
        return False
    return document.language == "python" or is_cassette_file(document)


def is_cassette_file(document: Document) -> bool:
    """Say whether the document is a cassette."""
    path = document.path
    return path is not None and path.endswith(".jsonl") and is_cassette(document.text)


def current(bench: Workbench, uri: str) -> Document | None:
    """The open document that features look at, None for one that has no features."""
    document = bench.session.document(uri)
    return document if document is not None and is_analysed(document) else None


async def view_of(bench: Workbench, document: Document) -> View:
    """Look at the document; an answer for a text that is gone is refused."""
    await bench.know_reports(document)
    try:
        view = await bench.analyst.view(document)
    except Superseded:
        raise modified() from None
    if bench.session.document(document.uri) is not document:
        raise modified()
    return view


def modified() -> ResponseFault:
    """The document changed while the answer was made."""
    return ResponseFault(CONTENT_MODIFIED, "the document changed")


def _again() -> ResponseFault:
    return ResponseFault(SERVER_CANCELLED, "the document changed", {"retriggerRequest": True})


def _change(change: lsp.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, lsp.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Change(change.text, Span(start.line, start.character, end.line, end.character))
    return Change(change.text)
