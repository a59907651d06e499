"""An entry is billed exchange by exchange where it tells them all, and by model where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.capabilities import ModelPricing, PriceTier
from rulvar.contracts.usage import Usage
from rulvar.errors import ConfigError
from rulvar.runtime.billing import bill_entry
from rulvar.runtime.pricing import price_usd

TIERED = ModelPricing(
    input_usd_per_m_tok=1,
    output_usd_per_m_tok=10,
    tiers=(PriceTier(above_input_tokens=100, input_multiplier=2, output_multiplier=3),),
)
PRICES = {"a:big": TIERED, "a:small": ModelPricing(input_usd_per_m_tok=1, output_usd_per_m_tok=1)}


def price(model: str, usage: Usage) -> float | None:
    pricing = PRICES.get(model)
    return None if pricing is None else price_usd(pricing, usage)


def tokens(given: int, written: int, **more: int) -> dict[str, int]:
    return {
        "inputTokens": given,
        "outputTokens": written,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        **more,
    }


def call(given: int, written: int, model: str = "a:big", role: str = "loop", **more: int) -> dict[str, Any]:
    return {"servedBy": model, "role": role, "usage": tokens(given, written, **more)}


def entry(given: int, written: int, calls: Any = None, **more: Any) -> dict[str, Any]:
    wire = {"seq": 7, "usage": tokens(given, written), "servedBy": "a:big", **more}
    return wire if calls is None else {**wire, "providerCalls": calls}


def test_a_tier_is_for_the_exchange_that_crosses_its_threshold() -> None:
    bill = bill_entry(entry(120, 20, [call(60, 10), call(60, 10)]), price)
    assert bill.usd == 2 * (60 / 1e6 + 10 / 1e6 * 10)
    assert bill.per_call
    crossed = bill_entry(entry(120, 20, [call(110, 10), call(10, 10)]), price)
    assert crossed.usd == (110 / 1e6 * 2 + 10 / 1e6 * 10 * 3) + (10 / 1e6 + 10 / 1e6 * 10)


@pytest.mark.parametrize(
    "calls",
    [
        None,
        [],
        "none",
        [call(60, 10)],
        [call(60, 10), call(60, 10, reasoningTokens=1)],
        [call(60, 10), call(60, 11)],
        [call(120, 20, model="a:small")],
        [3, {"servedBy": 4}, {"servedBy": "a:big"}],
    ],
)
def test_exchanges_that_do_not_sum_to_the_entry_leave_it_billed_as_a_whole(calls: Any) -> None:
    bill = bill_entry(entry(120, 20, calls), price)
    assert bill.usd == 120 / 1e6 * 2 + 20 / 1e6 * 10 * 3
    assert not bill.per_call


def test_each_model_of_an_entry_is_judged_by_itself() -> None:
    slices = [
        call(70, 0, role="loop"),
        call(50, 0, role="extract"),
        call(5, 0, "a:small"),
        call(9, 9, "a:none"),
    ]
    told = [call(70, 0), call(50, 0, role="extract"), call(4, 0, "a:small")]
    bill = bill_entry(entry(134, 9, told, usageByModel=slices), price)
    assert [(unit.model, unit.role, unit.is_exchange) for unit in bill.units] == [
        ("a:big", "loop", True),
        ("a:big", "extract", True),
        ("a:small", "loop", False),
    ]
    assert bill.usd == 70 / 1e6 + 50 / 1e6 + 5 / 1e6
    assert (bill.unpriced, bill.per_call, bill.cost_usd) == (("a:none",), False, bill.usd)


def test_a_model_without_a_price_has_no_cost() -> None:
    bill = bill_entry({"usage": tokens(1, 1), "servedBy": "a:none"}, price)
    assert (bill.usd, bill.cost_usd, bill.unpriced) == (0.0, None, ("a:none",))


def test_an_entry_without_tokens_costs_nothing() -> None:
    bill = bill_entry({"servedBy": "a:big", "providerCalls": []}, price)
    assert (bill.usd, bill.cost_usd, bill.units, bill.per_call) == (0.0, 0.0, (), False)


def test_a_usage_that_is_none_is_refused_by_its_entry() -> None:
    with pytest.raises(ConfigError, match="entry 7"):
        bill_entry(entry(1, 1, [{"servedBy": "a:big", "usage": "many"}]), price)
