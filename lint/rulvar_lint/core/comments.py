"""Suppression comments: what a file asks the lint to be quiet about."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ast

    from rulvar_lint.core.directives import Suppression
    from rulvar_lint.core.source import Source


class Comments:
    """The suppression comments of one file."""

    __slots__ = ("_by_line", "_lines", "_trusted", "file_wide", "suppressions")

    def __init__(self, suppressions: list[Suppression], trusted: frozenset[int]) -> None:
        self.suppressions = suppressions
        self.file_wide = [s for s in suppressions if s.kind == "ignore-file"]
        self._trusted = trusted
        self._lines = [suppression.line for suppression in suppressions]
        self._by_line: dict[int, list[Suppression]] = {}
        for suppression in suppressions:
            if suppression.kind != "ignore-file":
                for line in range(suppression.covers[0], suppression.covers[1] + 1):
                    self._by_line.setdefault(line, []).append(suppression)

    def near(self, first: int, last: int) -> tuple[object, ...]:
        """What is said about the lines from `first` to `last`, wherever they are in the file."""
        if not self.suppressions and not self._trusted:
            return ()
        said = self.suppressions[bisect_left(self._lines, first - 1) : bisect_right(self._lines, last)]
        trusted = self._trusted.intersection(range(first - 1, last + 1)) if self._trusted else ()
        return (
            *(
                (s.kind, s.line - first, s.covers[0] - first, *(named.code for named in s.codes))
                for s in said
            ),
            *sorted(line - first for line in trusted),
        )

    def trusts(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a function is marked `# rulvar: deterministic`, on its head or on the line above
        it.
        """
        if not self._trusted:
            return False
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        last = max(node.lineno, node.body[0].lineno - 1)
        if node.body[0].lineno == node.lineno:
            last = node.lineno
        return any(first - 1 <= line <= last for line in self._trusted)

    def matching(self, line: int, code: str) -> list[tuple[int, str]]:
        """(line of the comment, code it names or "*") of the comments that cover a finding."""
        found: list[tuple[int, str]] = []
        if self.suppressions:
            for suppression in (*self._by_line.get(line, ()), *self.file_wide):
                if not suppression.codes:
                    found.append((suppression.line, "*"))
                elif any(named.code == code for named in suppression.codes):
                    found.append((suppression.line, code))
        return found


MARKS: Final = (b"rulvar:", b"noqa")


def read_comments(source: Source) -> Comments:
    """Find the suppression comments of a file. Files without the words are not tokenised."""
    if source.comments is None:
        lowered = source.data.lower()
        if any(word in lowered for word in MARKS):
            from rulvar_lint.core.directives import read  # few files have any

            source.comments = Comments(*read(source))
        else:
            source.comments = Comments([], frozenset())
    return source.comments
