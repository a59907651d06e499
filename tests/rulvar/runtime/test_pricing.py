"""What a usage costs, to the last bit: the figures were worked out in the order that the formula gives."""

from __future__ import annotations

import math

from rulvar.contracts.capabilities import ModelPricing, PriceTier
from rulvar.contracts.usage import Usage
from rulvar.runtime.pricing import affordable_output_tokens, price_components

PRICES = ModelPricing(
    input_usd_per_m_tok=3,
    output_usd_per_m_tok=15,
    cache_write_usd_per_m_tok=3.75,
    cache_write1h_usd_per_m_tok=6,
    tiers=(PriceTier(above_input_tokens=1000, input_multiplier=2.5, output_multiplier=1.2),),
)


def written(five_minutes: int, hour: int, total: int | None = None) -> Usage:
    total = five_minutes + hour if total is None else total
    return Usage(
        input_tokens=total,
        output_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=total,
        cache_write5m_tokens=five_minutes,
        cache_write1h_tokens=hour,
    )


def test_a_tier_prices_the_sum_of_both_kinds_of_cache_writes() -> None:
    cost = price_components(PRICES, written(63_135, 83_014)).cache_write_usd
    assert cost == (63_135 / 1e6 * 3.75 + 83_014 / 1e6 * 6) * 2.5
    assert cost != 63_135 / 1e6 * 3.75 * 2.5 + 83_014 / 1e6 * 6 * 2.5


def test_a_share_that_is_more_than_all_writes_is_no_credit() -> None:
    assert price_components(PRICES, written(0, 800, total=500)).cache_write_usd == 800 / 1e6 * 6


def test_output_that_costs_nothing_or_nobody_knows_what_has_no_bound() -> None:
    for given, written in ((3, 0), (3, math.nan), (math.nan, 3)):
        pricing = ModelPricing(input_usd_per_m_tok=given, output_usd_per_m_tok=written)
        assert math.isinf(affordable_output_tokens(pricing, 0.0, 10))
