"""Whatever a report or a client's settings hold: they are read, or what is wrong is named."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rulvar_lsp.edge.settings import Settings, read_settings
from rulvar_lsp.report import Report, ReportError, decode_report

IS_LONG = "RULVAR_FUZZ_EXAMPLES" in os.environ  # else the same examples in every run
ANYHOW = settings(
    max_examples=int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "100")),
    deadline=None,
    derandomize=not IS_LONG,
    suppress_health_check=list(HealthCheck),
)
SITE = {"file": "f.py", "line": 1, "column": 1, "endLine": 1, "endColumn": 2, "digest": "0" * 16}
CALL = {
    "kind": "agent",
    "served": "miss",
    "site": SITE,
    "nearest": {"row": 1, "differences": [{"path": "model"}]},
}
REPORT: dict[str, Any] = {
    "v": 1,
    "kind": "rulvar-replay-report",
    "root": "/p",
    "createdAt": "2026-01-01T00:00:00.000Z",
    "tests": [
        {
            "nodeId": "t",
            "file": "t.py",
            "line": 1,
            "outcome": "passed",
            "calls": [CALL],
            "cassettes": [{"path": "c.jsonl", "rows": 1, "served": [2]}],
            "warnings": [{"file": "f.py", "line": 1, "code": "RLV101", "message": "m"}],
        }
    ],
}
WHOLE = json.dumps(REPORT).encode()
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["rulvar", "diagnostics", "codeLens", "interpreter", "pytestArgs", "runTimeoutSeconds", "reports", "x"]
)


@st.composite
def damaged(draw: Any) -> bytes:
    value = copy.deepcopy(REPORT)
    for _ in range(draw(st.integers(1, 3))):
        inside: Any = value
        while isinstance(inside, (dict, list)) and inside:
            key = draw(
                st.sampled_from(sorted(inside) if isinstance(inside, dict) else list(range(len(inside))))
            )
            if not isinstance(inside[key], (dict, list)) or draw(st.booleans()):
                inside[key] = draw(JSON)
                break
            inside = inside[key]
    return json.dumps(value).encode()


def check(data: bytes) -> None:
    try:
        report = decode_report(data, "r.json")
    except ReportError as fault:
        assert str(fault).startswith("r.json")
    else:
        assert isinstance(report, Report)


@ANYHOW
@given(data=damaged())
def test_any_object_is_a_report_or_refused(data: bytes) -> None:
    check(data)


@ANYHOW
@given(start=st.integers(0, len(WHOLE)), end=st.integers(0, len(WHOLE)), junk=st.binary(max_size=20))
@example(start=0, end=len(WHOLE), junk=b"[" * 100_000)
@example(start=1, end=1, junk=b'"v":' + b"9" * 5_000 + b",")
@example(start=0, end=len(WHOLE), junk=b"")
def test_any_bytes_are_a_report_or_refused(start: int, end: int, junk: bytes) -> None:
    check(WHOLE[:start] + junk + WHOLE[end:])


@ANYHOW
@given(raw=st.one_of(JSON, st.dictionaries(NAMES, JSON, max_size=6)))
def test_any_settings_are_read_or_named(raw: Any) -> None:
    read, faults = read_settings(raw, Settings())
    assert isinstance(read, Settings)
    assert all(fault.startswith("rulvar.") for fault in faults)
