"""RLV001-RLV003: files that do not parse, and suppression comments that are not needed or name no
rule.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rulvar_lint.core.diagnostic import Edit, Fix
from rulvar_lint.core.spelling import nearest
from rulvar_lint.rules.wording import plain

if TYPE_CHECKING:
    from rulvar_lint.core.comments import Comments
    from rulvar_lint.core.diagnostic import Diagnostic
    from rulvar_lint.core.directives import Named, Suppression
    from rulvar_lint.core.source import ParseFailure, Source

Used = set[tuple[str, int, str]]


def syntax_error(source: Source, failure: ParseFailure) -> Diagnostic:
    """RLV001."""
    line = min(failure.line, max(len(source.lines), 1))
    column = min(failure.column, len(source.line_text(line)) + 1)
    what = (
        f"the file does not parse with Python {sys.version_info[0]}.{sys.version_info[1]}: {failure.message}"
    )
    item = plain(
        "RLV001",
        source.path,
        line,
        column,
        column + 1,
        what,
    )
    if failure.is_unreadable:
        return replace(item, message=f"the file cannot be read: {failure.message}; change its permissions")
    return item


def judge(
    source: Source,
    comments: Comments,
    used: Used,
    known: frozenset[str],
    is_on: Callable[[str], bool],
) -> list[Diagnostic]:
    """RLV002 and RLV003 for the suppression comments of one file."""
    found: list[Diagnostic] = []
    for suppression in comments.suppressions:
        found += _unknown(source, suppression, known)[:1]
        unused = [
            named
            for named in suppression.codes
            if named.code in known
            and is_on(named.code)
            and (source.path, suppression.line, named.code) not in used
        ]
        if suppression.codes:
            if unused:
                found.append(_unused(source, suppression, unused))
        elif (source.path, suppression.line, "*") not in used:
            found.append(_unused(source, suppression, []))
    return found


def _unknown(source: Source, suppression: Suppression, known: frozenset[str]) -> list[Diagnostic]:
    found = []
    for named in suppression.codes:
        native = suppression.kind != "noqa"
        if named.code in known or not (native or named.code.startswith("RLV")):
            continue
        near = nearest(named.code, known)
        hint = f"; did you mean {near}?" if near else ""
        fix = None
        if near:
            edit = Edit(
                source.path,
                suppression.line,
                named.start + 1,
                suppression.line,
                named.end + 1,
                near,
            )
            fix = Fix("manual", f"Replace by {near}", (edit,))
        what = f"`{named.code}` is no rule{hint}"
        found.append(
            plain("RLV003", source.path, suppression.line, named.start + 1, named.end + 1, what, fix)
        )
    return found


def _unused(source: Source, suppression: Suppression, unused: list[Named]) -> Diagnostic:
    names = ", ".join(named.code for named in unused)
    what = f"nothing to suppress here for {names}" if names else "nothing to suppress here"
    fix = _removal(source, suppression, unused)
    return plain(
        "RLV002",
        source.path,
        suppression.line,
        suppression.start + 1,
        suppression.end + 1,
        what,
        fix,
    )


def _removal(source: Source, suppression: Suppression, unused: list[Named]) -> Fix:
    line = suppression.line
    text = source.line_text(line)
    kept = [named for named in suppression.codes if named not in unused]
    if kept:
        start, end = suppression.codes[0].start, suppression.codes[-1].end
        edit = Edit(source.path, line, start + 1, line, end + 1, ", ".join(named.code for named in kept))
        return Fix("safe", "Remove what is not needed", (edit,))
    start, end = suppression.start, suppression.end
    reason = text[end:]
    following = reason.find("#")
    end = end + following if following >= 0 else len(text)
    start = len(text[:start].rstrip()) if following < 0 else start
    edit = Edit(source.path, line, start + 1, line, end + 1, "")
    if not start and following < 0 and line < len(source.lines):
        edit = Edit(source.path, line, 1, line + 1, 1, "")
    return Fix("safe", "Remove the comment", (edit,))
