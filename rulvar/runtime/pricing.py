"""From tokens to money. The order of operations is fixed: figures match the original's to the last bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rulvar.contracts.capabilities import ModelPricing, PriceTier
from rulvar.contracts.usage import Usage

__all__ = ["PriceComponents", "affordable_output_tokens", "price_components", "price_usd"]

_M = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceComponents:
    """Cost of one usage by component, in USD."""

    input_usd: float
    output_usd: float
    cached_input_usd: float
    cache_write_usd: float

    @property
    def total_usd(self) -> float:
        """Sum of the components."""
        return self.input_usd + self.output_usd + self.cached_input_usd + self.cache_write_usd


def price_usd(pricing: ModelPricing, usage: Usage) -> float:
    """Return the cost of a usage in USD."""
    paid, out, read, written = _amounts(pricing, usage)
    return paid + out + read + written


def price_components(pricing: ModelPricing, usage: Usage) -> PriceComponents:
    """Return the cost of a usage by component.

    A tier re-prices the whole request once its input is strictly above the threshold; the highest
    threshold below wins. Without a cache price, cached tokens cost what input costs.
    """
    paid, out, read, written = _amounts(pricing, usage)
    return PriceComponents(input_usd=paid, output_usd=out, cached_input_usd=read, cache_write_usd=written)


def _amounts(pricing: ModelPricing, usage: Usage) -> tuple[float, float, float, float]:
    by_in, by_out = 1.0, 1.0
    if pricing.tiers and (tier := _tier(pricing, usage.input_tokens)):
        by_in, by_out = tier.input_multiplier, tier.output_multiplier
    rate = pricing.input_usd_per_m_tok
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    paid = max(0, usage.input_tokens - read - written) / _M * rate * by_in
    out = usage.output_tokens / _M * pricing.output_usd_per_m_tok * by_out
    if not read and not written:
        return paid, out, 0.0, 0.0
    read_rate = _either(pricing.cache_read_usd_per_m_tok, rate)
    write_rate = _either(pricing.cache_write_usd_per_m_tok, rate)
    hour_rate = _either(pricing.cache_write1h_usd_per_m_tok, write_rate)
    hour = usage.cache_write1h_tokens or 0
    cost = (max(0, written - hour) / _M * write_rate + hour / _M * hour_rate) * by_in
    return paid, out, read / _M * read_rate * by_in, cost


def affordable_output_tokens(pricing: ModelPricing, remaining_usd: float, input_tokens: int) -> float:
    """Return how many output tokens the rest of a budget buys after that much input.

    Negative when the input alone is too dear; infinite when output is free.
    """
    tier = _tier(pricing, input_tokens)
    by_in, by_out = (tier.input_multiplier, tier.output_multiplier) if tier else (1, 1)
    rate = pricing.output_usd_per_m_tok * by_out
    if rate <= 0:
        return math.inf
    rest = remaining_usd - input_tokens / _M * pricing.input_usd_per_m_tok * by_in
    tokens = rest / rate * _M
    return math.floor(tokens) if math.isfinite(tokens) else math.inf


def _tier(pricing: ModelPricing, input_tokens: int) -> PriceTier | None:
    below = [tier for tier in pricing.tiers or () if input_tokens > tier.above_input_tokens]
    return max(below, key=lambda tier: tier.above_input_tokens, default=None)


def _either(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price
