"""What an analysis gave, after the statements it is about went to other lines."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.diagnostic import Diagnostic, Edit, Fix, Related
from rulvar_lint.rules.wording import ending
from rulvar_lint.units import CtxCallSpan, Unit, WorkflowSpan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rulvar_lint.core.findings import Key, Sink

NUMBERED: Final = re.compile(r"\bline (\d+)")
Lines = list[tuple[int, int]]


class LostError(Exception):
    """A line is in none of the statements that moved."""


class Movement:
    """Statements of the file at `path` that went from some lines to others, and everything that
    names a line of that file.
    """

    def __init__(self, path: str, old: Lines, new: Lines) -> None:
        self._path = path
        self._ranges = [(first, last, to - first) for (first, last), (to, _) in zip(old, new, strict=True)]

    def line(self, line: int, path: str | None = None) -> int:
        """Where a line of a file went.

        Raises:
            LostError: nobody knows.
        """
        if path is not None and path != self._path:
            return line
        for first, last, by in self._ranges:
            if first <= line <= last:
                return line + by
        raise LostError

    def sinks(self, sinks: Iterable[Sink]) -> list[Sink]:
        """Where values go."""
        return [(kind, self.line(line, path), path) for kind, line, path in sinks]

    def unit(self, unit: Unit, sinks: dict[Key, list[Sink]]) -> Unit:
        """What an analysis gave. `sinks` tells where the values of its findings go."""
        made = Unit()
        for key, item in unit.findings.items():
            made.findings[self.key(key)] = self._finding(item, sinks.get(key, []))
        made.used = {self.key(key) for key in unit.used}
        made.workflows = [self._workflow(span) for span in unit.workflows]
        made.calls = dict(unit.calls or {})
        made.calls[self._path] = {self._call(span) for span in made.calls.get(self._path, ())}
        return made

    def key(self, key: Key) -> Key:
        """The key of a finding, or of a suppression."""
        path, line, code = key
        return path, self.line(line, path), code

    def _finding(self, item: Diagnostic, sinks: list[Sink]) -> Diagnostic:
        line = self.line(item.line, item.path)
        what = item.message.removesuffix(ending(item.code, sinks, item.line))
        return replace(
            item,
            line=line,
            end_line=self.line(item.end_line, item.path),
            message=self._message(what) + ending(item.code, self.sinks(sinks), line),
            related=tuple(self._related(place) for place in item.related),
            fix=self._fix(item.fix),
        )

    def _message(self, text: str) -> str:
        return NUMBERED.sub(lambda found: f"line {self.line(int(found[1]))}", text)

    def _related(self, place: Related) -> Related:
        line = self.line(place.line, place.path)
        return Related(place.path, line, place.column, self._message(place.message))

    def _fix(self, fix: Fix | None) -> Fix | None:
        if fix is None:
            return None
        return Fix(fix.applicability, fix.message, tuple(self._edit(edit) for edit in fix.edits))

    def _edit(self, edit: Edit) -> Edit:
        return replace(
            edit, line=self.line(edit.line, edit.path), end_line=self.line(edit.end_line, edit.path)
        )

    def _workflow(self, span: WorkflowSpan) -> WorkflowSpan:
        return replace(span, line=self.line(span.line), end_line=self.line(span.end_line))

    def _call(self, span: CtxCallSpan) -> CtxCallSpan:
        return replace(
            span,
            line=self.line(span.line),
            end_line=self.line(span.end_line),
            name_line=self.line(span.name_line),
        )


def is_movable(path: str, item: Diagnostic, sinks: list[Sink]) -> bool:
    """Whether all line numbers in the words of a finding are known to be lines of the file at
    `path`.
    """
    if item.path == path and all(place.path == path for place in item.related):
        return True
    what = item.message.removesuffix(ending(item.code, sinks, item.line))
    return not any(NUMBERED.search(text) for text in (what, *(place.message for place in item.related)))
