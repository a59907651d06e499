"""Every case file: exactly the expected findings, and nothing on a clean case."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location("lint_conftest", Path(__file__).parent / "conftest.py")
assert _spec is not None and _spec.loader is not None
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)

FILES = sorted(
    path.name for path in _shared.CASES.glob("*.json") if path.name != "ancestor.json"
)
ALL = [(name, case) for name in FILES for case in _shared.load_cases(name)]
ANCESTOR = {
    "no-bare-date": {"RLV101"},
    "no-bare-random": {"RLV102", "RLV103"},
    "no-fetch": {"RLV105"},
    "no-process-env": {"RLV108"},
    "no-code-generation": {"RLV111"},
    "no-promise-all-over-ctx": {"RLV302"},
    "duplicate-identical-call": {"RLV401"},
}
# Cases whose answer our contract decides otherwise, and why.
DECIDED_OTHERWISE = {
    "module level, outside any workflow": "import-time reads are reported where replayed code uses them (RLV203)",
    "httpx": "building a client is free; its requests are reported",
    "aiohttp": "building a client is free; its requests are reported",
}


@pytest.mark.parametrize(("name", "case"), ALL, ids=[case["id"] for _, case in ALL])
def test_a_case_has_exactly_its_expected_findings(name: str, case: dict[str, Any]) -> None:
    found = _shared.in_memory(case["files"]).check()
    assert sorted({(d.path, d.line, d.code) for d in found}) == sorted(
        {(e["path"], e["line"], e["rule"]) for e in case["expect"]}
    ), case.get("note", "")


@pytest.mark.parametrize(
    "case", _shared.load_cases("ancestor.json"), ids=lambda case: f"{case['group']}: {case['name']}"
)
def test_the_python_twin_of_an_ancestor_case_is_judged_alike(case: dict[str, Any]) -> None:
    if case.get("python_either") or case["name"] in DECIDED_OTHERWISE:
        pytest.skip("both answers are defensible, or the contract decides")
    source = f'{case["python"]}\nfrom rulvar import define_workflow\ndefine_workflow("w", wf)\n'
    found = _shared.in_memory({"flow.py": source}).check()
    names = {code: rule for rule, codes in ANCESTOR.items() for code in codes}
    got = {(d.line, names[d.code]) for d in found if d.code in names}
    assert got == {(line, rule) for line, rule in case["python_expect"]}
