"""Findings for continuous integration: GitHub annotations, GitLab code quality, JUnit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from rulvar_lint.core.diagnostic import Diagnostic


def workflow_commands(found: Sequence[Diagnostic]) -> str:
    """GitHub workflow commands."""
    out = []
    for item in found:
        title = _property(f"rulvar-lint {item.code} ({item.name})")
        fields = (
            f"title={title},file={_property(item.path)},line={item.line},col={item.column},"
            f"endLine={item.end_line},endColumn={item.end_column}"
        )
        message = _data(f"{item.path}:{item.line}:{item.column}: {item.code} {item.message}")
        out.append(f"::{item.severity} {fields}::{message}\n")
    return "".join(out)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def code_quality(found: Sequence[Diagnostic]) -> str:
    """A GitLab code quality report."""
    seen: dict[str, int] = {}
    entries = []
    for item in found:
        text = f"{item.path}:{item.code}:{item.message}"
        seen[text] = seen.get(text, 0) + 1
        digest = hashlib.sha256(f"{text}:{seen[text]}".encode()).hexdigest()
        entries.append(
            {
                "check_name": item.code,
                "description": f"{item.code}: {item.message}",
                "fingerprint": digest,
                "severity": "major" if item.severity == "error" else "minor",
                "location": {
                    "path": item.path,
                    "positions": {
                        "begin": {"line": item.line, "column": item.column},
                        "end": {"line": item.end_line, "column": item.end_column},
                    },
                },
            }
        )
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def junit(found: Sequence[Diagnostic]) -> str:
    """A JUnit XML report with one test suite per file."""
    files: dict[str, list[Diagnostic]] = {}
    for item in found:
        files.setdefault(item.path, []).append(item)
    out = ['<?xml version="1.0" encoding="UTF-8"?>\n']
    out.append(
        f'<testsuites name="rulvar-lint" tests="{max(len(found), 1)}" failures="{len(found)}" errors="0">\n'
    )
    if not found:
        out.append('  <testsuite name="rulvar-lint" tests="1" failures="0" errors="0">\n')
        out.append('    <testcase name="No findings" classname="rulvar-lint" />\n  </testsuite>\n')
    for path, items in files.items():
        out.append(
            f'  <testsuite name={quoteattr(_xml(path))} tests="{len(items)}" '
            f'failures="{len(items)}" errors="0">\n'
        )
        for item in items:
            name = quoteattr(f"{item.code} {item.name}")
            where = f"line {item.line}, col {item.column}, {item.message}"
            out.append(
                f'    <testcase name={name} classname={quoteattr(_xml(path))} line="{item.line}" '
                f'column="{item.column}">\n      <failure message={quoteattr(_xml(item.message))}>'
                f"{escape(_xml(where))}</failure>\n    </testcase>\n"
            )
        out.append("  </testsuite>\n")
    out.append("</testsuites>\n")
    return "".join(out)


def _xml(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(
        char if char in "\t\n\r" or " " <= char <= "\ud7ff" or char >= "\ue000" else "\ufffd" for char in text
    )
