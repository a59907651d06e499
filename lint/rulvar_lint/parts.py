"""Analysing an edited file again, as far as the edit can matter: definitions that have nothing to do
with each other are analysed apart, and what one of them gave is kept as long as its text is the same,
and the other files that it rests on.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.comments import read_comments
from rulvar_lint.core.decls import Module
from rulvar_lint.core.ledger import Hidden
from rulvar_lint.core.partition import facts_of, groups
from rulvar_lint.core.source import ParseFailure
from rulvar_lint.core.usage import Usage
from rulvar_lint.examine import examine, let_go
from rulvar_lint.lasting import Watch
from rulvar_lint.movement import Lines, LostError, Movement, is_movable
from rulvar_lint.rules.flow import add_sink
from rulvar_lint.rules.wording import ending
from rulvar_lint.units import Unit, calls_in

if TYPE_CHECKING:
    from rulvar_lint.core.blocks import Block
    from rulvar_lint.core.diagnostic import Diagnostic
    from rulvar_lint.core.effects import Place
    from rulvar_lint.core.findings import Key, Sink
    from rulvar_lint.core.source import Source
    from rulvar_lint.loaded import Loaded

_AMBIGUOUS: Final = re.compile(r"line\s+\d")
Group = tuple[Any, ...]
Origin = tuple[str, "Place"]


class Part:
    """What one group of statements gave.

    Attributes:
        lines: the lines of its statements.
        is_plain: every line number in a message is known to stand for a line of which file.
        edges, words: what the file uses for it.
        sinks: where the values of its findings go.
        origins: the causes of findings that are in other files.
        abroad: where values that come from other files go.
    """

    __slots__ = ("abroad", "edges", "is_plain", "lines", "origins", "sinks", "unit", "words")

    def __init__(self, unit: Unit, lines: Lines, is_plain: bool, edges: set[str], words: set[str]) -> None:
        self.unit = unit
        self.lines = lines
        self.is_plain = is_plain
        self.edges = edges
        self.words = words
        self.sinks: dict[Key, list[Sink]] = {}
        self.origins: dict[Key, Origin] = {}
        self.abroad: dict[Origin, list[Sink]] = {}

    def moved(self, path: str, lines: Lines) -> Part | None:
        """The same with the statements on other lines; None if that cannot be told without a new
        analysis.
        """
        if lines == self.lines:
            return self
        if not self.is_plain:
            return None
        move = Movement(path, self.lines, lines)
        try:
            made = Part(move.unit(self.unit, self.sinks), lines, True, self.edges, self.words)
            made.sinks = {move.key(key): move.sinks(sinks) for key, sinks in self.sinks.items()}
            made.origins = {move.key(key): origin for key, origin in self.origins.items()}
            made.abroad = {origin: move.sinks(sinks) for origin, sinks in self.abroad.items()}
        except LostError:
            return None
        return made


class Kept:
    """The parts of one file.

    Attributes:
        head: what all parts rest on.
        parts: by the text of their statements.
        edges, words: of the other files that were looked at.
        asked: what the file says of the names that other files wanted to know about.
        whole: groups that cannot be analysed apart as long as they stand in the file.
    """

    __slots__ = ("asked", "edges", "head", "parts", "whole", "words")

    def __init__(self, head: Group, whole: frozenset[Group] = frozenset()) -> None:
        self.head = head
        self.parts: dict[Group, Part] = {}
        self.edges: dict[str, set[str]] = {}
        self.words: dict[str, set[str]] = {}
        self.asked: dict[str, object] = {}
        self.whole = whole

    def rests_on(self, path: str, text: bytes) -> bool:
        """Whether a change of another file can matter."""
        if path in self.edges or any(path in part.edges for part in self.parts.values()):
            return True
        words: set[str] = set().union(*self.words.values(), *(part.words for part in self.parts.values()))
        return any(word.encode() in text for word in words)


class Parts:
    """The parts of the files that an editor holds."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._machine = loaded.machine
        self._watch = Watch(loaded)
        self._kept: dict[str, Kept] = {}

    def changed(self, path: str, text: bytes) -> None:
        """A file has another text: forget what rests on it in other files."""
        for name in [name for name, kept in self._kept.items() if name != path and kept.rests_on(path, text)]:
            del self._kept[name]

    def forget(self) -> None:
        """Files came or went."""
        self._kept.clear()

    def analyse(self, source: Source) -> Unit | None:
        """The analysis that begins in a file that no file it imports imports; None if the file has
        to be analysed as a whole.
        """
        blocks = source.blocks()
        if isinstance(blocks, ParseFailure):
            return None
        found = groups(blocks)
        if found is None or len(found[1]) < 2:
            return None
        look = _Look(self._loaded, self._watch, source, blocks, *found)
        unit = look.analyse(self._kept)
        if unit is None and look.is_fresh:
            self._loaded.begin_anew()
        return unit


