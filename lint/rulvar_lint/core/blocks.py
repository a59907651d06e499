"""A file as a sequence of top-level statements that keep their trees when lines above them come and
go: a statement that moved is only renumbered when somebody looks at its nodes.
"""

from __future__ import annotations

import ast
from typing import Any

from rulvar_lint.core.nodes import walk


class Block:
    """One top-level statement. `first` and `last` are its lines as they are now, decorators
    included; `facts` is for whoever wants to remember something about the statement.
    """

    __slots__ = ("_behind", "_stmt", "facts", "first", "last")

    def __init__(self, stmt: ast.stmt, first: int, last: int, behind: int = 0, facts: Any = None) -> None:
        self._stmt = stmt
        self._behind = behind
        self.first = first
        self.last = last
        self.facts = facts

    @property
    def identity(self) -> ast.stmt:
        """The statement, whatever its lines say: the same object as long as its text is the same."""
        return self._stmt

    @property
    def stmt(self) -> ast.stmt:
        """The statement, with the lines as they are now."""
        if self._behind:
            _renumber(self._stmt, self._behind)
            self._behind = 0
        return self._stmt

    def moved(self, lines: int) -> Block:
        """The same statement so many lines further down."""
        return Block(self._stmt, self.first + lines, self.last + lines, self._behind + lines, self.facts)


def blocks_of(body: list[ast.stmt]) -> list[Block]:
    """The statements of a freshly parsed module."""
    return [Block(stmt, _start(stmt), stmt.end_lineno or stmt.lineno) for stmt in body]


def _start(stmt: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    return min(stmt.lineno, *(expr.lineno for expr in decorators)) if decorators else stmt.lineno


def _renumber(stmt: ast.stmt, lines: int) -> None:
    for node in walk(stmt):
        place = node.__dict__
        if "lineno" in place:
            place["lineno"] += lines
            if place["end_lineno"] is not None:
                place["end_lineno"] += lines
