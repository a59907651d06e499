"""Plain data to protocol types and back; the only place that knows both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from rulvar_lsp.edge.client import Client
from rulvar_lsp.edge.sanitize import SOURCE
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.features.code_actions import Action
from rulvar_lsp.features.diagnostics import Finding, TextEdit
from rulvar_lsp.features.hover import HoverText
from rulvar_lsp.features.inlay_hints import Hint
from rulvar_lsp.features.lenses import Lens
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Span, Text

if TYPE_CHECKING:
    from rulvar_lsp.features.machines import Machine

_SEVERITY = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
    "hint": lsp.DiagnosticSeverity.Hint,
}
# Markdown that a plain-text client would show as noise
_MARKS = re.compile(r"\*\*|^```+\w*$|^---$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Converter:
    """Conversions for one client. `text_of` gives the text of another file, for its positions."""

    client: Client
    uri_of: Callable[[str], str] = path_to_uri
    text_of: Callable[[str], Text | None] = lambda path: None

    # -- positions ------------------------------------------------------------------------------
    def position(self, text: Text, line: int, column: int) -> lsp.Position:
        """A place in the text, clamped to it."""
        line = max(0, min(line, text.line_count - 1))
        return lsp.Position(line=line, character=text.character_at(line, column, self.client.encoding))

    def range(self, text: Text, span: Span) -> lsp.Range:
        """A span of the text."""
        return lsp.Range(
            start=self.position(text, span.line, span.column),
            end=self.position(text, span.end_line, span.end_column),
        )

    def place(self, text: Text, position: lsp.Position) -> tuple[int, int]:
        """A client's position as (line, column), clamped."""
        line = min(position.line, text.line_count - 1)
        return line, text.column_from(line, position.character, self.client.encoding)

    def span(self, text: Text, given: lsp.Range) -> Span:
        """A client's range as a span, the right way round."""
        a, b = self.place(text, given.start), self.place(text, given.end)
        return Span(*min(a, b), *max(a, b))

    def location(self, path: str, span: Span) -> lsp.Location:
        """A span of another file."""
        text = self.text_of(path)
        if text is None:  # unread: ASCII is the best guess
            start = lsp.Position(line=max(span.line, 0), character=max(span.column, 0))
            end = lsp.Position(line=max(span.end_line, 0), character=max(span.end_column, 0))
            return lsp.Location(uri=self.uri_of(path), range=lsp.Range(start=start, end=end))
        return lsp.Location(uri=self.uri_of(path), range=self.range(text, span))

    # -- features -------------------------------------------------------------------------------
    def diagnostics(self, document: Document, findings: Iterable[Finding]) -> list[lsp.Diagnostic]:
        """Findings of a document."""
        return [self.diagnostic(document, finding) for finding in findings]

    def diagnostic(self, document: Document, finding: Finding) -> lsp.Diagnostic:
        """One finding."""
        client = self.client
        described = client.has_code_description and finding.url
        tagged = client.has_tags and finding.unnecessary
        return lsp.Diagnostic(
            range=self.range(document.text, finding.span),
            message=finding.message,
            severity=_SEVERITY.get(finding.severity, lsp.DiagnosticSeverity.Warning),
            code=finding.code,
            code_description=lsp.CodeDescription(href=finding.url or "") if described else None,
            source=SOURCE,
            tags=[lsp.DiagnosticTag.Unnecessary] if tagged else None,
            related_information=self._related(document, finding) if client.has_related else None,
        )

    def _related(self, document: Document, finding: Finding) -> list[lsp.DiagnosticRelatedInformation] | None:
        return [
            lsp.DiagnosticRelatedInformation(
                location=lsp.Location(uri=document.uri, range=self.range(document.text, related.span))
                if related.path is None or related.path == document.path
                else self.location(related.path, related.span),
                message=related.message,
            )
            for related in finding.related
        ] or None

    def hint(self, document: Document, hint: Hint) -> lsp.InlayHint:
        """An inlay hint; its tooltip is resolved later."""
        return lsp.InlayHint(
            position=self.position(document.text, hint.line, hint.column),
            label=hint.label,
            padding_left=True,
            data={
                "uri": document.uri,
                "version": document.version,
                "line": hint.line,
                "column": hint.column,
            },
        )

    def lens(self, document: Document, lens: Lens) -> lsp.CodeLens:
        """A code lens with its command."""
        return lsp.CodeLens(
            range=self.range(document.text, lens.span),
            command=lsp.Command(title=lens.title, command=lens.command, arguments=[lens.argument]),
        )

    def machine(self, document: Document, machine: Machine) -> lsp.DocumentSymbol:
        """A state machine with its transitions."""
        text = document.text
        return lsp.DocumentSymbol(
            name=machine.name,
            detail="state machine",
            kind=lsp.SymbolKind.Class,
            range=self.range(text, machine.span),
            selection_range=self.range(text, machine.name_span),
            children=[
                lsp.DocumentSymbol(
                    name=one.method,
                    detail=one.arrow,
                    kind=lsp.SymbolKind.Event,
                    range=self.range(text, one.span),
                    selection_range=self.range(text, one.name_span),
                )
                for one in machine.transitions
            ],
        )

    def hover(self, document: Document, hover: HoverText) -> lsp.Hover:
        """A hover in the format that the client reads."""
        return lsp.Hover(contents=self.markup(hover.markdown), range=self.range(document.text, hover.span))

    def markup(self, markdown: str) -> lsp.MarkupContent:
        """Markdown, or the plain text of it."""
        if self.client.has_markdown:
            return lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=markdown)
        return lsp.MarkupContent(kind=lsp.MarkupKind.PlainText, value=self.plain(markdown))

    def plain(self, markdown: str) -> str:
        """Markdown as plain text, for messages and for clients that show no Markdown."""
        return _LINK.sub(r"\1", _MARKS.sub("", markdown))

    def action(self, document: Document, action: Action) -> lsp.CodeAction | lsp.Command:
        """A code action; a bare command for clients that know nothing else."""
        command = None
        if action.command is not None:
            command = lsp.Command(
                title=action.title, command=action.command, arguments=[dict(action.argument)]
            )
            if not self.client.has_action_literals:
                return command
        return lsp.CodeAction(
            title=action.title,
            kind=action.kind,
            diagnostics=self.diagnostics(document, action.findings) or None,
            is_preferred=True if action.preferred and self.client.has_preferred else None,
            edit=self.workspace_edit(document, action.edits) if action.edits else None,
            command=command,
        )

    def workspace_edit(self, document: Document, edits: Iterable[TextEdit]) -> lsp.WorkspaceEdit:
        """Edits, tied to the document's version where the client can check it."""
        by_uri: dict[str, list[lsp.TextEdit]] = {}
        for edit in edits:
            own = edit.path is None or edit.path == document.path
            uri = document.uri if own else self.uri_of(edit.path or "")
            text = document.text if own else self.text_of(edit.path or "")
            if text is None:
                continue
            change = lsp.TextEdit(range=self.range(text, edit.span), new_text=edit.text)
            by_uri.setdefault(uri, []).append(change)
        if not self.client.has_document_changes:
            return lsp.WorkspaceEdit(changes=dict(by_uri))
        return lsp.WorkspaceEdit(
            document_changes=[
                lsp.TextDocumentEdit(
                    text_document=lsp.OptionalVersionedTextDocumentIdentifier(
                        uri=uri, version=document.version if uri == document.uri else None
                    ),
                    edits=list(changes),
                )
                for uri, changes in by_uri.items()
            ]
        )
