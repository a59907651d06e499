"""Findings as JSON: one array, or one object per line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulvar_lint.core.rule import HOME

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic


def array(found: Sequence[Diagnostic]) -> str:
    """One JSON array of all findings."""
    return json.dumps([item.to_json() for item in found], indent=2, ensure_ascii=False) + "\n"


def lines(found: Sequence[Diagnostic]) -> str:
    """One JSON object per line."""
    return "".join(json.dumps(item.to_json(), ensure_ascii=False) + "\n" for item in found)


def rdjson(found: Sequence[Diagnostic]) -> str:
    """The Reviewdog Diagnostic Format."""
    diagnostics = []
    for item in found:
        entry: dict[str, Any] = {
            "message": item.message,
            "location": {
                "path": item.path,
                "range": _range(item.line, item.column, item.end_line, item.end_column),
            },
            "severity": item.severity.upper(),
            "code": {"value": item.code, "url": item.url},
        }
        if item.fix is not None:
            entry["suggestions"] = [
                {"range": _range(e.line, e.column, e.end_line, e.end_column), "text": e.text}
                for e in item.fix.edits
            ]
        diagnostics.append(entry)
    source = {"name": "rulvar-lint", "url": HOME}
    report = {"source": source, "severity": "WARNING", "diagnostics": diagnostics}
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _range(line: int, column: int, end_line: int, end_column: int) -> dict[str, dict[str, int]]:
    return {
        "start": {"line": line, "column": column},
        "end": {"line": end_line, "column": end_column},
    }