class _Look:
    """One analysis of one file in parts."""

    def __init__(
        self,
        loaded: Loaded,
        watch: Watch,
        source: Source,
        blocks: list[Block],
        shared: list[Block],
        grouped: list[list[Block]],
    ) -> None:
        self._loaded = loaded
        self._machine = loaded.machine
        self._watch = watch
        self._source = source
        self._path = source.path
        self._blocks = blocks
        self._shared = shared
        self._comments = read_comments(source)
        self._whole = Module(source, ast.Module([], []), self._comments)
        self._groups = {self._key(group): group for group in grouped}
        self.is_fresh = False

    def _head(self) -> Group:
        for_all = tuple(tuple(named.code for named in said.codes) for said in self._comments.file_wide)
        imports = tuple(entry for block in self._blocks for entry in facts_of(block).imports)
        shared = (block.identity for block in self._shared)
        return (*self._whole.flags, self._source.newline, for_all, imports, *shared)

    def _key(self, group: list[Block]) -> Group:
        said = [self._comments.near(block.first, block.last) for block in group]
        return (*(block.identity for block in group), *said)

    def analyse(self, known: dict[str, Kept]) -> Unit | None:
        head = self._head()
        kept = known.get(self._path)
        if kept is None or kept.head != head or not self._still_says(kept.asked):
            kept = known[self._path] = Kept(head)
        if kept.whole and kept.whole <= self._groups.keys():
            return None
        self._loaded.lend(self._path, self._stand_in)
        try:
            return self._from_parts(kept, known)
        finally:
            self._loaded.lend(self._path, None)

    def _from_parts(self, kept: Kept, known: dict[str, Kept]) -> Unit | None:
        found: dict[Group, Part] = {}
        for key, group in self._groups.items():
            part = kept.parts.get(key)
            if part is not None:
                part = part.moved(self._path, [(block.first, block.last) for block in group])
            if part is None:
                part = self._run(group)
            if part is None:
                known[self._path] = Kept(kept.head, frozenset({key}))
                return None
            found[key] = part
        kept.parts = found
        self._remember(kept)
        clash = _Merged(self._path, found)
        if clash.between is not None:
            known[self._path] = Kept(kept.head, clash.between)
            return None
        return clash.unit

    # What the other files see of this one

    def _stand_in(self) -> Module:
        if self._whole.usage is None:
            self._whole.usage = _usage(self._blocks)
        return self._whole

    def _says(self, word: str) -> object:
        usage = self._stand_in().usage
        assert isinstance(usage, Usage)
        return usage.said_of(word)

    def _still_says(self, asked: dict[str, object]) -> bool:
        return all(self._says(word) == said for word, said in asked.items())

    # Running a part

    def _run(self, group: list[Block]) -> Part | None:
        machine = self._machine
        if not self.is_fresh:
            self._loaded.begin_anew()
            self.is_fresh = True
        self._loaded.forget_results()
        body = sorted((*self._shared, *group), key=lambda block: block.first)
        tree = ast.Module([block.stmt for block in body], [])
        module = Module(self._source, tree, self._comments, self._whole)
        module.usage = _usage(body)
        edges, words = machine.edges.take(self._path), machine.words.pop(self._path, set())
        try:
            with self._watch:
                unit, complete = examine(machine, module, self._path)
            unit.calls = {**self._loaded.calls(), self._path: calls_in(module)}
            lines = [(block.first, block.last) for block in group]
            made = Part(
                unit,
                lines,
                self._is_unambiguous(lines),
                machine.edges.take(self._path),
                machine.words.pop(self._path, set()),
            )
            if not complete or self._reaches_out(module):
                return None
            self._note_sinks(made)
        finally:
            machine.edges.take(self._path)
            for target in edges:
                machine.edges.add(self._path, target)
            machine.words[self._path] = words
            let_go(machine, module)
        return made

    def _is_unambiguous(self, lines: Lines) -> bool:
        return not any(
            _AMBIGUOUS.search("\n".join(self._source.lines[first - 1 : last])) for first, last in lines
        )

    def _reaches_out(self, module: Module) -> bool:
        """Whether the statements did something to another file that others may see."""
        machine = self._machine
        return (
            self._watch.has_seen_lasting(self._path)
            or any(by == self._path and decl.module is not module for decl, by in machine.registrars.items())
            or any(isinstance(entry, Hidden) and entry.key[0] != self._path for entry in machine.log)
        )

    def _note_sinks(self, part: Part) -> None:
        machine = self._machine
        for origin, sinks in machine.sinks.items():
            if origin[1].path != self._path:
                part.abroad[origin] = list(sinks.values())
        for key in part.unit.findings:
            finding = machine.findings[key]
            if finding.sinks:
                part.sinks[key] = finding.sinks
            if finding.cause.place.path != self._path:
                part.origins[key] = (finding.cause.code, finding.cause.place)
        if part.is_plain:
            part.is_plain = all(
                is_movable(self._path, item, part.sinks.get(key, []))
                for key, item in part.unit.findings.items()
            )

    def _remember(self, kept: Kept) -> None:
        """What the parts rest on, of this run and of earlier ones, is what the file rests on."""
        edges, words = self._machine.edges, self._machine.words
        for part in kept.parts.values():
            for target in part.edges:
                edges.add(self._path, target)
            if part.words:
                words.setdefault(self._path, set()).update(part.words)
        for name in edges.reached(self._path) - {self._path}:
            kept.edges.setdefault(name, set()).update(edges.targets(name))
            kept.words.setdefault(name, set()).update(words.get(name, ()))
        for name, targets in kept.edges.items():
            for target in targets:
                edges.add(name, target)
        for name, found in kept.words.items():
            if found:
                words.setdefault(name, set()).update(found)
            for word in found - kept.asked.keys():
                kept.asked[word] = self._says(word)


