"""Analysing an edited file again, as far as the edit can matter: definitions that have nothing to do
with each other are analysed apart, and what one of them gave is kept as long as its text is the same.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.comments import read_comments
from rulvar_lint.core.decls import Module
from rulvar_lint.core.diagnostic import Diagnostic, Edit, Fix, Related
from rulvar_lint.core.partition import groups
from rulvar_lint.core.source import ParseFailure
from rulvar_lint.examine import examine, let_go
from rulvar_lint.units import CtxCallSpan, Unit, WorkflowSpan, call_span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rulvar_lint.core.blocks import Block
    from rulvar_lint.core.machine import Machine
    from rulvar_lint.core.source import Source

_NUMBERED: Final = re.compile(r"\bline (\d+)")
_AMBIGUOUS: Final = re.compile(r"line\s+\d")


class _Lost(Exception):
    """A line is in none of the statements that moved."""


class Part:
    """What one group of statements gave. `lines` are the lines of its statements; `is_plain` tells
    that every line number in a message stands for a line.
    """

    __slots__ = ("edges", "is_plain", "lines", "unit", "words")

    def __init__(
        self, unit: Unit, lines: list[tuple[int, int]], is_plain: bool, edges: set[str], words: set[str]
    ) -> None:
        self.unit = unit
        self.lines = lines
        self.is_plain = is_plain
        self.edges = edges
        self.words = words

    def moved(self, lines: list[tuple[int, int]]) -> Part | None:
        """The same with the statements on other lines; None if that cannot be told without a new
        analysis.
        """
        if lines == self.lines:
            return self
        if not self.is_plain:
            return None
        move = _Move(self.lines, lines)
        try:
            return Part(move.unit(self.unit), lines, True, self.edges, self.words)
        except _Lost:
            return None


class _Move:
    """Statements that went from some lines to others, and everything that names a line."""

    def __init__(self, old: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
        self._ranges = [(first, last, to - first) for (first, last), (to, _) in zip(old, new, strict=True)]

    def line(self, line: int) -> int:
        for first, last, by in self._ranges:
            if first <= line <= last:
                return line + by
        raise _Lost

    def unit(self, unit: Unit) -> Unit:
        made = Unit()
        for (path, line, code), item in unit.findings.items():
            made.findings[(path, self.line(line), code)] = self._finding(item)
        made.used = {(path, self.line(line), code) for path, line, code in unit.used}
        made.workflows = [self._workflow(span) for span in unit.workflows]
        made.calls = [self._call(span) for span in unit.calls or ()]
        return made

    def _finding(self, item: Diagnostic) -> Diagnostic:
        return replace(
            item,
            line=self.line(item.line),
            end_line=self.line(item.end_line),
            message=self._message(item.message),
            related=tuple(self._related(place) for place in item.related),
            fix=self._fix(item.fix),
        )

    def _message(self, text: str) -> str:
        return _NUMBERED.sub(lambda found: f"line {self.line(int(found[1]))}", text)

    def _related(self, place: Related) -> Related:
        return Related(place.path, self.line(place.line), place.column, self._message(place.message))

    def _fix(self, fix: Fix | None) -> Fix | None:
        if fix is None:
            return None
        return Fix(fix.applicability, fix.message, tuple(self._edit(edit) for edit in fix.edits))

    def _edit(self, edit: Edit) -> Edit:
        return replace(edit, line=self.line(edit.line), end_line=self.line(edit.end_line))

    def _workflow(self, span: WorkflowSpan) -> WorkflowSpan:
        return replace(span, line=self.line(span.line), end_line=self.line(span.end_line))

    def _call(self, span: CtxCallSpan) -> CtxCallSpan:
        return replace(
            span,
            line=self.line(span.line),
            end_line=self.line(span.end_line),
            name_line=self.line(span.name_line),
        )


class Parts:
    """The parts of the files that an editor holds."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[str, dict[tuple[Any, ...], Part]] = {}

    def forget(self, paths: Iterable[str]) -> None:
        """Something that the parts of these files rest on has changed, other than their own text."""
        for path in paths:
            self._known.pop(path, None)

    def analyse(self, source: Source) -> Unit | None:
        """The analysis that begins in a file that imports no other file of the project; None if the
        file has to be analysed as a whole.
        """
        blocks = source.blocks()
        if isinstance(blocks, ParseFailure):
            return None
        found = groups(blocks)
        if found is None or len(found[1]) < 2:
            return None
        shared, grouped = found
        comments = read_comments(source)
        whole = Module(source, ast.Module([], []), comments)
        for_all = tuple(tuple(named.code for named in said.codes) for said in comments.file_wide)
        head = (*whole.flags, source.newline, for_all, *(block.identity for block in shared))
        known = self._known.get(source.path, {})
        kept: dict[tuple[Any, ...], Part] = {}
        for group in grouped:
            said = [comments.near(block.first, block.last) for block in group]
            key = (*head, *(block.identity for block in group), *said)
            part = known.get(key)
            if part is not None:
                part = part.moved([(block.first, block.last) for block in group])
            if part is None:
                part = self._run(whole, shared, group)
            if part is None:
                return None
            kept[key] = part
        self._known[source.path] = kept
        return self._together(source.path, kept.values())

    def _run(self, whole: Module, shared: list[Block], group: list[Block]) -> Part | None:
        machine = self._machine
        source = whole.source
        path = source.path
        body = sorted((*shared, *group), key=lambda block: block.first)
        module = Module(source, ast.Module([block.stmt for block in body], []), whole.comments, whole)
        edges, words = machine.edges.take(path), machine.words.pop(path, set())
        try:
            unit, complete = examine(machine, module, path)
            unit.calls = [call_span(source, node, kind) for node, kind in module.ctx_calls.items()]
            made = (machine.edges.take(path), machine.words.pop(path, set()))
        finally:
            machine.edges.take(path)
            for target in edges:
                machine.edges.add(path, target)
            machine.words[path] = words
            let_go(machine, module)
        if not complete:
            return None
        lines = [(block.first, block.last) for block in group]
        text = "\n".join("\n".join(source.lines[first - 1 : last]) for first, last in lines)
        return Part(unit, lines, _AMBIGUOUS.search(text) is None, *made)

    def _together(self, path: str, parts: Iterable[Part]) -> Unit:
        unit = Unit()
        unit.calls = []
        for part in parts:
            unit.findings.update(part.unit.findings)
            unit.used |= part.unit.used
            unit.workflows += part.unit.workflows
            unit.calls += part.unit.calls or ()
            for target in part.edges:
                self._machine.edges.add(path, target)
            if part.words:
                self._machine.words.setdefault(path, set()).update(part.words)
        return unit
