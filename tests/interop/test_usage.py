"""A usage of any values is judged and repaired as the original does it."""

from typing import Any

from scenario_language import check_words

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.usage import sanitize_usage, usage_violations


def test_every_usage_breaks_the_recorded_rules(load_vectors: Any) -> None:
    for case in load_vectors("usage.json")["cases"]:
        check_words("a case of usage", case, {"group", "usage_json", "violations", "sanitized"})
        assert usage_violations(decode_json(case["usage_json"])) == case["violations"], case["usage_json"]


def test_every_usage_is_repaired_as_recorded(load_vectors: Any) -> None:
    for case in load_vectors("usage.json")["cases"]:
        repaired = sanitize_usage(decode_json(case["usage_json"])).to_wire()
        assert repaired == case["sanitized"], case["usage_json"]


def test_a_repaired_usage_breaks_no_rule(load_vectors: Any) -> None:
    for case in load_vectors("usage.json")["cases"]:
        repaired = sanitize_usage(decode_json(case["usage_json"]))
        assert usage_violations(repaired) == [], case["usage_json"]
