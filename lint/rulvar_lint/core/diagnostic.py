"""What the lint says: diagnostics, their related places and the edits that would fix them. Plain
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
Applicability = Literal["safe", "unsafe", "manual"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from (line, column) up to, but not including, (end_line, end_column) by
    `text`.

    Positions are 1-based; columns count Unicode code points.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """The edit with camelCase keys, as it appears in `--output-format json`."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "endLine": self.end_line,
            "endColumn": self.end_column,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes a finding.

    `safe` keeps what the program means, `unsafe` may change what a call is keyed by or what a
    value is, `manual` is offered in an editor only.
    """

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...]

    def to_json(self) -> dict[str, Any]:
        """The fix with camelCase keys."""
        return {
            "applicability": self.applicability,
            "message": self.message,
            "edits": [edit.to_json() for edit in self.edits],
        }


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding, such as a link of the call chain."""

    path: str
    line: int
    column: int
    message: str

    def to_json(self) -> dict[str, Any]:
        """The place as a JSON object."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. Lines and columns are 1-based, columns count Unicode code points, the end is
    exclusive.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    name: str
    severity: Severity
    message: str
    url: str
    related: tuple[Related, ...] = ()
    fix: Fix | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding as one object of `--output-format json`."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "endLine": self.end_line,
            "endColumn": self.end_column,
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "url": self.url,
            "related": [place.to_json() for place in self.related],
            "fix": self.fix.to_json() if self.fix else None,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Diagnostic:
        """The finding that `to_json` wrote.

        Raises:
            KeyError: a field is missing.
        """
        fix = data["fix"]
        return Diagnostic(
            path=data["path"],
            line=data["line"],
            column=data["column"],
            end_line=data["endLine"],
            end_column=data["endColumn"],
            code=data["code"],
            name=data["name"],
            severity=data["severity"],
            message=data["message"],
            url=data["url"],
            related=tuple(Related(**place) for place in data["related"]),
            fix=None if fix is None else _fix_from_json(fix),
        )

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Findings are reported by file, line, column and code."""
        return (self.path, self.line, self.column, self.code)


def _fix_from_json(data: dict[str, Any]) -> Fix:
    edits = tuple(
        Edit(e["path"], e["line"], e["column"], e["endLine"], e["endColumn"], e["text"])
        for e in data["edits"]
    )
    return Fix(data["applicability"], data["message"], edits)
