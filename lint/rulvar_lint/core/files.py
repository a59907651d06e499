"""The files of a project: which there are, and which one a module name means."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ignore import DEFAULT_EXCLUDE, GitIgnore, ignored, matches

if TYPE_CHECKING:
    from pathlib import Path

PYTHON: Final = ".py"
PACKAGE: Final = "/__init__.py"
CONFIG: Final = "pyproject.toml"


def walk(
    root: str | Path,
    start: str = "",
    *,
    exclude: tuple[str, ...] = (),
    respect_gitignore: bool = True,
    suffixes: tuple[str, ...] = (".py", ".jsonl", CONFIG),
) -> Iterator[tuple[str, os.stat_result]]:
    """(path relative to `root`, status) of the files below `root / start`, in no certain order."""
    names = set(DEFAULT_EXCLUDE) | {name for name in exclude if not set(name) & set("*?[/")}
    globs = [name for name in exclude if set(name) & set("*?[/")]
    base = str(root)
    first = _ignores_above(base, start) if respect_gitignore else []
    todo: list[tuple[str, list[GitIgnore]]] = [(start, first)]
    while todo:
        folder, rules = todo.pop()
        prefix = f"{folder}/" if folder else ""
        try:
            entries = list(os.scandir(os.path.join(base, folder) if folder else base))
        except OSError:
            continue
        if respect_gitignore and any(entry.name == ".gitignore" for entry in entries):
            rules = [*rules, *_read_ignore(base, folder)]
        for entry in entries:
            name = entry.name
            path = prefix + name
            try:
                is_dir = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if is_dir:
                if name in names or any(matches(glob, path) for glob in globs):
                    continue
                if not (rules and ignored(rules, path, True)):
                    todo.append((path, rules))
            elif name.endswith(suffixes) and not (rules and ignored(rules, path, False)):
                if name in names or any(matches(glob, path) for glob in globs):
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield path, status


def _read_ignore(root: str, folder: str) -> list[GitIgnore]:
    name = os.path.join(root, folder, ".gitignore")
    if not os.path.isfile(name):
        return []
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    return [GitIgnore(folder, text)]


def _ignores_above(root: str, start: str) -> list[GitIgnore]:
    found: list[GitIgnore] = []
    if start:
        parts = start.split("/")
        for end in range(len(parts)):
            found += _read_ignore(root, "/".join(parts[:end]))
    return found


class ModuleIndex:
    """Module names to files, the way an interpreter would find them, without asking the disk.

    A name that starts with "/" is a path, as relative imports give it. Others are looked for from
    the folder of the importing file upwards to the project root, then in `src` folders, the
    folders that have a `pyproject.toml`, and the configured source folders.
    """

    __slots__ = ("_cache", "_extra", "_folders", "_paths")

    def __init__(self, paths: Iterable[str], extra_roots: Iterable[str] = ()) -> None:
        self._paths: set[str] = set()
        self._folders: dict[str, int] = {}
        self._extra: list[str] = list(extra_roots)
        self._cache: dict[tuple[str, str], str | None] = {}
        for path in paths:
            self.add(path)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def add(self, path: str) -> bool:
        """Add a file. Returns whether it is new."""
        if path in self._paths:
            return False
        self._paths.add(path)
        for folder in parents(path.rpartition("/")[0]):
            self._folders[folder] = self._folders.get(folder, 0) + 1
        self._cache.clear()
        return True

    def remove(self, path: str) -> bool:
        """Remove a file. Returns whether it was there."""
        if path not in self._paths:
            return False
        self._paths.discard(path)
        for folder in parents(path.rpartition("/")[0]):
            self._folders[folder] -= 1
            if not self._folders[folder]:
                del self._folders[folder]
        self._cache.clear()
        return True

    def find(self, name: str, importer: str) -> str | None:
        """The file of a module; "" for a package without `__init__.py`; None if it is not in the
        project.
        """
        folder = importer.rpartition("/")[0]
        key = (name, folder)
        if key not in self._cache:
            self._cache[key] = self._find(name, folder)
        return self._cache[key]

    def _find(self, name: str, folder: str) -> str | None:
        if not name or name.startswith("."):
            return None
        if name.startswith("/"):
            return self._at(name[1:])
        relative = name.replace(".", "/")
        namespace: str | None = None
        for root in self.roots(folder):
            base = f"{root}/{relative}" if root else relative
            if base + PACKAGE in self._paths:
                return base + PACKAGE
            if base + PYTHON in self._paths:
                return base + PYTHON
            if base in self._folders and namespace is None:
                namespace = ""
        return namespace

    def _at(self, name: str) -> str | None:
        """The file of a module that is named by its path, as relative imports are."""
        folder, _, last = name.rpartition("/")
        base = f"{folder}/{last.replace('.', '/')}" if folder else last.replace(".", "/")
        if base + PYTHON in self._paths:
            return base + PYTHON
        if base + PACKAGE in self._paths or (not base and PACKAGE[1:] in self._paths):
            return base + PACKAGE
        return "" if base in self._folders or not base else None

    def roots(self, folder: str) -> list[str]:
        """Folders that module names may begin in, as seen from `folder`; the folder of a package
        is none of them.
        """
        found: list[str] = []
        while folder:
            if folder + PACKAGE not in self._paths:
                found.append(folder)
            folder = folder.rpartition("/")[0]
        found.append("")
        for base in [*found, *self._extra]:
            source = f"{base}/src" if base else "src"
            if source in self._folders and source not in found:
                found.append(source)
        return [*found, *(root for root in self._extra if root not in found)]


def parents(folder: str) -> Iterator[str]:
    """A folder and those above it, without the root."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def is_wanted(path: str, wanted: Iterable[str]) -> bool:
    """Whether a path is one of those named, or below one."""
    return any(name in (".", "") or path == name or path.startswith(f"{name}/") for name in wanted)
