"""The rule pages: one text for documentation, command line, hover and these tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulvar_lint import Config, Diagnostic, RuleInfo, rule_info
from rulvar_lint.rules.pages import CODES, FAMILIES, RULES
from rulvar_lint.rules.pages.render import as_index, as_markdown, as_page, as_text

Check = Callable[..., list[Diagnostic]]
DOCS = Path(__file__).parents[2] / "docs" / "rules"
EVERYTHING = Config(select=("ALL",))
PATHS = {
    "python": "workflows/flow.py",
    "python-test": "tests/test_flow.py",
    "jsonl": "tests/cassettes/flow.jsonl",
}
TABLE = {
    "RLV001": "syntax-error",
    "RLV002": "unused-suppression",
    "RLV003": "unknown-rule-in-suppression",
    "RLV101": "wall-clock",
    "RLV102": "randomness",
    "RLV103": "random-uuid",
    "RLV104": "sleep-in-replay",
    "RLV105": "external-io",
    "RLV106": "inline-model-call",
    "RLV107": "file-io",
    "RLV108": "host-environment",
    "RLV109": "process-spawn",
    "RLV110": "thread-offload",
    "RLV111": "dynamic-code",
    "RLV112": "interactive-input",
    "RLV113": "print-or-log",
    "RLV114": "opaque-await",
    "RLV201": "unordered-iteration",
    "RLV202": "identity-hash",
    "RLV203": "import-time-capture",
    "RLV204": "impure-default-factory",
    "RLV205": "module-mutable-state",
    "RLV206": "host-locale-format",
    "RLV207": "unsorted-json-in-identity",
    "RLV208": "traceback-in-identity",
    "RLV301": "missing-await",
    "RLV302": "asyncio-over-ctx",
    "RLV303": "timeout-over-ctx",
    "RLV304": "ctx-escape",
    "RLV305": "nested-ctx-in-step",
    "RLV306": "step-mutates-outer",
    "RLV307": "swallowed-suspension",
    "RLV308": "retry-wrapper-over-ctx",
    "RLV309": "late-binding-thunk",
    "RLV310": "eager-step-call",
    "RLV311": "workflow-signature",
    "RLV401": "duplicate-identical-call",
    "RLV402": "constant-identity-in-loop",
    "RLV403": "incomplete-deps",
    "RLV404": "step-without-deps",
    "RLV405": "non-serializable-result",
    "RLV501": "cassette-secret",
    "RLV502": "cassette-header",
    "RLV503": "cassette-hash-window",
    "RLV504": "cassette-passthrough",
    "RLV505": "cassette-row",
}
WARNINGS = {
    *("RLV002", "RLV003", "RLV113", "RLV114", "RLV206", "RLV207", "RLV208", "RLV308"),
    *("RLV401", "RLV403", "RLV404", "RLV504"),
}


def marked(text: str) -> set[tuple[int, str]]:
    """(line, code) of what the example says is reported."""
    return {
        (number, code)
        for number, line in enumerate(text.split("\n"), 1)
        if (match := re.search(r"#((?: RLV\d+)+)$", line))
        for code in match[1].split()
    }


def unmarked(text: str) -> str:
    return re.sub(r"  #(?: RLV\d+)+\s*$", "", text, flags=re.M)


RULE_LIST = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def test_every_rule_of_the_table_has_a_page_and_no_other() -> None:
    assert {code: rule.name for code, rule in RULES.items()} == TABLE
    assert frozenset(TABLE) == CODES
    assert {code for code, rule in RULES.items() if rule.severity == "warning"} == WARNINGS
    assert {code for code, rule in RULES.items() if not rule.default_on} == {"RLV207", "RLV404"}


@RULE_LIST
def test_the_bad_example_has_the_findings_it_marks(rule: RuleInfo, check: Check) -> None:
    path = PATHS[rule.language]
    found = check({path: unmarked(rule.bad)}, Config(extend_select=(rule.code,)))
    got = {(d.line, d.code) for d in found}
    assert rule.code in {code for _, code in got}
    if rule.language != "jsonl" and rule.code != "RLV001":
        assert got == marked(rule.bad)


@RULE_LIST
def test_the_good_example_has_no_finding(rule: RuleInfo, check: Check) -> None:
    found = check({PATHS[rule.language]: rule.good}, Config(extend_select=(rule.code,)))
    assert [str(d) for d in found] == []


@RULE_LIST
def test_a_message_ends_with_what_to_do_instead(rule: RuleInfo, check: Check) -> None:
    found = check({PATHS[rule.language]: unmarked(rule.bad)}, EVERYTHING)
    messages = [d.message for d in found if d.code == rule.code]
    assert messages
    assert all(message.endswith(rule.advice) for message in messages)
    assert all("\n" not in message for message in messages)


@RULE_LIST
def test_a_page_tells_everything_about_its_rule(rule: RuleInfo) -> None:
    for text in (as_text(rule), as_markdown(rule)):
        for part in (rule.code, rule.name, rule.summary, rule.advice):
            assert part in text
        assert rule.bad.splitlines()[0] in text
    assert rule.summary.endswith(".")
    assert len(rule.why) > 40
    assert rule.suppress


@pytest.mark.parametrize("family", FAMILIES, ids=[f.RULES[0].family for f in FAMILIES])
def test_the_documentation_is_the_text_of_the_rules(family) -> None:  # type: ignore[no-untyped-def]
    page = DOCS / f"{family.RULES[0].family}.md"
    assert page.read_text("utf-8") == as_page(family), "run `python -m rulvar_lint.rules.pages docs/rules`"


def test_the_command_writes_the_committed_pages_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rulvar_lint.rules.pages"]
    subprocess.run([*command, str(tmp_path)], check=True)
    written = {page.name: page.read_text("utf-8") for page in tmp_path.iterdir()}
    assert written == {page.name: page.read_text("utf-8") for page in DOCS.iterdir()}
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


@RULE_LIST
def test_the_address_in_a_message_leads_to_the_section_of_the_rule(rule: RuleInfo) -> None:
    home, _, place = rule.url.partition("/docs/rules/")
    file, _, anchor = place.partition("#")
    titles = re.findall(r"^## (.*)$", (DOCS / file).read_text("utf-8"), re.MULTILINE)
    assert home.startswith("https://")
    assert anchor in {title.lower().replace(" ", "-") for title in titles}


def test_the_index_lists_every_rule() -> None:
    assert (DOCS / "index.md").read_text("utf-8") == as_index(FAMILIES)
    assert all(f"#{rule.code.lower()}-{rule.name})" in as_index(FAMILIES) for rule in RULES.values())


def test_a_rule_is_found_by_code_and_by_name_in_any_case() -> None:
    assert rule_info("rlv101") is rule_info("RLV101") is rule_info("Wall-Clock")
    with pytest.raises(KeyError):
        rule_info("RLV999")


def test_jsonl_examples_are_json_lines() -> None:
    for rule in RULES.values():
        if rule.language == "jsonl":
            assert all(json.loads(line) for line in rule.good.splitlines())
