"""Findings in the formats that people and tools read. Every reporter is a pure function."""

from __future__ import annotations

from typing import Final

FORMATS: Final = (
    "full",
    "concise",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "rdjson",
)
