"""Findings as SARIF 2.1.0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rulvar_lint.core.rule import HOME

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic, Fix
    from rulvar_lint.core.rule import RuleInfo


def log(found: Sequence[Diagnostic], rules: Mapping[str, RuleInfo], version: str) -> str:
    """One SARIF log with one run."""
    order = sorted(rules)
    index = {code: number for number, code in enumerate(order)}
    run = {
        "tool": {
            "driver": {
                "name": "rulvar-lint",
                "version": version,
                "informationUri": HOME,
                "rules": [_rule(rules[code]) for code in order],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(item, index.get(item.code, -1)) for item in found],
    }
    report = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: RuleInfo) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "helpUri": rule.url,
        "defaultConfiguration": {"enabled": rule.default_on, "level": rule.severity},
    }


def _location(path: str, line: int, column: int, end: tuple[int, int] | None = None) -> dict[str, Any]:
    region: dict[str, int] = {"startLine": line, "startColumn": column}
    if end is not None:
        region["endLine"], region["endColumn"] = end
    return {"physicalLocation": {"artifactLocation": {"uri": quote(path)}, "region": region}}


def _result(item: Diagnostic, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": index,
        "level": item.severity,
        "message": {"text": item.message},
        "locations": [_location(item.path, item.line, item.column, (item.end_line, item.end_column))],
        "partialFingerprints": {"rulvar/v1": f"{item.code}:{item.path}:{item.message}"},
    }
    if item.related:
        result["relatedLocations"] = [
            {**_location(place.path, place.line, place.column), "message": {"text": place.message}}
            for place in item.related
        ]
    if item.fix is not None and item.fix.edits:
        result["fixes"] = [_fix(item.fix)]
    return result


def _fix(fix: Fix) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        region = {
            "startLine": edit.line,
            "startColumn": edit.column,
            "endLine": edit.end_line,
            "endColumn": edit.end_column,
        }
        changes.setdefault(edit.path, []).append(
            {"deletedRegion": region, "insertedContent": {"text": edit.text}}
        )
    return {
        "description": {"text": fix.message},
        "artifactChanges": [
            {"artifactLocation": {"uri": quote(path)}, "replacements": made} for path, made in changes.items()
        ],
    }
