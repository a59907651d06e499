"""What analyses give: findings per file, workflow functions, and journaled calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar_lint.core.diagnostic import Diagnostic

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl, Module
    from rulvar_lint.core.findings import Key
    from rulvar_lint.core.source import Source


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
    """What the analysis that begins in one file gave. `calls` has the journaled calls that it met, by
    file, if they were wanted.
    """

    __slots__ = ("calls", "deps", "findings", "used", "words", "workflows")

    def __init__(self) -> None:
        self.findings: dict[Key, Diagnostic] = {}
        self.used: set[Key] = set()
        self.deps: frozenset[str] = frozenset()
        self.words: frozenset[str] = frozenset()
        self.workflows: list[WorkflowSpan] = []
        self.calls: dict[str, set[CtxCallSpan]] | None = None

    def to_json(self) -> dict[str, Any]:
        """The unit as the cache keeps it."""
        return {
            "findings": [item.to_json() for item in self.findings.values()],
            "used": sorted(self.used),
            "deps": sorted(self.deps),
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
        unit.words = frozenset(data["words"])
        unit.workflows = [WorkflowSpan(*entry) for entry in data["workflows"]]
        return unit


def workflow_span(decl: FunctionDecl) -> WorkflowSpan:
    """Where a workflow function is."""
    node = decl.node
    column = decl.module.source.column(node.lineno, node.col_offset)
    return WorkflowSpan(decl.qualname, node.lineno, column, node.end_lineno or node.lineno)


def calls_in(module: Module) -> set[CtxCallSpan]:
    """The journaled calls that have been met in a module."""
    return {call_span(module.source, node, kind) for node, kind in module.ctx_calls.items()}


def call_span(source: Source, node: ast.Call, kind: str) -> CtxCallSpan:
    """Where a journaled call is."""
    func = node.func
    name_line = func.end_lineno or node.lineno
    name_end = source.column(name_line, func.end_col_offset or 0)
    width = (
        len(func.attr)
        if isinstance(func, ast.Attribute)
        else name_end - source.column(func.lineno, func.col_offset)
    )
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
