"""What the tests of a module say about its calls: the cassettes that they name, and the models that they route to.

The tests of a module are the test files that import it; with the conftest files above them. What one text of a file
says is found out once, and the disk is looked at now and then, so that a stroke of a key costs next to nothing in a
project of thousands of tests.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rulvar_lsp.edge.sources import read_source
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.features.cassette import cassette_links
from rulvar_lsp.features.outline import is_test_file
from rulvar_lsp.features.static_request import imports_module, routed_models
from rulvar_lsp.snapshot import Document
from rulvar_lsp.text import Text

_LOOK_SECONDS = 2.0
_PATIENCE = 50  # a project that takes long to look through is looked through that many times less often
_MOST_FILES = 20_000
_MOST_REMEMBERED = 64
_MOST_BYTES = 32 * 1024 * 1024
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})
CONFTEST = "conftest.py"
_WORD = re.compile(r"\w+")
_MARKED = re.compile(r"""\brulvar_cassette\(\s*(?:name\s*=\s*)?["']([^"'\r\n]+)["']""")

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tests of a module say; `words` are those of each test file."""

    cassettes: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()
    words: tuple[frozenset[str], ...] = ()

    def mention(self, name: str) -> bool:
        """Say whether a test file has a word."""
        return any(name in words for words in self.words)


@dataclass(eq=False)
class _File:
    """A test file or conftest with one text of it."""

    path: str
    text: str
    stamp: Stamp | None = None  # of what was read from disk
    _imports: dict[str, bool] = field(default_factory=dict)
    _cassettes: tuple[int, tuple[str, ...]] = (-1, ())
    _asked: dict[str, bool] = field(default_factory=dict)  # where a cassette may lie, and whether one did
    _own: tuple[str, ...] = ()  # what lay in the file's own folder of cassettes

    def imports(self, stem: str) -> bool:
        if stem not in self._imports:
            self._imports[stem] = imports_module(self.text, stem)
        return self._imports[stem]

    @cached_property
    def models(self) -> frozenset[str]:
        return routed_models(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    def cassettes(self, root: str, look: int) -> tuple[str, ...]:
        """The cassettes that it names and that there were at this look at the disk."""
        if self._cassettes[0] != look:
            self._asked = {}
            place = Document(path_to_uri(self.path), self.path, None, Text(self.text))
            named = [link.path for link in cassette_links(place, [root], {}, self._is_there)]
            if is_test_file(self.path):
                named += filter(self._is_there, _marked(self.path, self.text))
                self._own = _own_cassettes(self.path)
                named += self._own
            self._cassettes = (look, tuple(dict.fromkeys(named)))
        return self._cassettes[1]

    def has_other_cassettes(self) -> bool:
        """Whether one that it names has come or gone since the last look."""
        if any(os.path.isfile(path) != was for path, was in self._asked.items()):
            return True
        return is_test_file(self.path) and _own_cassettes(self.path) != self._own

    def _is_there(self, path: str) -> bool:
        there = self._asked[path] = os.path.isfile(path)
        return there


@dataclass(slots=True)
class _Project:
    files: dict[str, _File] = field(default_factory=dict)
    again: float = 0.0  # when to look at the disk
    look: int = 0  # how often that was done


@dataclass(frozen=True, slots=True)
class _Remembered:
    look: int
    buffers: tuple[_File, ...]
    files: tuple[_File, ...]
    found: Surroundings


class TestFiles:
    """The test files and conftests of projects, on disk and in buffers. Belongs to the worker thread."""

    __test__ = False  # it is no test itself, whatever its name begins with

    def __init__(self) -> None:
        self._projects: dict[str, _Project] = {}
        self._buffers: dict[str, _File] = {}
        self._known: dict[tuple[str, str], _Remembered] = {}

    def look_again(self) -> None:
        """Look at the disk at the next question."""
        for project in self._projects.values():
            project.again = 0.0

    def cassettes_came_or_went(self) -> bool:
        """Forget the modules whose tests name a cassette that was made or deleted since; says whether there was one."""
        stale = [
            key for key, known in self._known.items() if any(one.has_other_cassettes() for one in known.files)
        ]
        for key in stale:
            del self._known[key]
        return bool(stale)

    def around(self, path: str, root: str, buffers: Mapping[str, str]) -> Surroundings:
        """What the tests of a module say; `buffers` are unsaved texts by path."""
        began = time.monotonic()
        project = self._projects.setdefault(root, _Project())
        if began >= project.again:
            _read(project, root)
        self._buffers = {
            one: self._buffer(one, text)
            for one, text in buffers.items()
            if one in project.files or (one == path and is_test_file(one))
        }
        opened = tuple(self._buffers.values())
        known = self._known.pop((root, path), None)
        if known is None or (known.look, known.buffers) != (project.look, opened):
            files = project.files | self._buffers
            tests, above = _around(path, files)
            found = _surroundings(tests, above, root, project.look)
            known = _Remembered(project.look, opened, (*tests, *above), found)
            now = time.monotonic()
            project.again = max(project.again, now + _PATIENCE * (now - began))
        self._known[root, path] = known
        if len(self._known) > _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known.found

    def _buffer(self, path: str, text: str) -> _File:
        known = self._buffers.get(path)
        return known if known is not None and known.text == text else _File(path, text)


def _around(path: str, files: Mapping[str, _File]) -> tuple[list[_File], list[_File]]:
    """The tests of a module, and the conftests above them."""
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem == "__init__":
        stem = os.path.basename(os.path.dirname(path))
    tests = [f for f in files.values() if f.path == path or (is_test_file(f.path) and f.imports(stem))]
    folders = {os.path.dirname(test.path) for test in tests}
    above = [
        f
        for f in files.values()
        if os.path.basename(f.path) == CONFTEST and _is_above(os.path.dirname(f.path), folders)
    ]
    return tests, above


def _surroundings(tests: Sequence[_File], above: Sequence[_File], root: str, look: int) -> Surroundings:
    cassettes: dict[str, None] = {}
    models: set[str] = set()
    for one in (*tests, *above):
        models |= one.models
        cassettes |= dict.fromkeys(one.cassettes(root, look))
    return Surroundings(tuple(cassettes), frozenset(models), tuple(test.words for test in tests))


def _read(project: _Project, root: str) -> None:
    """Look at the disk: a file that is what it was keeps what is known of it."""
    began = time.monotonic()
    found: dict[str, _File] = {}
    for path in _walk(root):
        stamp = stamp_of(path)
        known = project.files.get(path)
        if known is None or known.stamp != stamp:
            known = _File(path, read_source(path, _MOST_BYTES) or "", stamp)
        found[path] = known
    project.files = found
    project.look += 1
    now = time.monotonic()
    project.again = now + max(_LOOK_SECONDS, _PATIENCE * (now - began))


def _walk(root: str) -> Iterable[str]:
    """The test files and conftests below a root; environments, caches and hidden folders are left out."""
    seen = 0
    waiting = [root]
    while waiting and seen < _MOST_FILES:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        seen += len(entries)
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    waiting.append(entry.path)
            elif entry.name == CONFTEST or is_test_file(entry.name):
                yield entry.path


def _is_above(folder: str, folders: Iterable[str]) -> bool:
    return any(one == folder or one.startswith(folder.rstrip("/") + "/") for one in folders)


def _marked(test_file: str, source: str) -> list[str]:
    """Where the cassettes lie that markers of the `cassette` fixture name."""
    folder = os.path.join(os.path.dirname(test_file), "cassettes")
    names = [re.sub(r"(?:\.jsonl)?$", ".jsonl", name) for name in _MARKED.findall(source)]
    return [os.path.join(folder, name) for name in names]


def _own_cassettes(test_file: str) -> tuple[str, ...]:
    """The cassettes in the folder that the `cassette` fixture has for a test file."""
    own = os.path.join(
        os.path.dirname(test_file), "cassettes", os.path.splitext(os.path.basename(test_file))[0]
    )
    try:
        names = sorted(name for name in os.listdir(own) if name.endswith(".jsonl"))
    except OSError:
        return ()
    return tuple(path for name in names if os.path.isfile(path := os.path.join(own, name)))


def stamp_of(path: str) -> Stamp:
    """The time and size of a file, zeros where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
