"""Rows of a cassette that no test needs any more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rulvar_lsp.features.cassette import unused_rows
from rulvar_lsp.report import decode_report
from rulvar_lsp.snapshot import Document, Recorded
from rulvar_lsp.text import Text

TAPE = Document("file:///p/tape.jsonl", "/p/tape.jsonl", 1, Text("{}\n" * 6))


def test_of(
    name: str, served: list[int], unused: list[int], outcome: str = "passed", **call: Any
) -> dict[str, Any]:
    use = {"path": "tape.jsonl", "rows": 5, "served": served, "unused": unused}
    calls = [{"kind": "agent", "served": "live", "cassette": "tape.jsonl", **call}] if call else []
    place = {"nodeId": f"test_m.py::{name}", "file": "test_m.py", "line": 1}
    return {**place, "outcome": outcome, "cassettes": [use], "calls": calls}


test_of.__test__ = False  # type: ignore[attr-defined]


def left_over(*tests: dict[str, Any]) -> tuple[int, ...]:
    report = {"v": 1, "kind": "rulvar-replay-report", "createdAt": "2026-01-01T00:00:00Z", "root": "/p"}
    body = json.dumps({**report, "tests": list(tests)}).encode()
    return unused_rows(TAPE, Recorded.of([("r.json", decode_report(body, "r.json"))], 1))


def test_a_row_that_every_test_left_over_is_unused() -> None:
    assert left_over(test_of("test_a", [2], [3, 4]), test_of("test_b", [3], [2, 4])) == (3,)


def test_a_row_that_was_recorded_in_the_same_run_is_used() -> None:
    assert left_over(test_of("test_a", [2], [3, 4], row=4)) == (2,)
    other = test_of("test_b", [2], [3, 4])
    assert left_over(test_of("test_a", [2], [3, 4], row=4), other) == (2,)


@pytest.mark.parametrize("outcome", ["failed", "error", "skipped"])
def test_a_test_that_did_not_pass_may_have_stopped_before_its_rows(outcome: str) -> None:
    assert left_over(test_of("test_a", [2], [3, 4], outcome), test_of("test_b", [2], [3, 4])) == ()


def test_a_cassette_that_no_run_has_used_has_no_unused_rows() -> None:
    assert left_over() == ()
