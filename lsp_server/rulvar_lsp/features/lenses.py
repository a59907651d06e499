"""Code lenses: run replay-strict on a test, and what its last run said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rulvar_lsp.features.diagnostics import is_current
from rulvar_lsp.features.outline import Block, parameters
from rulvar_lsp.features.recorded import counts
from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.snapshot import Document, RecordedTest
from rulvar_lsp.text import Span

RUN_TITLE = "Run replay-strict"
RECORD_TITLE = "Record"


@dataclass(frozen=True, slots=True)
class Lens:
    """A line of text above `span`; `command` is a key of the server's commands."""

    span: Span
    title: str
    command: str
    argument: dict[str, object]


def lenses(
    document: Document, tests: Sequence[Block], recorded: Sequence[RecordedTest], may_record: bool = False
) -> tuple[Lens, ...]:
    """Return the lenses of a test file; `may_record` offers to record where a test has a cassette to record."""
    found: list[Lens] = []
    for block in tests:
        target: dict[str, object] = {"uri": document.uri, "test": block.name}
        runs = [test for test in recorded if test.function == block.name]
        found.append(Lens(block.name_span, RUN_TITLE, "rulvar.replayStrict", target))
        if runs:
            title = _status(document, block, runs)
            found.append(Lens(block.name_span, title, "rulvar.showResult", target))
        for path in dict.fromkeys(t.absolute(use.path) for t in runs for use in t.run.cassettes):
            found.append(Lens(block.name_span, "Open cassette", "rulvar.openFile", {"path": path, "line": 1}))
            break
        if may_record and "cassette" in parameters(document.text, block):
            found.append(Lens(block.name_span, RECORD_TITLE, "rulvar.record", target))
    return tuple(found)


def tests_through(workflow: Span, placed: Iterable[PlacedSite]) -> tuple[RecordedTest, ...]:
    """The tests that made calls in a workflow, in order of their names."""
    through = {(c.test.file, c.test.function): c.test for p in _inside(workflow, placed) for c in p.calls}
    return tuple(through[key] for key in sorted(through))


def workflow_lenses(
    document: Document, workflows: Iterable[Span], placed: Sequence[PlacedSite]
) -> tuple[Lens, ...]:
    """Return the lenses on workflows that tests went through: what they say, and a way to run them."""
    found = []
    for workflow in workflows:
        inside = _inside(workflow, placed)
        number = len(tests_through(workflow, inside))
        if not number:
            continue
        said = counts(recorded.call for site in inside for recorded in site.calls)
        stale = "stale: " if any(site.stale for site in inside) else ""
        tests = "1 test" if number == 1 else f"{number} tests"
        title = f"{stale}{said or 'no model call'} in {tests}"
        target: dict[str, object] = {"uri": document.uri, "line": workflow.line}
        found.append(Lens(workflow, title, "rulvar.replayRecorded", target))
    return tuple(found)


def _inside(workflow: Span, placed: Iterable[PlacedSite]) -> list[PlacedSite]:
    return [site for site in placed if workflow.line <= site.span.line <= workflow.end_line]


def _status(document: Document, block: Block, runs: Sequence[RecordedTest]) -> str:
    outcomes = [test.run.outcome for test in runs]
    worst = next((o for o in ("error", "failed", "passed") if o in outcomes), "skipped")
    title = worst
    if said := counts(call for test in runs for call in test.run.calls):
        title += f": {said}"
    if not all(is_current(document, block, test) for test in runs):
        title = f"stale: {title}"
    return title
