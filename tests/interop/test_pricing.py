"""Costs are the original's to the last bit."""

import math
from typing import Any

from scenario_language import check_words

from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.usage import Usage
from rulvar.runtime.pricing import affordable_output_tokens, price_components, price_usd

NAMES = {
    "input": "input_usd",
    "output": "output_usd",
    "cachedInput": "cached_input_usd",
    "cacheWrite": "cache_write_usd",
}


PRICED = {"group", "pricing", "usage", "usd"}
AFFORDED = {"group", "pricing", "remainingUsd", "estimatedInputTokens", "tokens"}
FIELDS = PRICED | AFFORDED | {"components"}


def test_every_usage_costs_what_is_recorded(load_vectors: Any) -> None:
    for case in load_vectors("pricing.json")["cases"]:
        check_words("a case of pricing", case, FIELDS)
        assert case.keys() - {"components"} in (PRICED, AFFORDED), case
        if "usage" not in case:
            continue
        pricing, usage = ModelPricing.from_wire(case["pricing"]), Usage.from_wire(case["usage"])
        assert price_usd(pricing, usage) == case["usd"], case
        components = price_components(pricing, usage)
        if "components" in case:
            assert set(case["components"]) == set(NAMES), case
        for name, expected in case.get("components", {}).items():
            assert getattr(components, NAMES[name]) == expected["usd"], case
            assert parts_of(usage)[name] == expected["tokens"], case


def parts_of(usage: Usage) -> dict[str, int]:
    """Return the tokens that each component is the cost of."""
    return {
        "input": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "output": usage.output_tokens,
        "cachedInput": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
    }


def test_the_rest_of_a_budget_buys_the_recorded_output(load_vectors: Any) -> None:
    for case in load_vectors("pricing.json")["cases"]:
        if "tokens" in case:
            pricing = ModelPricing.from_wire(case["pricing"])
            bought = affordable_output_tokens(pricing, case["remainingUsd"], case["estimatedInputTokens"])
            endless = case["tokens"] is None  # what JSON makes of an infinite number
            assert bought == (math.inf if endless else case["tokens"]), case
