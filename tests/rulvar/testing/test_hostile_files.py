"""Whatever bytes a file holds that should be a cassette, a report or an exported run: it is read, or refused by name."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rulvar.errors import ConfigError, RulvarError
from rulvar.kernel.scope import parse_scope
from rulvar.stores.bundle import decode_bundle
from rulvar.testing.cassette import parse_cassette
from rulvar.testing.report import read_report, report_from_wire

IS_LONG = "RULVAR_FUZZ_EXAMPLES" in os.environ  # else the same examples in every run
ANYHOW = settings(
    max_examples=int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "100")),
    deadline=None,
    derandomize=not IS_LONG,
    suppress_health_check=list(HealthCheck),
)
HEADER = {"v": 1, "kind": "rulvar-vcr", "hashVersion": 2, "createdAt": "2026-01-01T00:00:00.000Z"}
SITE = {
    "file": "f.py",
    "line": 1,
    "column": 1,
    "endLine": 1,
    "endColumn": 2,
    "function": "f",
    "digest": "0" * 16,
}
REPORT = {
    "v": 1,
    "kind": "rulvar-replay-report",
    "root": "/p",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "rulvar": "1",
    "mode": "strict",
    "tests": [
        {
            "nodeId": "t",
            "file": "t.py",
            "line": 1,
            "outcome": "passed",
            "calls": [{"kind": "agent", "site": SITE}],
        }
    ],
}
RUN = {
    "kind": "rulvar-run",
    "v": 1,
    "runId": "r",
    "meta": {"runId": "r"},
    "entries": [{"seq": 0, "kind": "step", "status": "ok", "value": 1}, {"seq": 1, "kind": "step"}],
    "transcripts": {"ckpt/0": "AAAA"},
}
PIECES = st.one_of(
    st.sampled_from(
        [
            json.dumps(HEADER).encode(),
            json.dumps(RUN).encode(),
            b"\n",
            b"\r",
            b"\0",
            b"\xff",
            b"{",
            b"}",
            b"[" * 300,
        ]
    ),
    st.sampled_from(
        [b'{"a":' * 300, b"1e999", b"NaN", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'{"v":1', b"null", b"7"]
    ),
    st.binary(max_size=12),
)
BYTES = st.lists(PIECES, max_size=6).map(b"".join)
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 2**70, 1.5, "", "x", "../x", "passed", [], [1], {}, {"a": 1}]
)


@st.composite
def damaged(draw: Any, whole: Any) -> Any:
    """Change a few places of a JSON value."""
    value = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        inside = value
        while isinstance(inside, (dict, list)) and inside:
            key = draw(
                st.sampled_from(sorted(inside) if isinstance(inside, dict) else list(range(len(inside))))
            )
            if not isinstance(inside[key], (dict, list)) or draw(st.booleans()):
                if draw(st.booleans()):
                    del inside[key]
                else:
                    inside[key] = copy.deepcopy(draw(JUNK))
                break
            inside = inside[key]
    return value


def read(reader: Callable[[], Any], name: str) -> None:
    try:
        reader()
    except RulvarError as refused:
        assert name in refused.message


@ANYHOW
@given(data=BYTES)
@example(data=b"")
@example(data=json.dumps(HEADER).encode() + b"\n" + b"[" * 100_000)
@example(data=json.dumps(HEADER).encode() + b"\n" + b'{"v":' + b"9" * 5_000 + b"}")
def test_any_bytes_are_a_cassette_or_refused(data: bytes) -> None:
    read(lambda: [row.to_wire() for row in parse_cassette("c.jsonl", data).rows], "c.jsonl")


@ANYHOW
@given(data=BYTES)
@example(data=b"[" * 100_000)
@example(data=b'{"kind":' + b"9" * 5_000 + b"}")
def test_any_bytes_are_an_exported_run_or_refused(data: bytes) -> None:
    read(lambda: decode_bundle(data, "run.json"), "run.json")


@ANYHOW
@given(value=damaged(RUN))
def test_any_object_is_an_exported_run_or_refused(value: Any) -> None:
    read(lambda: decode_bundle(json.dumps(value).encode(), "run.json"), "run.json")


@ANYHOW
@given(value=damaged(REPORT))
def test_any_object_is_a_report_or_refused(value: Any) -> None:
    read(lambda: report_from_wire(value, "report.json"), "report.json")


@ANYHOW
@given(
    path=st.one_of(
        st.text(max_size=30),
        st.lists(
            st.sampled_from(
                [
                    "par:0:1",
                    "wf:a:0",
                    "agent:3",
                    ":",
                    "/",
                    "par",
                    "pipe:1:2",
                    f"par:{'9' * 5000}:0",
                    "wf:x",
                    "wf:",
                ]
            )
        ).map("/".join),
    )
)
@example(path="wf:a" + "/a" * 50_000)
def test_any_text_is_a_scope_or_refused(path: str) -> None:
    read(lambda: parse_scope(path), "")


def test_a_report_with_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text('{"kind": "rulvar-replay-report", "v": 1, "mode": "\\ud800"}')
    with pytest.raises(ConfigError, match=r"report\.json"):
        read_report(file)
