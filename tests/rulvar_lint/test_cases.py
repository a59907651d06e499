"""Every case file: exactly the expected findings, and nothing on a clean case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar_lint import Diagnostic

CASES = Path(__file__).parent / "cases"
ALL = [
    case
    for path in sorted(CASES.glob("*.json"))
    if path.name != "ancestor.json"
    for case in json.loads(path.read_text("utf-8"))
]
TWINS = json.loads((CASES / "ancestor.json").read_text("utf-8"))["cases"]
Check = Callable[..., list[Diagnostic]]

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
    "module level, outside any workflow": "reported where replayed code uses the value (RLV203)",
    "httpx": "building a client is free; its requests are reported",
    "aiohttp": "building a client is free; its requests are reported",
}


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_a_case_has_exactly_its_expected_findings(case: dict[str, Any], check: Check) -> None:
    found = check(case["files"])
    assert sorted({(d.path, d.line, d.code) for d in found}) == sorted(
        {(e["path"], e["line"], e["rule"]) for e in case["expect"]}
    ), case.get("note", "")


@pytest.mark.parametrize("case", TWINS, ids=[f"{case['group']}: {case['name']}" for case in TWINS])
def test_the_python_twin_of_an_ancestor_case_is_judged_alike(case: dict[str, Any], check: Check) -> None:
    if case.get("python_either") or case["name"] in DECIDED_OTHERWISE:
        pytest.skip("both answers are defensible, or the contract decides")
    source = f'{case["python"]}\nfrom rulvar import define_workflow\ndefine_workflow("w", wf)\n'
    names = {code: rule for rule, codes in ANCESTOR.items() for code in codes}
    got = {(d.line, names[d.code]) for d in check(source) if d.code in names}
    assert got == {(line, rule) for line, rule in case["python_expect"]}
