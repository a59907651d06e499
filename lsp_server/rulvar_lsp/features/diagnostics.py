"""Findings of a document: the lint's, and what the last test runs say about its calls and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulvar_lsp.features.outline import Block
from rulvar_lsp.features.recorded import difference_line, miss_sentence, short_hash
from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.snapshot import CLOCK_SECONDS, Document, RecordedCall, RecordedTest
from rulvar_lsp.text import Span, Text, lines_digest

if TYPE_CHECKING:
    from rulvar_lint import Diagnostic
    from rulvar_lsp.report import Warned

MISS = "replay-miss"
EXHAUSTED = "replay-exhausted"
FAILED = "replay-failed"
DIVERGED = "replay-diverged"
NOTICED = "replay-unstable"
_RELATED_DIFFERENCES = 5


@dataclass(frozen=True, slots=True)
class Related:
    """A place that explains a finding; `path` is absolute, None for the finding's own document."""

    path: str | None
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement in a file; `path` is absolute, None for the finding's own document."""

    path: str | None
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes a finding: `safe`, `unsafe` (changes what is recorded) or `manual`."""

    applicability: str
    message: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic: a rule of the lint (`is_rule`), or a fact of a test run."""

    span: Span
    code: str
    severity: str
    message: str
    is_rule: bool = False
    url: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    unnecessary: bool = False
    site: PlacedSite | None = None


def span_of(line: int, column: int, end_line: int, end_column: int) -> Span:
    """A 1-based span of the lint or of a report as one of ours."""
    return Span(line - 1, column - 1, end_line - 1, end_column - 1)


def lint_findings(
    document: Document, diagnostics: Iterable[Diagnostic], absolute: Callable[[str], str | None]
) -> tuple[Finding, ...]:
    """Convert the lint's diagnostics; `absolute` gives a path of theirs as an absolute one, None for
    the document itself.
    """
    known: dict[str, str | None] = {}  # paths repeat

    def looked_up(path: str) -> str | None:
        if path not in known:
            known[path] = absolute(path)
        return known[path]

    return tuple(_lint_finding(document.text, d, looked_up) for d in diagnostics)


def _lint_finding(text: Text, d: Diagnostic, absolute: Callable[[str], str | None]) -> Finding:
    return Finding(
        span=text.clamp(span_of(d.line, d.column, d.end_line, d.end_column)),
        code=d.code,
        severity=d.severity,
        message=d.message,
        is_rule=True,
        url=d.url,
        related=tuple(
            Related(absolute(r.path), span_of(r.line, r.column, r.line, r.column), r.message)
            for r in d.related
        ),
        fix=_fix(d, absolute),
        unnecessary=d.code == "RLV002",
    )


def _fix(d: Diagnostic, absolute: Callable[[str], str | None]) -> Fix | None:
    if d.fix is None or not d.fix.edits:
        return None
    edits = tuple(
        TextEdit(absolute(e.path), span_of(e.line, e.column, e.end_line, e.end_column), e.text)
        for e in d.fix.edits
    )
    return Fix(d.fix.applicability, d.fix.message, edits)


def run_findings(
    document: Document,
    placed: Sequence[PlacedSite],
    tests: Sequence[Block],
    recorded: Sequence[RecordedTest],
    noticed: Sequence[tuple[RecordedTest, Warned]] = (),
) -> tuple[Finding, ...]:
    """Return what the newest runs say: misses at calls, failures at tests. Stale facts are left
    out.
    """
    found: list[Finding] = []
    for site in placed:
        if not site.stale:
            found += _site_findings(document.text, site)
    blocks = {block.name: block for block in tests}
    for test in recorded:
        block = blocks.get(test.function)
        if block is not None and is_current(document, block, test):
            found += _test_findings(block, test)
    found += _noticed_findings(document, noticed)
    return tuple(found)


def is_current(document: Document, block: Block, test: RecordedTest) -> bool:
    """Say whether the test still is what it was when it ran."""
    if test.run.digest is not None and test.run.end_line is not None:
        height = test.run.end_line - test.run.line
        first = block.name_span.line
        lines = [document.text.line(n) for n in range(first, first + height + 1)]
        return lines_digest(lines) == test.run.digest and not test.outdated
    return not _changed_since(document, test) and not test.outdated


def _changed_since(document: Document, test: RecordedTest) -> bool:
    return document.changed_at > test.created + CLOCK_SECONDS


def _site_findings(text: Text, site: PlacedSite) -> list[Finding]:
    seen: set[tuple[str, str | None]] = set()
    found = []
    for recorded in site.newest:
        call = recorded.call
        if call.served in ("miss", "exhausted") and (call.served, call.request_hash) not in seen:
            seen.add((call.served, call.request_hash))
            found.append(_miss_finding(_callee(text, site.span), site, recorded))
    return found


def _callee(text: Text, span: Span) -> Span:
    """The part of a call before its arguments: a long call is not underlined whole."""
    opening = text.line(span.line).find("(", span.column)
    if opening <= span.column:
        return span
    return Span(span.line, span.column, span.line, opening)


def _miss_finding(span: Span, site: PlacedSite, recorded: RecordedCall) -> Finding:
    call = recorded.call
    if call.divergence is not None:
        return _divergence_finding(span, site, recorded)
    return Finding(
        span=span,
        code=MISS if call.served == "miss" else EXHAUSTED,
        severity="error",
        message=f"in {recorded.test.name}: {miss_sentence(call)}",
        related=_nearest_related(site, recorded),
        site=site,
    )


def _divergence_finding(span: Span, site: PlacedSite, recorded: RecordedCall) -> Finding:
    divergence = recorded.call.divergence
    assert divergence is not None
    return Finding(
        span=span,
        code=DIVERGED,
        severity="error",
        message=f"not in the journal that {recorded.test.name} replays: {divergence.reason}",
        related=tuple(
            Related(None, site.span, difference_line(d))
            for d in divergence.differences[:_RELATED_DIFFERENCES]
        ),
        site=site,
    )


def _nearest_related(site: PlacedSite, recorded: RecordedCall) -> tuple[Related, ...]:
    nearest = recorded.call.nearest
    if nearest is None:
        return ()
    cassette = nearest.cassette or recorded.call.cassette
    path = recorded.test.absolute(cassette) if cassette else None
    row = Span(nearest.row - 1, 0, nearest.row - 1, 0) if path else site.span
    head = Related(path, row, f"nearest recorded row {short_hash(nearest.request_hash)}")
    shown = nearest.differences[:_RELATED_DIFFERENCES]
    return (head, *(Related(path, row, difference_line(d)) for d in shown))


def _noticed_findings(document: Document, noticed: Sequence[tuple[RecordedTest, Warned]]) -> list[Finding]:
    """Nondeterminism that was noticed while tests ran; without a digest only as long as nothing changed."""
    found: dict[tuple[int, str], Finding] = {}
    for test, warned in noticed:
        if not _changed_since(document, test):
            line = warned.line - 1
            content = document.text.line(line)
            start = len(content) - len(content.lstrip())
            found[line, warned.code] = Finding(
                span=Span(line, start, line, len(content.rstrip())),
                code=NOTICED,
                severity="warning",
                message=f"noticed while {test.name} ran: {warned.message}",
            )
    return list(found.values())


def _test_findings(block: Block, test: RecordedTest) -> list[Finding]:
    found = []
    if test.run.outcome in ("failed", "error"):
        first = (test.run.message or "").strip().partition("\n")[0]
        text = f"{test.name} {test.run.outcome} in replay" + (f": {first}" if first else "")
        found.append(Finding(block.name_span, FAILED, "error", text))
    return found
