"""Requests about a document: each takes a snapshot, calls a feature and converts its plain data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.documents import current, is_cassette_file, modified, view_of
from rulvar_lsp.edge.uris import path_to_uri, uri_key
from rulvar_lsp.features import code_actions as actions
from rulvar_lsp.features.action_kinds import FIX_ALL
from rulvar_lsp.features.cassette import Link, cassette_links, row_markdown, served_rows
from rulvar_lsp.features.definition import rows_at
from rulvar_lsp.features.diagnostics import span_of
from rulvar_lsp.features.forecast import forecast_markdown
from rulvar_lsp.features.hover import RULE, HoverText, hover
from rulvar_lsp.features.inlay_hints import hints
from rulvar_lsp.features.lenses import Lens, lenses, tests_through, workflow_lenses
from rulvar_lsp.features.outline import Block, blocks, find_test_at, find_tests, is_test_file
from rulvar_lsp.features.recorded import sides, site_markdown
from rulvar_lsp.text import Span

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rulvar_lsp.edge.workbench import Workbench
    from rulvar_lsp.features.machines import Machine
    from rulvar_lsp.snapshot import Document
    from rulvar_lsp.text import Text


MOST_ROW_LENSES = 500
MOST_OUTLINES = 10


class Answers:
    """Handlers of the document requests. The snapshot is taken when the request arrives."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._outlines: dict[str, tuple[Document, tuple[Block, ...]]] = {}
        self._machine_texts: dict[str, tuple[Text, tuple[Machine, ...]]] = {}

    def held(self) -> dict[str, int]:
        """How much is remembered."""
        return {"outlines": len(self._outlines), "machines": len(self._machine_texts)}

    def closed(self, document: Document) -> None:
        """A document was closed: forget what stood in it."""
        self._outlines.pop(uri_key(document.uri), None)
        self._machine_texts.pop(uri_key(document.uri), None)

    def _outline(self, document: Document) -> tuple[Block, ...]:
        """The blocks of a document; of the last few documents they are remembered."""
        known = self._outlines.pop(uri_key(document.uri), None)
        if known is None or known[0] is not document:
            known = (document, blocks(document.text))
        self._outlines[uri_key(document.uri)] = known
        if len(self._outlines) > MOST_OUTLINES:
            del self._outlines[next(iter(self._outlines))]
        return known[1]

    def inlay_hint(self, params: lsp.InlayHintParams) -> Awaitable[list[lsp.InlayHint]] | None:
        """Hints of the requested lines."""
        document = current(self._bench, params.text_document.uri)
        if document is None or not self._bench.session.settings_for(document.path).inlay_hints:
            return None
        return self._hints(document, params.range.start.line, params.range.end.line)

    async def _hints(self, document: Document, first: int, last: int) -> list[lsp.InlayHint]:
        view = await view_of(self._bench, document)
        convert = self._bench.convert
        return [
            convert.hint(document, hint)
            for hint in hints(view.placed, await self._bench.analyst.forecasts(view), first, last)
        ]

    async def resolve_hint(self, hint: lsp.InlayHint) -> lsp.InlayHint:
        """Add the tooltip."""
        data = hint.data if isinstance(hint.data, dict) else {}
        document = current(self._bench, str(data.get("uri")))
        if document is None or document.version != data.get("version"):
            return hint
        view = await view_of(self._bench, document)
        place = (data.get("line"), data.get("column"))
        blocks = [site_markdown(p) for p in view.placed if (p.span.end_line, p.span.end_column) == place]
        forecasts = await self._bench.analyst.forecasts(view)
        blocks += [forecast_markdown(f) for f in forecasts if (f.span.end_line, f.span.end_column) == place]
        if blocks:
            hint.tooltip = self._bench.convert.markup(RULE.join(blocks))
        return hint

    def code_lens(self, params: lsp.CodeLensParams) -> Awaitable[list[lsp.CodeLens]] | None:
        """Lenses on tests; from the text alone, so that they stay while it does not parse."""
        document = current(self._bench, params.text_document.uri)
        if document is None or not self._bench.session.settings_for(document.path).code_lens:
            return None
        return self._lenses(document)

    async def _lenses(self, document: Document) -> list[lsp.CodeLens]:
        await self._bench.know_reports(document)
        if self._bench.session.document(document.uri) is not document:
            raise modified()
        if is_cassette_file(document):
            return self._row_lenses(document)
        if document.path is None:
            return []
        if not is_test_file(document.path):
            return await self._workflow_lenses(document)
        recorded = self._bench.session.recorded.tests_in.get(document.path, ())
        found = lenses(document, find_tests(self._outline(document)), recorded, self._bench.session.trusted)
        return [self._bench.convert.lens(document, lens) for lens in found]

    async def _workflow_lenses(self, document: Document) -> list[lsp.CodeLens]:
        found = [
            Lens(m.name_span, "Show diagram", "rulvar.showDiagram", {"uri": document.uri, "machine": m.name})
            for m in self._machines(document)
        ]
        lenses = [self._bench.convert.lens(document, lens) for lens in found]
        return lenses + await self._recorded_lenses(document)

    def _machines(self, document: Document) -> tuple[Machine, ...]:
        """The machines of the last text of the document that parsed; of a few documents remembered."""
        from rulvar_lsp.features.machines import machines

        known = self._machine_texts.pop(uri_key(document.uri), None)
        if known is None or known[0] is not document.text:
            fresh = machines(document.text)
            known = (document.text, fresh if fresh is not None else known[1] if known else ())
        self._machine_texts[uri_key(document.uri)] = known
        if len(self._machine_texts) > MOST_OUTLINES:
            del self._machine_texts[next(iter(self._machine_texts))]
        return known[1]

    def document_symbol(self, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol] | None:
        """State machines and their transitions; everything else is left to other servers."""
        document = current(self._bench, params.text_document.uri)
        if document is None or document.language != "python":
            return None
        return [self._bench.convert.machine(document, one) for one in self._machines(document)]

    def diagram(self, uri: str, name: str) -> tuple[Document, str] | None:
        """The Mermaid text of a machine, None where there is none of this name."""
        document = current(self._bench, uri)
        from rulvar_lsp.features.machines import diagram

        found = self._machines(document) if document is not None else ()
        chosen = next((machine for machine in found if machine.name == name), None)
        return (document, diagram(chosen)) if document is not None and chosen is not None else None

    async def _recorded_lenses(self, document: Document) -> list[lsp.CodeLens]:
        if document.path not in self._bench.session.recorded.calls_in:
            return []
        view = await view_of(self._bench, document)
        found = workflow_lenses(document, view.analysis.workflows, view.placed)
        return [self._bench.convert.lens(document, lens) for lens in found]

    async def recorded_by(self, raw: Any) -> list[dict[str, str]]:
        """`rulvar/recordedBy`: the tests that went through the workflow around a line."""
        params = raw if isinstance(raw, dict) else {}
        document, line = current(self._bench, str(params.get("uri"))), params.get("line")
        if document is None or not isinstance(line, int):
            return []
        view = await view_of(self._bench, document)
        around = [w for w in view.analysis.workflows if w.line <= line <= w.end_line]
        return [
            {"path": test.file, "uri": path_to_uri(test.file), "test": test.function}
            for test in (tests_through(around[-1], view.placed) if around else ())
        ]

    def _row_lenses(self, document: Document) -> list[lsp.CodeLens]:
        rows = served_rows(document, self._bench.session.recorded)
        found = []
        for row in rows[:MOST_ROW_LENSES]:
            site = row.calls[0]
            path = site.test.absolute(site.site.file)
            span = Span(row.line, 0, row.line, 0)
            target = {"path": path, "line": site.site.line}
            found.append(Lens(span, row.title, "rulvar.openFile", target))
        return [self._bench.convert.lens(document, lens) for lens in found]

    def hover(self, params: lsp.HoverParams) -> Awaitable[lsp.Hover | None] | None:
        """What is known about a call, and what a rule means."""
        document = current(self._bench, params.text_document.uri)
        if document is None:
            return None
        line, column = self._bench.convert.place(document.text, params.position)
        if is_cassette_file(document):
            return self._row_hover(document, line)
        return self._hover(document, line, column)

    async def _row_hover(self, document: Document, line: int) -> lsp.Hover | None:
        await self._bench.know_reports(document)
        text = row_markdown(document, line, self._bench.session.recorded)
        if text is None:
            return None
        found = HoverText(text, Span(line, 0, line, len(document.text.line(line))))
        return self._bench.convert.hover(document, found)

    async def _hover(self, document: Document, line: int, column: int) -> lsp.Hover | None:
        view = await view_of(self._bench, document)
        here = [
            one
            for machine in self._machines(document)
            for one in machine.transitions
            if one.name_span.contains(line, column)
        ]
        if here:
            from rulvar_lsp.features.machines import transition_markdown

            return self._bench.convert.hover(
                document, HoverText(transition_markdown(here), here[0].name_span)
            )
        rules = {f.code for f in view.findings if f.is_rule and f.span.contains(line, column)}
        infos = {code: await self._bench.analyst.rule_info(code) for code in rules}
        forecasts = await self._bench.analyst.forecasts(view)
        found = hover(line, column, view.placed, forecasts, view.findings, infos.get)
        return self._bench.convert.hover(document, found) if found is not None else None

    def code_action(self, params: lsp.CodeActionParams) -> Awaitable[list[Any]] | None:
        """Fixes and the other actions at a place."""
        document = current(self._bench, params.text_document.uri)
        if document is None:
            return None
        only = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()] or None
        return self._actions(document, self._bench.convert.span(document.text, params.range), only)

    async def _actions(
        self, document: Document, span: Span, only: list[str] | None
    ) -> list[lsp.CodeAction | lsp.Command]:
        view = await view_of(self._bench, document)
        path = document.path
        test = None
        if path and is_test_file(path):
            test = find_test_at(document.text, self._outline(document), span.line)
        found = actions.code_actions(document, span, view.findings, view.placed, test, only)
        convert = self._bench.convert
        result = [convert.action(document, action) for action in found]
        fixable = any(f.fix is not None and f.fix.applicability == "safe" for f in view.findings)
        if fixable and only is not None and actions.wanted(FIX_ALL, only):
            data = {"uri": document.uri, "version": document.version}
            result.append(lsp.CodeAction(title="Fix all rulvar findings", kind=FIX_ALL, data=data))
        return result

    async def resolve_action(self, action: lsp.CodeAction) -> lsp.CodeAction:
        """Add the edit of "fix all", for the very text that the action was offered for."""
        data = action.data if isinstance(action.data, dict) else {}
        document = current(self._bench, str(data.get("uri")))
        if document is None or action.edit is not None:
            return action
        if document.version != data.get("version"):
            raise modified()
        fixed = await self._bench.analyst.fix_all(document)
        if self._bench.session.document(document.uri) is not document:
            raise modified()
        if fixed is not None:
            edits = actions.difference(document.text, fixed)
            action.edit = self._bench.convert.workspace_edit(document, edits)
        return action

    def definition(self, params: lsp.DefinitionParams) -> Awaitable[list[lsp.Location]] | None:
        """From a call to the rows that served it, or to the nearest row of a miss."""
        document = current(self._bench, params.text_document.uri)
        if document is None:
            return None
        line, column = self._bench.convert.place(document.text, params.position)
        return self._definition(document, line, column)

    async def _definition(self, document: Document, line: int, column: int) -> list[lsp.Location]:
        view = await view_of(self._bench, document)
        places = rows_at(line, column, view.placed, await self._bench.analyst.forecasts(view))
        places += [(link.path, 0) for link in self._links(document) if link.span.contains(line, column)]
        return [self._bench.convert.location(p, Span(n, 0, n, 0)) for p, n in places]

    def references(self, params: lsp.ReferenceParams) -> Awaitable[list[lsp.Location]] | None:
        """From a row of a cassette to the calls and the tests that it serves."""
        document = current(self._bench, params.text_document.uri)
        if document is None or not is_cassette_file(document):
            return None
        return self._references(document, params.position.line)

    async def _references(self, document: Document, line: int) -> list[lsp.Location]:
        await self._bench.know_reports(document)
        rows = served_rows(document, self._bench.session.recorded)
        calls = [call for row in rows if row.line == line for call in row.calls]
        places = {
            (
                c.test.absolute(c.site.file),
                span_of(c.site.line, c.site.column, c.site.end_line, c.site.end_column),
            )
            for c in calls
        }
        tests = {(c.test.file, span_of(c.test.run.line, 1, c.test.run.line, 1)) for c in calls}
        return [
            self._bench.convert.location(path, span)
            for found in (places, tests)
            for path, span in sorted(found, key=lambda place: (place[0], place[1].line))
        ]

    def document_link(self, params: lsp.DocumentLinkParams) -> list[lsp.DocumentLink] | None:
        """Strings that name a cassette."""
        document = current(self._bench, params.text_document.uri)
        if document is None or document.language != "python":
            return None
        convert = self._bench.convert
        return [
            lsp.DocumentLink(range=convert.range(document.text, link.span), target=path_to_uri(link.path))
            for link in self._links(document)
        ]

    def _links(self, document: Document) -> tuple[Link, ...]:
        session = self._bench.session
        roots = [session.root_of(document.path)] if document.path else []
        return cassette_links(document, roots, session.recorded.uses_of, os.path.isfile)

    async def sides(self, raw: Any) -> dict[str, str] | None:
        """`rulvar/nearest`: both sides of the miss at a place, for a client with a diff view."""
        params = raw if isinstance(raw, dict) else {}
        document = current(self._bench, str(params.get("uri")))
        line, column = params.get("line"), params.get("column")
        if document is None or not isinstance(line, int) or not isinstance(column, int):
            return None
        view = await view_of(self._bench, document)
        return next((s for p in view.placed if p.span.contains(line, column) and (s := sides(p))), None)

    def discover(self, raw: Any) -> list[dict[str, Any]]:
        """`rulvar/tests`: the tests of an open file, for a client with a test view of its own."""
        identifier = raw.get("textDocument") if isinstance(raw, dict) else None
        uri = identifier.get("uri") if isinstance(identifier, dict) else None
        document = current(self._bench, uri) if isinstance(uri, str) else None
        if document is None or document.path is None or not is_test_file(document.path):
            return []
        return [
            {
                "name": block.name,
                "range": self._bench.protocol.plain(
                    self._bench.convert.range(document.text, block.name_span)
                ),
            }
            for block in find_tests(self._outline(document))
        ]
