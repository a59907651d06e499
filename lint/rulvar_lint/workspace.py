"""The files of a session: what is on disk, what an editor holds, and who imports whom."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.files import ModuleIndex, parents, walk
from rulvar_lint.core.imports import Targets, imported_names
from rulvar_lint.core.source import ParseFailure, Source

if TYPE_CHECKING:
    from rulvar_lint.config import Config

_MARKS: Final = (b"rulvar", b"RLV")
_REPLAYED: Final = re.compile(rb"ctx|workflow|machine|async\s+def")
_TAKES_CTX: Final = re.compile(rb"ctx|await\b")

# So many files are held while all are looked through; the others are read again where need be.
HELD: Final = 2000


class Workspace:
    """The files below a root, read when they are needed and kept until they change.

    Args:
        root: folder that paths are relative to.
        config: which files belong to the project.
        files: paths relative to the root, when they have been listed already.
    """

    def __init__(self, root: Path, config: Config, files: Iterable[str] | None = None) -> None:
        self.root = root
        self.config = config
        self.cassettes: set[str] = set()
        self.overlays: dict[str, bytes] = {}
        self._folder = str(root)
        self._held: dict[str, bytes] | None = None
        self._files = None if files is None else list(files)
        self._index: ModuleIndex | None = None
        self._sources: dict[str, Source] = {}
        self._edited: dict[str, Source] = {}
        self._imports: dict[str, list[str]] = {}
        self._targets: dict[str, frozenset[str]] = {}
        self._marks: dict[str, tuple[bool, bool]] = {}

    def relative(self, path: str | Path) -> str:
        """A path as findings name it: relative to the root, with forward slashes."""
        absolute = Path(path)
        if absolute.is_absolute():
            try:
                absolute = absolute.relative_to(self.root)
            except ValueError:
                try:
                    absolute = absolute.resolve().relative_to(self.root)
                except ValueError:
                    return absolute.as_posix()
        return absolute.as_posix()

    @property
    def index(self) -> ModuleIndex:
        """The Python files of the project."""
        if self._index is None:
            paths = []
            for path in self._list():
                if path.endswith(".py"):
                    paths.append(path)
                elif self.config.is_cassette(path):
                    self.cassettes.add(path)
            self._index = ModuleIndex(paths, self._source_roots(paths))
            for path in self.overlays:
                self.note(path)
        return self._index

    @property
    def is_listed(self) -> bool:
        """Whether the files have been listed yet."""
        return self._index is not None

    def _list(self) -> Iterable[str]:
        if self._files is not None:
            return self._files
        config = self.config
        return [
            path
            for path, _ in walk(self.root, exclude=config.exclude, respect_gitignore=config.respect_gitignore)
        ]

    def _source_roots(self, paths: list[str]) -> list[str]:
        folders = {path.rpartition("/")[0] for path in paths}
        all_folders = {folder for path in folders for folder in parents(path)}
        return [
            *self.config.src,
            *sorted(f for f in all_folders if (self.root / f / "pyproject.toml").is_file()),
        ]

    def note(self, path: str) -> bool:
        """A file exists. Returns whether it is a new Python file."""
        if path.endswith(".py"):
            return self.index.add(path)
        if self.config.is_cassette(path):
            self.cassettes.add(path)
        return False

    def exists(self, path: str) -> bool:
        """Whether there is such a file, on disk or in an editor."""
        return path in self.overlays or (self.root / path).is_file()

    def forget(self, path: str, *, structure: bool) -> None:
        """A file changed; with `structure`, one came or went."""
        source = self._sources.pop(path, None)
        parsed = source.last_parsed() if source is not None else None
        if parsed is not None and path in self.overlays:
            self._edited[path] = parsed
        self._imports.pop(path, None)
        self._marks.pop(path, None)
        if structure:
            self._targets.clear()
        else:
            self._targets.pop(path, None)

    def discard(self, path: str) -> bool:
        """A file is gone. Returns whether it was a known Python file."""
        self.cassettes.discard(path)
        return self.index.remove(path)

    def source(self, path: str) -> Source | None:
        """The text of a file, or None if it cannot be read."""
        found = self._sources.get(path)
        if found is None:
            data = self._read(path)
            return self._sources.get(path) if data is None else self._keep(path, data)
        return found

    def data(self, path: str) -> bytes:
        """The bytes of a file; none if it cannot be read. They are not kept for that."""
        source = self._sources.get(path)
        if source is not None:
            return source.data
        held = self._held
        data = held.get(path) if held is not None else None
        if data is None:
            data = self._read(path) or b""
            if held is not None and len(held) < HELD:
                held[path] = data
        return data

    def _read(self, path: str) -> bytes | None:
        data = self.overlays.get(path)
        if data is None:
            try:
                with open(os.path.join(self._folder, path), "rb", 0) as file:
                    data = file.read()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
            except OSError as err:
                self._sources[path] = Source.unreadable(path, err.strerror or str(err))
        return data

    def _keep(self, path: str, data: bytes) -> Source:
        found = self._sources[path] = Source(path, data, self._edited.pop(path, None))
        return found

    def is_kept(self, path: str) -> bool:
        """Whether the text of a file is known without looking at it again."""
        return path in self._sources

    def is_unreadable(self, path: str) -> bool:
        """Whether there is a file that cannot be read."""
        source = self._sources.get(path)
        return source is not None and source.is_unreadable

    def release(self, path: str) -> None:
        """Forget the tree of a file."""
        source = self._sources.get(path)
        if source is not None:
            source.release_tree()

    # Which files can matter

    def _marked(self, path: str) -> tuple[bool, bool]:
        """Whether a file has something to say to the lint, and whether it mentions rulvar."""
        found = self._marks.get(path)
        if found is None:
            data = self.data(path)
            rulvar = _MARKS[0] in data
            marked = rulvar or _MARKS[1] in data
            if marked and path not in self._sources:
                self._keep(path, data)
            found = self._marks[path] = (marked or self.is_unreadable(path), rulvar)
        return found

    def is_marked(self, path: str) -> bool:
        """Whether a file mentions rulvar or one of its rules."""
        return self._marked(path)[0]

    def is_candidate(self, path: str) -> bool:
        """Whether a file can hold replayed code that is a workflow of its own."""
        if self.is_marked(path):
            return True
        targets = {other for other in self.index if self._marked(other)[1]}
        return self._uses(path, Targets(targets, self.index))

    def candidates(self) -> list[str]:
        """The files that can hold replayed code: those that mention rulvar, and those that import
        from one that does, since a decorator or a type can be handed on.
        """
        paths = sorted(self.index)
        self._held = {}
        try:
            return self._closed(paths)
        finally:
            self._held = None

    def _closed(self, paths: list[str]) -> list[str]:
        found = {path for path in paths if self.is_marked(path)}
        fresh = {path for path in found if self._marked(path)[1]}
        while fresh:
            targets = Targets(fresh, self.index)
            fresh = {path for path in paths if path not in found and self._uses(path, targets)}
            found |= fresh
        return sorted(found)

    def _uses(self, path: str, targets: Targets) -> bool:
        """Whether a file imports one of the targets and may define replayed code. The words of the
        import are looked for first, which is cheap.
        """
        data = self.data(path)
        if not targets.may_be_imported(path, data) or not _REPLAYED.search(data.lower()):
            return False
        return not targets.paths.isdisjoint(self.imported(path))

    def imported(self, path: str) -> frozenset[str]:
        """The files that a file may import."""
        found = self._targets.get(path)
        if found is None:
            targets = (self.index.find(name, path) for name in self._names(path))
            found = self._targets[path] = frozenset(target for target in targets if target)
        return found

    def is_in_circle(self, path: str) -> bool:
        """Whether a file may import itself, perhaps through others."""
        found: set[str] = set()
        todo = [path]
        while todo:
            fresh = self.imported(todo.pop()) - found
            found |= fresh
            todo += fresh
        return path in found

    def _names(self, path: str) -> list[str]:
        found = self._imports.get(path)
        if found is None:
            found = self._imports[path] = imported_names(path, self.data(path))
        return found

    def readers(self, path: str) -> list[str]:
        """The files that mention rulvar and import a file, directly or not, if findings can be
        in it: replayed code can be handed to it, or it does not parse.
        """
        found = {path}
        fresh = {path}
        others = set(self.index) - found
        while fresh:
            fresh = {other for other in others if not fresh.isdisjoint(self.imported(other))}
            others -= fresh
            found |= fresh
        users = sorted(other for other in found if other != path and self._marked(other)[1])
        return users if users and self._can_have_findings(path) else []

    def _can_have_findings(self, path: str) -> bool:
        source = self.source(path)
        if source is None or _TAKES_CTX.search(source.data.lower()) or _MARKS[1] in source.data:
            return True
        return isinstance(source.parse(), ParseFailure)

    def mentions(self, word: str, path: str) -> list[str]:
        """Paths of the files that contain a word and import the module at `path`."""
        data = word.encode()
        return sorted(
            other
            for other in self.index
            if other != path
            and path in self.imported(other)
            and (source := self.source(other)) is not None
            and data in source.data
        )
