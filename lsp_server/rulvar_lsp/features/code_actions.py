"""Code actions: fixes, ignores, running replay-strict, explaining a miss.

Running code is of kind `test`, never `quickfix` or `source.*`: "fix all on save" must not be able
to run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rulvar_lsp.features.action_kinds import EXPLAIN, QUICKFIX, TEST
from rulvar_lsp.features.diagnostics import Finding, TextEdit
from rulvar_lsp.features.outline import Block
from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Span, Text

REASON = "TODO: say why"  # the lint wants a suppression to give its reason, which only the author knows
_COMMENT = re.compile(r"#\s*rulvar:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Action:
    """Something to offer. Either `edits` or a `command` (a key of the server's commands)."""

    title: str
    kind: str
    edits: tuple[TextEdit, ...] = ()
    findings: tuple[Finding, ...] = ()
    preferred: bool = False
    command: str | None = None
    argument: Mapping[str, object] = field(default_factory=dict)


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Say whether the client asked for this kind; a kind includes its sub-kinds."""
    return only is None or any(not o or kind == o or kind.startswith(o + ".") for o in only)


def code_actions(
    document: Document,
    span: Span,
    findings: Iterable[Finding],
    placed: Iterable[PlacedSite],
    test: Block | None,
    only: Sequence[str] | None = None,
) -> tuple[Action, ...]:
    """Return the actions for a place, without `FIX_ALL`, which needs the lint once more."""
    touched = [f for f in findings if f.span.overlaps(span)]
    sites = [p for p in placed if p.span.overlaps(span)]
    actions: list[Action] = []
    if wanted(QUICKFIX, only):
        rules = [f for f in touched if f.is_rule]
        actions += fixes(rules)
        actions += [a for f in rules if (a := ignore(document.text, f)) is not None]
    if wanted(TEST, only):
        actions += run_actions(document, sites, test)
    if wanted(EXPLAIN, only):
        actions += [action for site in sites for action in miss_actions(document, site)]
    return tuple(actions)


def fixes(findings: Sequence[Finding]) -> list[Action]:
    """Return one action per fix; the one safe fix of a place is the preferred one."""
    safe = [f for f in findings if f.fix is not None and f.fix.applicability == "safe"]
    actions = []
    for finding in findings:
        fix = finding.fix
        if fix is None:
            continue
        note = "" if fix.applicability == "safe" else " (changes what is recorded)"
        actions.append(
            Action(
                title=fix.message + (note if fix.applicability == "unsafe" else ""),
                kind=QUICKFIX,
                edits=fix.edits,
                findings=(finding,),
                preferred=len(safe) == 1 and finding is safe[0],
            )
        )
    return actions


def difference(text: Text, new: str) -> tuple[TextEdit, ...]:
    """The edits, line by line, that turn the text into `new`."""
    from difflib import SequenceMatcher

    old_lines, new_lines = text.source.splitlines(True), new.splitlines(True)
    edits = []
    starts = [0]
    for line in old_lines:
        starts.append(starts[-1] + len(line))
    matcher = SequenceMatcher(None, old_lines, new_lines)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            start, end = text.place(starts[a]), text.place(starts[b])
            edits.append(TextEdit(None, Span(*start, *end), "".join(new_lines[c:d])))
    return tuple(edits)


def ignore(text: Text, finding: Finding) -> Action | None:
    """Return the action that adds a suppression to the finding's line, or None where none can
    stand.
    """
    if not re.fullmatch(r"RLV[1-9]\d\d", finding.code):
        return None
    line = finding.span.line
    content = text.line(line)
    if content.rstrip().endswith("\\"):
        return None
    if match := _COMMENT.search(content):
        codes = [c.strip() for c in match[1].split(",") if c.strip()]
        if finding.code in codes:
            return None
        span = Span(line, match.start(1), line, match.end(1))
        edit = TextEdit(None, span, ", ".join([*codes, finding.code]))
    else:
        end = len(content.rstrip())
        comment = f"  # rulvar: ignore[{finding.code}] {REASON}"
        edit = TextEdit(None, Span(line, end, line, len(content)), comment)
    return Action(f"Ignore {finding.code} on this line", QUICKFIX, (edit,), (finding,))


def run_actions(document: Document, sites: Sequence[PlacedSite], test: Block | None) -> list[Action]:
    """Return the run action of the test around the place, else of the tests that made the call."""
    if test is not None:
        return [_run(document.uri, None, test.name)]
    tests = {(c.test.file, c.test.function) for site in sites for c in site.calls}
    return [_run(None, path, name) for path, name in sorted(tests)[:5]]


def _run(uri: str | None, path: str | None, name: str) -> Action:
    where: dict[str, object] = {"uri": uri} if uri is not None else {"path": path}
    title = f"Run replay-strict on {name.rpartition('::')[2]}"
    return Action(title, TEST, command="rulvar.replayStrict", argument={**where, "test": name})


def miss_actions(document: Document, site: PlacedSite) -> list[Action]:
    """Return what can be asked about a miss: its explanation and the row that is nearest."""
    missed = [c for c in site.newest if c.call.served in ("miss", "exhausted")]
    if not missed:
        return []
    place: dict[str, object] = {
        "uri": document.uri,
        "line": site.span.line,
        "column": site.span.column,
    }
    actions = [Action("Explain this miss", EXPLAIN, command="rulvar.explainMiss", argument=place)]
    nearest = missed[0].call.nearest
    cassette = (nearest.cassette if nearest else None) or missed[0].call.cassette
    if nearest is not None and cassette:
        target: dict[str, object] = {
            "path": missed[0].test.absolute(cassette),
            "line": nearest.row,
        }
        actions.append(
            Action("Open the nearest recorded row", EXPLAIN, command="rulvar.openFile", argument=target)
        )
    return actions
