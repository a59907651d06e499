"""A long-lived, incremental analysis session over one project root. It reads files; it never
imports them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rulvar_lint.config import Config, load
from rulvar_lint.core.comments import Comments, read_comments
from rulvar_lint.core.diagnostic import Diagnostic
from rulvar_lint.core.files import is_wanted
from rulvar_lint.core.libraries.catalog import Catalog
from rulvar_lint.core.source import ParseFailure, encode
from rulvar_lint.core.syntax import no_collection
from rulvar_lint.examine import examine
from rulvar_lint.loaded import Loaded
from rulvar_lint.rules import cassettes
from rulvar_lint.rules import comments as comment_rules
from rulvar_lint.rules.families import hooks
from rulvar_lint.rules.pages import CODES, RULES
from rulvar_lint.units import CtxCallSpan, Unit, WorkflowSpan
from rulvar_lint.workspace import Workspace

if TYPE_CHECKING:
    from rulvar_lint.core.findings import Key
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.parts import Parts

# What an analysis keeps has no cycles to look for, so the collector is told to pass over it; after
# so many analyses it looks at everything once, for the sake of the program around this session.
LOOK_EVERY: Final = 500


class Project:
    """A session over one project root.

    Args:
        root: folder that paths are relative to.
        config: settings; None reads `[tool.rulvar.lint]` of the root's pyproject.toml.
        files: paths relative to the root, when they have been listed already.
        workspace: the files, when they have been looked at already, with the same settings.

    Raises:
        ConfigError: the configuration cannot be used.
    """

    def __init__(
        self,
        root: Path,
        config: Config | None = None,
        files: Iterable[str] | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self.root = Path(root).resolve()
        self.config = load(self.root, CODES) if config is None else config
        self.workspace = workspace or Workspace(self.root, self.config, files)
        self._selected = frozenset(
            code for code, rule in RULES.items() if self.config.is_selected(code, rule.default_on)
        )
        self._units: dict[str, Unit] = {}
        self._analyses = 0
        catalog = Catalog(dict(self.config.effects))
        self._loaded = Loaded(self.workspace, catalog, hooks(self._selected))
        self._machine = self._loaded.machine
        self._parts: Parts | None = None
        self._is_listening = False

    # Files

    def set_text(self, path: str | Path, text: str | None) -> None:
        """Use `text` for a file instead of what is on disk; None goes back to the disk."""
        workspace = self.workspace
        name = workspace.relative(path)
        if text is None:
            if workspace.overlays.pop(name, None) is not None:
                self.invalidate(name)
            return
        data = encode(text)
        if workspace.overlays.get(name) == data:
            return
        workspace.overlays[name] = data
        if workspace.is_listed:
            self._changed(name, workspace.note(name))

    def invalidate(self, path: str | Path) -> None:
        """A file was changed, created or deleted on disk."""
        workspace = self.workspace
        name = workspace.relative(path)
        if workspace.is_listed:
            exists = workspace.exists(name)
            self._changed(name, workspace.note(name) if exists else workspace.discard(name))

    def _changed(self, path: str, structure: bool) -> None:
        self.workspace.forget(path, structure=structure)
        if structure:
            stale = {path, *self._loaded.paths(), *self._units}
        else:
            stale = self._machine.edges.reaching(path)
        text = self.workspace.data(path)
        words = self._machine.words
        for name in [name for name, found in words.items() if any(word.encode() in text for word in found)]:
            stale |= self._machine.edges.reaching(name)
        if self._parts is not None and structure:
            self._parts.forget()
        elif self._parts is not None:
            self._parts.changed(path, text)
        for name in stale:
            self._units.pop(name, None)
        for name, unit in list(self._units.items()):
            if unit.deps & stale or any(word.encode() in text for word in unit.words):
                del self._units[name]
        self._loaded.drop(stale)

    # Analysis

    def unit(self, path: str) -> Unit:
        """The analysis that begins in one file."""
        found = self._units.get(path)
        if found is None:
            is_collecting = gc.isenabled()
            with no_collection():
                found = self._units[path] = self._analyse(path)
                if is_collecting:
                    self._settle()
        return found

    def _unit_alone(self, path: str) -> Unit:
        """The same, whatever was looked at before."""
        if path not in self._units:
            self._loaded.begin_anew()
            unit = self.unit(path)
            if unit.calls is None:
                unit.calls = self._loaded.calls()
        return self._units[path]

    def _settle(self) -> None:
        self._analyses += 1
        if self._analyses % LOOK_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()

    def _analyse(self, path: str) -> Unit:
        machine = self._machine
        unit = self._in_parts(path) or examine(machine, self._loaded.module(path), path)[0]
        unit.deps = frozenset(machine.edges.reached(path))
        for name in unit.deps:
            if self._loaded.is_broken(name):
                self._broken(unit, name)
        unit.words = frozenset(word for name in unit.deps for word in machine.words.get(name, ()))
        return unit

    def _in_parts(self, path: str) -> Unit | None:
        """The analysis of a file that an editor holds, made of what did not change."""
        workspace = self.workspace
        source = workspace.source(path) if path in workspace.overlays else None
        if source is None or self._is_listening or workspace.is_in_circle(path):
            return None
        if self._parts is None:
            from rulvar_lint.parts import Parts  # only editors need them

            self._parts = Parts(self._loaded)
        return self._parts.analyse(source)

    def _broken(self, unit: Unit, path: str) -> None:
        source = self.workspace.source(path)
        failure = source.parse() if source is not None else None
        if source is not None and isinstance(failure, ParseFailure):
            item = comment_rules.syntax_error(source, failure)
            unit.findings[(path, item.line, item.code)] = item

    def listen_to_regions(self, listener: Callable[[Frame], None]) -> None:
        """Call `listener` after each replayed function has been interpreted."""
        self._is_listening = True
        self._machine.hooks.region_end.append(listener)

    # Results

    def check_file(self, path: str | Path) -> list[Diagnostic]:
        """The findings located in one file, direct and transitive ones."""
        name = self._known(path)
        if self.config.is_cassette(name):
            source = self.workspace.source(name)
            return self._filter(cassettes.check_cassette(source)) if source is not None else []
        for other in self.workspace.readers(name):
            self._unit_alone(other)
        if self.workspace.is_candidate(name):
            self._unit_alone(name)
        units = [self._units[other] for other in sorted(self._units) if name in self._units[other].deps]
        return self._diagnostics(name, units, {entry for unit in units for entry in unit.used})

    def _known(self, path: str | Path) -> str:
        """The name of a file, which belongs to the project from now on."""
        name = self.workspace.relative(path)
        if name not in self.workspace.index:
            self.workspace.note(name)
        return name

    def candidates(self) -> list[str]:
        """The files that can hold findings, relative to the root."""
        return self.workspace.candidates()

    def check(self, paths: Iterable[str | Path] | None = None) -> list[Diagnostic]:
        """The findings of the whole project, or of the given files and folders."""
        workspace = self.workspace
        wanted = None if paths is None else [workspace.relative(path) for path in paths]
        for name in wanted or ():
            if workspace.exists(name):
                self._known(name)
        named = {name for name in wanted or () if name in workspace.index}
        chosen = sorted({*workspace.candidates(), *named})
        report = self.report({path: self.unit(path) for path in chosen})
        found = [
            item
            for path, items in report.items()
            if wanted is None or is_wanted(path, wanted)
            for item in items
        ]
        return sorted(found, key=lambda item: item.sort_key)

    def workflow_count(self) -> int:
        """How many workflow functions the analysed files define."""
        return sum(len(unit.workflows) for unit in self._units.values())

    def units(self, paths: Iterable[str], *, release: bool = False) -> dict[str, Unit]:
        """The analyses that begin in the given files. With `release`, what only they needed is
        forgotten.
        """
        found = {}
        with no_collection():
            for path in paths:
                found[path] = self.unit(path)
                if release:
                    self._loaded.release(path)
            if release:
                gc.freeze()
        return found

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
        for path in sorted(self.workspace.cassettes):
            source = self.workspace.source(path)
            items = self._filter(cassettes.check_cassette(source)) if source is not None else []
            if items:
                found[path] = items
        return found

    def _diagnostics(self, path: str, units: Iterable[Unit], used: set[Key]) -> list[Diagnostic]:
        source = self.workspace.source(path)
        if source is None:
            return []
        merged: dict[Key, Diagnostic] = {}
        for unit in units:
            for key, finding in unit.findings.items():
                if key[0] == path:
                    merged.setdefault(key, finding)
        if not merged and not self.workspace.is_marked(path):
            return []
        if any(code == "RLV001" for _, _, code in merged):
            return self._filter(list(merged.values()))
        module = self._loaded.known(path)
        comments = module.comments if module is not None else read_comments(source)
        found = self._unsuppressed(merged, comments, used)
        found += comment_rules.judge(source, comments, used, CODES, self._is_on)
        return sorted(self._filter(found), key=lambda item: item.sort_key)

    def _unsuppressed(
        self, findings: dict[Key, Diagnostic], comments: Comments, used: set[Key]
    ) -> list[Diagnostic]:
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
        return code in self._selected

    def _filter(self, found: list[Diagnostic]) -> list[Diagnostic]:
        return [
            item
            for item in found
            if self._is_on(item.code) and not self.config.is_ignored_in(item.path, item.code)
        ]

    # For editors

    def workflows(self, path: str | Path) -> list[WorkflowSpan]:
        """The workflow functions that are defined in a file."""
        name = self._known(path)
        if not self.workspace.is_candidate(name):
            return []
        return sorted(self._unit_alone(name).workflows, key=lambda span: (span.line, span.column))

    def ctx_calls(self, path: str | Path) -> list[CtxCallSpan]:
        """The journaled calls on ctx in a file."""
        name = self._known(path)
        self.check_file(name)
        found: set[CtxCallSpan] = set()
        for unit in self._units.values():
            if name in unit.deps:
                calls = self._loaded.calls() if unit.calls is None else unit.calls
                found |= calls.get(name, set())
        return sorted(found, key=lambda span: (span.line, span.column))