def _usage(blocks: list[Block]) -> Usage:
    usage = Usage([])
    for block in blocks:
        usage.add(facts_of(block).usage)
    return usage


class _Merged:
    """What all parts of a file gave together. `between` names parts that say different things about
    one line of another file.
    """

    def __init__(self, path: str, parts: dict[Group, Part]) -> None:
        self.unit = Unit()
        self.unit.calls = {}
        self.between: frozenset[Group] | None = None
        self._path = path
        self._abroad: dict[Origin, dict[str, Sink]] = {}
        self._by: dict[Key, Group] = {}
        for part in parts.values():
            for origin, sinks in part.abroad.items():
                known = self._abroad.setdefault(origin, {})
                for sink in sinks:
                    add_sink(known, sink)
        for group, part in parts.items():
            self._add(group, part)

    def _add(self, group: Group, part: Part) -> None:
        unit = self.unit
        for key, item in part.unit.findings.items():
            worded = self._worded(part, key, item)
            known = unit.findings.setdefault(key, worded)
            first = self._by.setdefault(key, group)
            if known is not worded and known != worded and key[0] != self._path:
                self.between = frozenset({first, group})
        unit.used |= part.unit.used
        unit.workflows += part.unit.workflows
        calls = unit.calls or {}
        for path, found in (part.unit.calls or {}).items():
            calls.setdefault(path, set()).update(found)
        unit.calls = calls

    def _worded(self, part: Part, key: Key, item: Diagnostic) -> Diagnostic:
        """A finding that other parts share the cause of: its value may go more ways."""
        origin = part.origins.get(key)
        ways = self._abroad.get(origin) if origin is not None else None
        if not ways:
            return item
        mine = part.sinks.get(key, [])
        if len(ways) == len(mine) and all(ways[sink[2]] == sink for sink in mine):
            return item
        what = item.message.removesuffix(ending(item.code, mine, item.line))
        return replace(item, message=what + ending(item.code, ways.values(), item.line))
