"""A document as it was looked at: by itself, and together with what the reports say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar_lsp.features.cassette import unused_rows
from rulvar_lsp.features.diagnostics import NOTICED, Finding, run_findings
from rulvar_lsp.features.outline import Block
from rulvar_lsp.features.sites import PlacedSite, StaticCall, place_sites
from rulvar_lsp.snapshot import Document, Recorded
from rulvar_lsp.text import Span

if TYPE_CHECKING:
    from rulvar_lint import Diagnostic


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a text is by itself and among the other files of its project."""

    document: Document
    findings: tuple[Finding, ...] = ()
    calls: tuple[StaticCall, ...] | None = None  # None: the text does not parse
    tests: tuple[Block, ...] = ()
    workflows: tuple[Span, ...] = ()
    seconds: float = 0.0  # that the look took


@dataclass(frozen=True, slots=True)
class View:
    """An analysis together with what the reports say."""

    analysis: Analysis
    placed: tuple[PlacedSite, ...] = ()
    run_findings: tuple[Finding, ...] = ()

    @property
    def document(self) -> Document:
        """The document that was looked at."""
        return self.analysis.document

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: of the lint, and of the runs what the lint does not say already."""
        ruled = {f.span.line for f in self.analysis.findings if f.is_rule}
        told = [f for f in self.run_findings if f.code != NOTICED or f.span.line not in ruled]
        return (*self.analysis.findings, *told)


@dataclass(frozen=True, slots=True)
class FileLook:
    """A file that is not open as it was looked at; `told` are the reports where they tell of it."""

    stamp: tuple[int, int]
    found: tuple[Diagnostic, ...]
    told: Recorded | None
    view: View | None


def look_back(analysis: Analysis, recorded: Recorded) -> View:
    """Put what the reports say beside an analysis."""
    document = analysis.document
    if document.path is None:
        return View(analysis)
    if document.language != "python":
        return View(analysis, run_findings=unused_findings(document, recorded))
    calls = recorded.calls_in.get(document.path, ())
    placed = place_sites(document.text, calls, analysis.calls) if calls else ()
    ran = recorded.tests_in.get(document.path, ())
    noticed = recorded.noticed_in.get(document.path, ())
    return View(analysis, placed, run_findings(document, placed, analysis.tests, ran, noticed))


def too_large(document: Document, most: int) -> Finding:
    """The finding of a text that is too large to be looked at."""
    said = f"not looked at: larger than {most:,} characters"
    return Finding(Span(0, 0, 0, len(document.text.line(0))), "too-large", "information", said)


def unused_findings(document: Document, recorded: Recorded) -> tuple[Finding, ...]:
    """Rows that no test needs any more."""
    return tuple(
        Finding(
            span=Span(line, 0, line, len(document.text.line(line))),
            code="cassette-unused",
            severity="hint",
            message="no test that replays this cassette was served this row",
            unnecessary=True,
        )
        for line in unused_rows(document, recorded)
    )
