"""Tiers are selected, and JSON is found in answers, as the original does."""

from typing import Any

from scenario_language import check_words

from rulvar.contracts.messages import ToolCallPart
from rulvar.runtime.structured import extract_candidate, is_strict_compatible, select_tier

FIELDS = {
    "tier": {"group", "schema", "strict_compatible", "tier_for_native", "tier_for_forced", "tier_for_prompt"},
    "extract": {"group", "tier", "text", "result"},
}
CALLS = [
    ToolCallPart(id="a", name="other", args={"from": "other"}),
    ToolCallPart(id="b", name="emit_result", args={"from": "tool"}),
]


def test_every_case_is_of_a_kind_that_is_checked_here(load_vectors: Any) -> None:
    for case in load_vectors("structured_output.json")["cases"]:
        check_words("the kinds of cases", {case["group"]: case}, FIELDS)
        check_words("a case of structured output", case, FIELDS[case["group"]])
        assert set(case) == FIELDS[case["group"]], case


def test_every_schema_selects_the_recorded_tier(load_vectors: Any) -> None:
    for case in load_vectors("structured_output.json")["cases"]:
        if case["group"] == "tier":
            schema = case["schema"]
            assert is_strict_compatible(schema) == case["strict_compatible"], schema
            assert select_tier("native", schema) == case["tier_for_native"]
            assert select_tier("forced-tool", schema) == case["tier_for_forced"]
            assert select_tier("prompt", schema) == case["tier_for_prompt"]


def test_every_answer_yields_the_recorded_candidate(load_vectors: Any) -> None:
    for case in load_vectors("structured_output.json")["cases"]:
        if case["group"] == "extract":
            found = extract_candidate(case["text"], CALLS, case["tier"])
            expected = case["result"]
            assert (None if found is None else {"raw": found.raw}) == expected, case
