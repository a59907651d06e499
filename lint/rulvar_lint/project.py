"""A long-lived, incremental analysis session over one project root. It reads files; it never imports them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.config import Config, load
from rulvar_lint.core import region
from rulvar_lint.core.comments import Comments, read_comments
from rulvar_lint.core.decls import Module
from rulvar_lint.core.diagnostic import Diagnostic
from rulvar_lint.core.files import ModuleIndex, walk
from rulvar_lint.core.libraries.catalog import Catalog
from rulvar_lint.core.machine import Machine
from rulvar_lint.core.source import DEEP, ParseFailure, Source
from rulvar_lint.rules import cassettes, hooks
from rulvar_lint.rules import comments as comment_rules
from rulvar_lint.rules.pages import CODES, RULES
from rulvar_lint.rules.wording import word

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl
    from rulvar_lint.core.findings import Key
    from rulvar_lint.core.values import Func

_MARKS: Final = (b"rulvar", b"RLV")
_REPLAYED: Final = re.compile(rb"ctx|workflow|machine", re.I)
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.M
)


@dataclass(frozen=True, slots=True)
class WorkflowSpan:
    """A workflow function: its name, 1-based position, and last line."""

    name: str
    line: int
    column: int
    end_line: int


@dataclass(frozen=True, slots=True)
class CtxCallSpan:
    """A journaled call on ctx. Positions are 1-based, columns in code points, ends exclusive.

    Attributes:
        kind: "agent", "step", "workflow", "await_external", "parallel" or "pipeline".
        label, agent_type: as written, if they are literals.
    """

    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    name_line: int
    name_column: int
    name_end_column: int
    label: str | None
    agent_type: str | None


class Unit:
    """What the analysis that begins in one file gave."""

    __slots__ = ("deps", "findings", "reached", "used", "words", "workflows")

    def __init__(self) -> None:
        self.findings: dict[Key, Diagnostic] = {}
        self.used: set[Key] = set()
        self.deps: frozenset[str] = frozenset()
        self.reached: frozenset[str] = frozenset()
        self.words: frozenset[str] = frozenset()
        self.workflows: list[WorkflowSpan] = []

    def to_json(self) -> dict[str, Any]:
        """The unit as the cache keeps it."""
        return {
            "findings": [item.to_json() for item in self.findings.values()],
            "used": sorted(self.used),
            "deps": sorted(self.deps),
            "reached": sorted(self.reached),
            "words": sorted(self.words),
            "workflows": [[w.name, w.line, w.column, w.end_line] for w in self.workflows],
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Unit:
        """The unit that `to_json` wrote."""
        unit = Unit()
        for entry in data["findings"]:
            item = Diagnostic.from_json(entry)
            unit.findings[(item.path, item.line, item.code)] = item
        unit.used = {(path, line, code) for path, line, code in data["used"]}
        unit.deps = frozenset(data["deps"])
        unit.reached = frozenset(data["reached"])
        unit.words = frozenset(data["words"])
        unit.workflows = [WorkflowSpan(*entry) for entry in data["workflows"]]
        return unit


class Project:
    """A session over one project root.

    Args:
        root: folder that paths are relative to.
        config: settings; None reads `[tool.rulvar.lint]` of the root's pyproject.toml.
        files: paths relative to the root, when they have been listed already.

    Raises:
        ConfigError: the configuration cannot be used.
    """

    def __init__(self, root: Path, config: Config | None = None, files: Iterable[str] | None = None) -> None:
        self.root = Path(root).resolve()
        self.config = load(self.root, CODES) if config is None else config
        self._overlays: dict[str, bytes] = {}
        self._sources: dict[str, Source] = {}
        self._modules: dict[str, Module | None] = {}
        self._units: dict[str, Unit] = {}
        self._index: ModuleIndex | None = None
        self._files = None if files is None else list(files)
        self._cassettes: set[str] = set()
        self._catalog = Catalog(dict(self.config.effects))
        self._machine = Machine(self, self._catalog, hooks())

    # Files

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
            config = self.config
            for path in self._list():
                if path.endswith(".py"):
                    paths.append(path)
                elif config.is_cassette(path):
                    self._cassettes.add(path)
            self._index = ModuleIndex(paths, self._source_roots(paths))
            for path in self._overlays:
                self._note(path)
        return self._index

    def _list(self) -> Iterable[str]:
        if self._files is not None:
            return self._files
        config = self.config
        return [path for path, _ in walk(self.root, exclude=config.exclude, respect_gitignore=config.respect_gitignore)]

    def _source_roots(self, paths: list[str]) -> list[str]:
        roots = list(self.config.src)
        folders = {path.rpartition("/")[0] for path in paths}
        parents = {folder for path in folders for folder in _parents(path)}
        roots += sorted(folder for folder in parents if folder and (self.root / folder / "pyproject.toml").is_file())
        return roots

    def _note(self, path: str) -> bool:
        """A file exists. Returns whether it is new."""
        if path.endswith(".py"):
            return self.index.add(path)
        if self.config.is_cassette(path) and path not in self._cassettes:
            self._cassettes.add(path)
        return False

    def set_text(self, path: str | Path, text: str | None) -> None:
        """Use `text` for a file instead of what is on disk; None goes back to the disk."""
        name = self.relative(path)
        if text is None:
            if self._overlays.pop(name, None) is not None:
                self.invalidate(name)
            return
        data = text.encode("utf-8", "surrogatepass")
        if self._overlays.get(name) == data:
            return
        self._overlays[name] = data
        if self._index is not None:
            self._changed(name, self._note(name))

    def invalidate(self, path: str | Path) -> None:
        """A file was changed, created or deleted on disk."""
        name = self.relative(path)
        if self._index is None:
            return
        exists = name in self._overlays or (self.root / name).is_file()
        appeared = self._note(name) if exists else self.index.remove(name)
        if not exists:
            self._cassettes.discard(name)
        self._changed(name, appeared)

    def _changed(self, path: str, structure: bool) -> None:
        self._sources.pop(path, None)
        if structure:
            stale = set(self._modules) | {path}
        else:
            stale = self._dependents(path)
        for name in stale:
            module = self._modules.pop(name, None)
            self._units.pop(name, None)
            self._machine.edges.pop(name, None)
            if module is None:
                continue
            for decl in module.decls.values():
                self._machine.registered.pop(decl, None)
        registrars = self._machine.registrars
        for decl in [decl for decl, by in registrars.items() if by in stale]:
            self._machine.registered.pop(decl, None)
            del registrars[decl]
        words = self._sources_text(path)
        for name, unit in list(self._units.items()):
            if unit.deps & stale or any(word_.encode() in words for word_ in unit.words):
                del self._units[name]
                for dep in unit.deps:
                    module = self._modules.get(dep)
                    if module is not None:
                        module.changed_names.clear()

    def _sources_text(self, path: str) -> bytes:
        source = self.source(path)
        return source.data if source is not None else b""

    def _dependents(self, path: str) -> set[str]:
        """The file and all that use it, directly or not."""
        users: dict[str, set[str]] = {}
        for name, targets in self._machine.edges.items():
            for target in targets:
                users.setdefault(target, set()).add(name)
        found = {path}
        todo = [path]
        while todo:
            for user in users.get(todo.pop(), ()):
                if user not in found:
                    found.add(user)
                    todo.append(user)
        return found

    def source(self, path: str) -> Source | None:
        """The text of a file, or None if it cannot be read."""
        found = self._sources.get(path)
        if found is None:
            data = self._overlays.get(path)
            if data is None:
                try:
                    data = (self.root / path).read_bytes()
                except OSError:
                    return None
            found = self._sources[path] = Source(path, data)
        return found

    # What the interpreter asks for

    def find(self, name: str, importer: str) -> str | None:
        """The path of a module."""
        return self.index.find(name, importer)

    def module(self, path: str) -> Module | None:
        """The parsed module at `path`."""
        if path not in self._modules:
            source = self.source(path)
            tree = source.parse() if source is not None else None
            if source is None or not isinstance(tree, ast.Module):
                self._modules[path] = None
            else:
                self._modules[path] = Module(source, tree, read_comments(source))
        return self._modules[path]

    def mentions(self, word_: str) -> list[str]:
        """Paths of the files whose text contains a word."""
        data = word_.encode()
        return sorted(path for path in self.index if data in self._sources_text(path))

    # Analysis

    def _is_candidate(self, path: str) -> bool:
        data = self._sources_text(path)
        return any(mark in data for mark in _MARKS) or self._uses(path, data, self._marked())

    def _marked(self) -> set[str]:
        """The files that mention rulvar."""
        return {path for path in self.index if b"rulvar" in self._sources_text(path)}

    def candidates(self) -> list[str]:
        """The files that can hold replayed code: those that mention rulvar, and those that import from one that
        does, since a decorator or a type can be handed on."""
        texts = {path: self._sources_text(path) for path in sorted(self.index)}
        found = {path for path, data in texts.items() if any(mark in data for mark in _MARKS)}
        fresh = {path for path in found if b"rulvar" in texts[path]}
        while fresh:
            fresh = {path for path, data in texts.items() if path not in found and self._uses(path, data, fresh)}
            found |= fresh
        return sorted(found)

    def _uses(self, path: str, data: bytes, targets: set[str]) -> bool:
        """Whether a file imports one of the targets and may define replayed code."""
        if not targets or not _REPLAYED.search(data):
            return False
        for name in imported_names(path, data):
            if self.index.find(name, path) in targets:
                return True
        return False

    def unit(self, path: str) -> Unit:
        """The analysis that begins in one file."""
        found = self._units.get(path)
        if found is None:
            found = self._units[path] = self._analyse(path)
        return found

    def _analyse(self, path: str) -> Unit:
        unit = Unit()
        machine = self._machine
        machine.findings = {}
        machine.used = unit.used
        machine.log = []
        machine.region_files = set()
        module = self.module(path)
        if module is not None:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(limit, DEEP))
            try:
                self._run_roots(module, unit)
            except RecursionError:
                pass
            finally:
                sys.setrecursionlimit(limit)
        unit.findings = {key: word(finding) for key, finding in machine.findings.items()}
        unit.reached = frozenset(machine.region_files | {path})
        unit.deps = frozenset(_closure(machine.edges, path))
        unit.words = frozenset(word_ for name in unit.deps for word_ in machine.words.get(name, ()))
        return unit

    def _run_roots(self, module: Module, unit: Unit) -> None:
        machine = self._machine
        found: list[Func] = region.roots(machine, module)
        if module.is_test and b"replay" in module.source.data:
            region.run_all_hosts(machine, module)
        for func in found:
            region.analyse(machine, func)
        unit.workflows = [
            _workflow(decl)
            for decl in machine.registered
            if decl.module is module and decl.flags & {"workflow", "transition", "machine"}
        ]

    # Results

    def check_file(self, path: str | Path) -> list[Diagnostic]:
        """The findings located in one file, direct and transitive ones."""
        name = self.relative(path)
        if self.config.is_cassette(name):
            source = self.source(name)
            return self._filter(cassettes.check_cassette(source)) if source is not None else []
        self._ensure(name)
        for other in self._readers(name):
            self.unit(other)
        if self._is_candidate(name):
            self.unit(name)
        units = [unit for unit in self._units.values() if name in unit.deps]
        return self._diagnostics(name, units, {entry for unit in units for entry in unit.used})

    def _readers(self, name: str) -> list[str]:
        """Files that may reach into this one: they mention its module by name."""
        parts = name.removesuffix(".py").split("/")
        stem = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]
        return [path for path in self.mentions(stem) if path != name and b"rulvar" in self._sources_text(path)]

    def _ensure(self, name: str) -> None:
        if name not in self.index:
            self._note(name)

    def check(self, paths: Iterable[str | Path] | None = None) -> list[Diagnostic]:
        """The findings of the whole project, or of the given files and folders."""
        wanted = None if paths is None else [self.relative(path) for path in paths]
        for name in wanted or ():
            if name not in self.index and (name in self._overlays or (self.root / name).is_file()):
                self._note(name)
        report = self.report({path: self.unit(path) for path in self.candidates()})
        found = [
            item
            for path, items in report.items()
            if wanted is None or _is_wanted(path, wanted)
            for item in items
        ]
        return sorted(found, key=lambda item: item.sort_key)

    def units(self, paths: Iterable[str], *, release: bool = False) -> dict[str, Unit]:
        """The analyses that begin in the given files. With `release`, what only they needed is forgotten."""
        found = {}
        for path in paths:
            found[path] = self.unit(path)
            if release:
                self._release(path)
        return found

    def _release(self, path: str) -> None:
        """Forget the tree of a file that nothing else has used."""
        if any(path in targets for targets in self._machine.edges.values()):
            return
        module = self._modules.get(path)
        if module is None:
            return
        for decl in module.decls.values():
            self._machine.registered.pop(decl, None)
            self._machine.registrars.pop(decl, None)
        del self._modules[path]
        self._machine.log = []
        self._machine.findings = {}
        source = self._sources.get(path)
        if source is not None:
            source.release_tree()

    def report(self, units: dict[str, Unit]) -> dict[str, list[Diagnostic]]:
        """Path to the findings in it, for all files that have any."""
        by_path: dict[str, list[Unit]] = {}
        used: set[Key] = set()
        for unit in units.values():
            used |= unit.used
            for path in {key[0] for key in unit.findings}:
                by_path.setdefault(path, []).append(unit)
        found: dict[str, list[Diagnostic]] = {}
        for path in sorted(units.keys() | by_path.keys()):
            items = self._diagnostics(path, by_path.get(path, []), set(used))
            if items:
                found[path] = items
        for path in sorted(self._cassettes):
            source = self.source(path)
            items = self._filter(cassettes.check_cassette(source)) if source is not None else []
            if items:
                found[path] = items
        return found

    def _diagnostics(self, path: str, units: Iterable[Unit], used: set[Key]) -> list[Diagnostic]:
        source = self.source(path)
        if source is None:
            return []
        merged: dict[Key, Diagnostic] = {}
        for unit in units:
            for key, finding in unit.findings.items():
                if key[0] == path:
                    merged.setdefault(key, finding)
        if not merged and not any(mark in source.data for mark in _MARKS):
            return []
        module = self._modules.get(path)
        if module is None:
            tree = source.parse()
            if isinstance(tree, ParseFailure):
                return self._filter([comment_rules.syntax_error(source, tree)])
        comments = module.comments if module is not None else read_comments(source)
        found = self._unsuppressed(merged, comments, used)
        found += comment_rules.judge(source, comments, used, CODES, self._is_on)
        return sorted(self._filter(found), key=lambda item: item.sort_key)

    def _unsuppressed(self, findings: dict[Key, Diagnostic], comments: Comments, used: set[Key]) -> list[Diagnostic]:
        found = []
        for (path, line, code), finding in findings.items():
            if not self._is_on(code):
                continue
            hits = comments.matching(line, code)
            if hits:
                used.update((path, at, name) for at, name in hits)
            else:
                found.append(finding)
        return found

    def _is_on(self, code: str) -> bool:
        return self.config.is_selected(code, RULES[code].default_on)

    def _filter(self, found: list[Diagnostic]) -> list[Diagnostic]:
        return [
            item for item in found if self._is_on(item.code) and not self.config.is_ignored_in(item.path, item.code)
        ]

    # For editors

    def workflows(self, path: str | Path) -> list[WorkflowSpan]:
        """The workflow functions that are defined in a file."""
        name = self.relative(path)
        self._ensure(name)
        if not self._is_candidate(name):
            return []
        return sorted(self.unit(name).workflows, key=lambda span: (span.line, span.column))

    def ctx_calls(self, path: str | Path) -> list[CtxCallSpan]:
        """The journaled calls on ctx in a file."""
        name = self.relative(path)
        self._ensure(name)
        if not self._is_candidate(name):
            return []
        self.unit(name)
        module = self._modules.get(name)
        if module is None:
            return []
        found = [_span(module.source, node, kind) for node, kind in module.ctx_calls.items()]
        return sorted(found, key=lambda span: (span.line, span.column))


def _workflow(decl: FunctionDecl) -> WorkflowSpan:
    node = decl.node
    column = decl.module.source.column(node.lineno, node.col_offset)
    return WorkflowSpan(decl.qualname, node.lineno, column, node.end_lineno or node.lineno)


def _span(source: Source, node: ast.Call, kind: str) -> CtxCallSpan:
    func = node.func
    name_line = func.end_lineno or node.lineno
    name_end = source.column(name_line, func.end_col_offset or 0)
    width = len(func.attr) if isinstance(func, ast.Attribute) else name_end - source.column(func.lineno, func.col_offset)
    texts = {
        keyword.arg: keyword.value.value
        for keyword in node.keywords
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }
    first = node.args[0] if node.args else None
    if kind == "step" and isinstance(first, ast.Constant) and isinstance(first.value, str):
        texts.setdefault("label", first.value)
    return CtxCallSpan(
        kind,
        node.lineno,
        source.column(node.lineno, node.col_offset),
        node.end_lineno or node.lineno,
        source.column(node.end_lineno or node.lineno, node.end_col_offset or 0),
        name_line,
        name_end - width,
        name_end,
        texts.get("label"),
        texts.get("agent_type"),
    )


def imported_names(path: str, data: bytes) -> list[str]:
    """Names of the modules that a file may import, read off its text."""
    found: list[str] = []
    for match in _IMPORT.finditer(data):
        if match[3] is not None:
            found += [part.split()[0] for part in match[3].decode("utf-8", "replace").split(",") if part.split()]
            continue
        base = match[1].decode("utf-8", "replace")
        if base.startswith("."):
            level = len(base) - len(base.lstrip("."))
            folders = path.split("/")[:-1]
            kept = folders[: len(folders) - (level - 1)]
            base = "/" + "/".join([*kept, *base[level:].split(".")] if base[level:] else kept)
        found.append(base)
        names = re.findall(r"\w+", match[2].decode("utf-8", "replace"))
        found += [f"{base}.{name}" for name in names if name != "as"]
    return found


def _closure(edges: dict[str, set[str]], path: str) -> set[str]:
    found = {path}
    todo = [path]
    while todo:
        for target in edges.get(todo.pop(), ()):
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def _parents(folder: str) -> list[str]:
    found = []
    while folder:
        found.append(folder)
        folder = folder.rpartition("/")[0]
    return found


def _is_wanted(path: str, wanted: list[str]) -> bool:
    return any(name in (".", "") or path == name or path.startswith(f"{name}/") for name in wanted)


def lint_source(text: str, path: str = "<string>", config: Config | None = None) -> list[Diagnostic]:
    """The findings of one file with no project around it."""
    project = Project(Path("/nonexistent-rulvar-root"), config or Config())
    name = path if path.endswith((".py", ".jsonl")) else f"{path}.py"
    project._index = ModuleIndex([])
    project.set_text(name, text)
    found = project.check_file(name)
    return found if name == path else [_renamed(item, path) for item in found]


def _renamed(item: Diagnostic, path: str) -> Diagnostic:
    from dataclasses import replace

    return replace(item, path=path)


def lint_paths(
    paths: Iterable[str | Path], root: Path | None = None, config: Config | None = None
) -> list[Diagnostic]:
    """The findings of files and folders in the project at `root` (the current folder if not given)."""
    return Project(root or Path.cwd(), config).check(paths)
