"""The findings of the unit that is being analysed, and the suppressions that were needed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar_lint.core.findings import Finding, Key, Sink

if TYPE_CHECKING:
    from rulvar_lint.core.decls import Module
    from rulvar_lint.core.effects import Cause, Place
    from rulvar_lint.core.frame import Frame

# A suppression comment in a helper that was needed: (path, line, code).
Used = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Hidden:
    """A finding that another one says better."""

    key: Key


Entry = Finding | Hidden | Used


class Ledger:
    """Collects findings. The log keeps their sequence, so that a result can be replayed."""

    def __init__(self) -> None:
        self.tick = 0
        self.in_text = 0
        self.findings: dict[Key, Finding] = {}
        self.log: list[Entry] = []
        self.used: set[Used] = set()
        # By rule and place of a cause: where its value goes, the one to be told of each file.
        self.sinks: dict[tuple[str, Place], dict[str, Sink]] = {}
        self.unsorted: dict[Cause, ast.AST] = {}

    def clear(self) -> None:
        """Forget what was found."""
        self.findings = {}
        self.log = []
        self.used = set()
        self.sinks = {}
        self.unsorted = {}

    def report(self, f: Frame, node: ast.AST, cause: Cause, **more: Any) -> Finding:
        """Make a finding, unless there is one of this rule on this line."""
        finding = Finding(f.module, node, cause)
        known = self.findings.get(finding.key)
        if known is not None:
            self.log.append(known)
            return known
        self.log.append(finding)
        finding.in_text = self.in_text > 0
        finding.frame = f
        finding.fix = more.get("fix")
        finding.places = list(more.get("places", ()))
        self.findings[finding.key] = finding
        return finding

    def drop(self, start: int, end: int) -> None:
        """Take back the findings between two positions of the log."""
        for entry in self.log[start:end]:
            if isinstance(entry, Finding):
                self.findings.pop(entry.key, None)
        del self.log[start:end]

    def hide(self, path: str, line: int, code: str) -> None:
        """Take back a finding, also when the log is repeated."""
        hidden = Hidden((path, line, code))
        self.findings.pop(hidden.key, None)
        self.log.append(hidden)

    def once(self, start: int) -> list[Entry]:
        """What the log says since a position, each entry once: otherwise functions that call each
        other would repeat their findings beyond all bounds.
        """
        found = self.log[start:]
        if len(found) > 1:
            found = self.log[start:] = list(dict.fromkeys(found))
        return found

    def suppressed(self, module: Module, line: int, code: str) -> bool:
        """Whether a comment in a helper says that an effect there does not matter."""
        hits = module.comments.matching(line, code)
        for at, name in hits:
            used = (module.path, at, name)
            self.used.add(used)
            self.log.append(used)
        return bool(hits)

    def quiet(self, f: Frame) -> tuple[int, set[Key], dict[str, Cause]]:
        """Begin to look at something again without reporting it."""
        return len(self.log), set(self.findings), dict(f.effects)

    def loud(self, f: Frame, mark: tuple[int, set[Key], dict[str, Cause]]) -> None:
        """Forget what was found since `quiet`."""
        start, known, effects = mark
        for entry in self.log[start:]:
            if isinstance(entry, Finding) and entry.key not in known:
                self.findings.pop(entry.key, None)
        del self.log[start:]
        f.effects.clear()
        f.effects.update(effects)

    def repeat(self, entries: list[Entry]) -> None:
        """Find again what an earlier run of the same function has found."""
        for entry in entries:
            if isinstance(entry, Finding):
                self.findings.setdefault(entry.key, entry)
            elif isinstance(entry, Hidden):
                self.findings.pop(entry.key, None)
            else:
                self.used.add(entry)
        self.log += entries
