"""The report reader: what is right is read, what is wrong is named with file, line and field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rulvar_lsp.report import Report, ReportError, decode_report

SITE = {
    "file": "flow.py",
    "line": 4,
    "column": 5,
    "endLine": 6,
    "endColumn": 6,
    "function": "triage",
    "digest": "0" * 16,
}
CALL: dict[str, Any] = {
    "kind": "agent",
    "site": SITE,
    "scope": "",
    "label": None,
    "agentType": None,
    "turn": 1,
    "adapter": "anthropic",
    "model": "m",
    "requestHash": "a" * 64,
    "contentKey": None,
    "served": "miss",
    "occurrence": None,
    "occurrences": None,
    "cassette": None,
    "row": None,
    "usage": {"inputTokens": 1, "outputTokens": 2, "someday": 3.5, "cost": None},
    "costUsd": 0.1,
    "nearest": {
        "cassette": "c.jsonl",
        "row": 2,
        "requestHash": "b" * 64,
        "distance": 0.5,
        "differences": [{"path": "model", "recorded": "a", "actual": None}],
    },
    "message": "no row",
}
TEST: dict[str, Any] = {
    "nodeId": "test_flow.py::test_x",
    "file": "test_flow.py",
    "line": 1,
    "outcome": "failed",
    "durationMs": 1.5,
    "mode": "strict",
    "message": None,
    "cassettes": [{"path": "c.jsonl", "rows": 3, "served": [2], "unused": [3]}],
    "calls": [CALL],
    "replays": [
        {
            "runId": "r",
            "workflow": "w",
            "status": "error",
            "hits": 1,
            "misses": 1,
            "reruns": 0,
            "skipped": 0,
            "orphaned": [],
            "divergence": {
                "site": SITE,
                "kind": "agent",
                "scope": "",
                "label": None,
                "reason": "reworded",
                "differences": [],
            },
        }
    ],
    "warnings": [{"file": "flow.py", "line": 3, "code": "RLV101", "message": "clock"}],
}


def report(**changes: Any) -> bytes:
    body = {
        "v": 1,
        "kind": "rulvar-replay-report",
        "createdAt": "2026-11-30T10:00:00.000Z",
        "rulvar": "0.1.0",
        "root": "/p",
        "mode": "strict",
        "tests": [TEST],
    }
    return json.dumps({**body, **changes}).encode()


def test_a_report_is_read_whole() -> None:
    read = decode_report(report(), "r.json")
    assert isinstance(read, Report)
    call = read.tests[0].calls[0]
    assert call.site is not None and call.site.end_line == 6
    assert call.nearest is not None and call.nearest.differences[0].actual is None
    assert read.tests[0].replays[0].divergence is not None


def test_fields_of_a_later_writer_are_ignored() -> None:
    assert decode_report(report(color="blue", tests=[{**TEST, "size": [1]}]), "r.json").tests


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "r.json:1: not valid JSON"),
        (report()[:-30], "r.json:1: not valid JSON"),
        (b'{"v": 1,\n"kind": nope}', "r.json:2: not valid JSON"),
        (b"\xff\xfe", "r.json"),
        (b"[" * 50_000, "r.json"),
        (b"[]", "r.json: report: Expected `object`, got `array`"),
        (b"null", "r.json: report: Expected `object`, got `null`"),
        (report(kind="rulvar-cassette"), 'r.json: kind: expected "rulvar-replay-report", found'),
        (report(v=2), "r.json: v: this version of rulvar reads report format 1, found 2"),
        (report(v="1"), "r.json: v: this version of rulvar reads report format 1, found '1'"),
        (report(tests=None), "r.json: tests: Expected `array`, got `null`"),
        (report(tests=[{**TEST, "line": 0}]), "r.json: tests[0].line: Expected `int` >= 1"),
        (report(tests=[TEST, {**TEST, "outcome": "odd"}]), "tests[1].outcome: Invalid enum value"),
        (report(tests=[{**TEST, "calls": [{**CALL, "served": "luck"}]}]), "calls[0].served"),
        (
            report(tests=[{**TEST, "calls": [{**CALL, "site": {**SITE, "line": "4"}}]}]),
            "r.json: tests[0].calls[0].site.line: Expected `int`, got `str`",
        ),
        (
            report(tests=[{k: v for k, v in TEST.items() if k != "nodeId"}]),
            "r.json: tests[0]: Object missing required field `nodeId`",
        ),
    ],
)
def test_a_report_that_cannot_be_read_says_where_and_why(data: bytes, words: str) -> None:
    with pytest.raises(ReportError) as caught:
        decode_report(data, "r.json")
    assert words in str(caught.value)
    assert "run the tests again" in str(caught.value) or "expected" in str(caught.value)
