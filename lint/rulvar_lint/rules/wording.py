"""From findings to diagnostics: the message, the chain as related places, and the edits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import end_of
from rulvar_lint.core.brackets import bracketed
from rulvar_lint.core.diagnostic import Diagnostic, Edit, Fix, Related
from rulvar_lint.core.syntax import syntax_tree
from rulvar_lint.rules.pages import RULES
from rulvar_lint.rules.wrapping import offer

if TYPE_CHECKING:
    from collections.abc import Collection

    from rulvar_lint.core.findings import Finding, Sink

_SINKS: Final = {
    "prompt": (
        "it flows into the prompt on {line} and re-keys the call, which is paid again on every resume"
    ),
    "key": ("it flows into the key on {line} and re-keys the call, which is paid again on every resume"),
    "deps": ("it flows into the deps on {line} and re-keys the step, which runs again on every resume"),
    "args": ("it flows into the arguments on {line} and re-keys the child, which runs again on every resume"),
    "identity": ("it is part of the identity of the call on {line}, which is paid again on every resume"),
    "label": "it flows into the label on {line}",
    "branch": "the branch taken on {line} can differ on replay",
    "result": "the result differs between the run and its replay",
}
_ORDER: Final = tuple(_SINKS)


def plain(
    code: str, path: str, line: int, column: int, end_column: int, what: str, fix: Fix | None = None
) -> Diagnostic:
    """A diagnostic within one line."""
    rule = RULES[code]
    return Diagnostic(
        path,
        line,
        column,
        line,
        end_column,
        code,
        rule.name,
        rule.severity,
        f"{what}; {rule.advice}",
        rule.url,
        (),
        fix,
    )


def word(finding: Finding) -> Diagnostic:
    """The diagnostic of a finding."""
    cause = finding.cause
    rule = RULES[cause.code]
    what = cause.what
    if cause.chain:
        names = " \u2192 ".join(f"`{name}`" for name, _ in cause.chain)
        what = f"{names}: {what}"
    end = ending(cause.code, finding.sinks, finding.line)
    return Diagnostic(
        path=finding.module.path,
        line=finding.line,
        column=finding.column,
        end_line=finding.end_line,
        end_column=finding.end_column,
        code=cause.code,
        name=rule.name,
        severity=cause.severity or rule.severity,  # type: ignore[arg-type]
        message=what + end,
        url=rule.url,
        related=_related(finding),
        fix=fix_of(finding),
    )


def rank(sink: Sink) -> tuple[int, int]:
    """The place of what may be said of where a value goes; the lowest one is said."""
    return _ORDER.index(sink[0]), sink[1]


def ending(code: str, sinks: Collection[Sink], line: int) -> str:
    """The end of the message of a finding on `line`: where the value goes, and the advice."""
    advice = f"; {RULES[code].advice}"
    if not sinks:
        return advice
    kind, at, _ = min(sinks, key=rank)
    where = "the same line" if at == line else f"line {at}"
    return f"; {_SINKS[kind].format(line=where)}{advice}"


def _related(finding: Finding) -> tuple[Related, ...]:
    cause = finding.cause
    found: list[Related] = []
    for name, place in cause.chain[1:]:
        found.append(Related(place.path, place.line, place.column, f"calls `{name}`"))
    here = (finding.module.path, finding.line)
    if (cause.place.path, cause.place.line) != here:
        found.append(Related(cause.place.path, cause.place.line, cause.place.column, cause.what))
    for place, message in finding.places:
        found.append(Related(place.path, place.line, place.column, message))
    return tuple(found)


# Fixes


def fix_of(finding: Finding) -> Fix | None:
    """The edits of a finding's fix, in positions of the file."""
    plan = finding.fix or offer(finding)
    if plan is None:
        return None
    applicability, message, parts, how = plan
    edits: list[Edit] = []
    for node, text, *own in parts:
        edit = _edit(finding, node, text, own[0] if own else how)
        if edit is None:
            return None
        edits.append(edit)
        if how == "await" and edit.text.startswith("("):
            end_line: int = node.end_lineno
            column = finding.module.source.column(end_line, node.end_col_offset)
            edits.append(Edit(edit.path, end_line, column, end_line, column, ")"))
    return Fix(applicability, message, tuple(edits))  # type: ignore[arg-type]


def _edit(finding: Finding, node: ast.AST, text: str, how: str) -> Edit | None:
    source = finding.module.source
    line: int = getattr(node, "lineno", 0)
    end_line: int = getattr(node, "end_lineno", None) or line
    start = source.column(line, getattr(node, "col_offset", 0))
    end = source.column(end_line, getattr(node, "end_col_offset", None) or 0)
    path = finding.module.path
    if not _matches(finding, node):
        return None
    if how == "await":
        following = source.line_text(end_line)[end - 1 : end]
        text = f"({text}" if following and following in ".[(" else text
    if how in ("before", "await"):
        return Edit(path, line, start, line, start, text)
    if how == "after":
        return Edit(path, end_line, end, end_line, end, text)
    if how == "keyword":
        word_ = text.split()[0]
        return Edit(path, line, start, line, start + len(word_), text)
    if how == "argument":
        return _argument(finding, node, text, end_line, end)
    return Edit(path, line, start, end_line, end, text.replace("\n", source.newline))


def _matches(finding: Finding, node: ast.AST) -> bool:
    """Whether the text at a node's position is the node: inside f-strings older parsers are not
    exact.
    """
    if isinstance(node, ast.ExceptHandler) or not finding.in_text:
        return True
    source = finding.module.source
    segment = source.segment(node)
    if segment is None or not isinstance(node, ast.expr):
        return segment is not None
    try:
        parsed = syntax_tree(f"({segment}\n)", "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return ast.dump(parsed) == ast.dump(node)


def _argument(finding: Finding, node: ast.AST, text: str, line: int, end: int) -> Edit | None:
    """An argument behind the last one of a call."""
    if not isinstance(node, ast.Call):
        return None
    path = finding.module.path
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not given:
        return Edit(path, line, end - 1, line, end - 1, text)
    source = finding.module.source
    last = max(given, key=lambda part: (part.end_lineno or 0, part.end_col_offset or 0))
    if (last.end_lineno, last.end_col_offset) == (node.end_lineno, node.end_col_offset):
        return None  # a generator expression that shares the brackets of the call
    last_line, offset = end_of(bracketed(source, last, node))
    column = source.column(last_line, offset)
    return Edit(path, last_line, column, last_line, column, f", {text}")
