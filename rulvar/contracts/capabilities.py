"""What a model can do and what it costs, as its adapter declares it."""

from __future__ import annotations

from typing import Literal

from rulvar.contracts.messages import Wire

__all__ = ["ModelCaps", "ModelPricing", "PriceTier"]

StructuredOutput = Literal["native", "forced-tool", "prompt"]


class PriceTier(Wire, frozen=True, kw_only=True):
    """Re-prices a whole request whose input is strictly above the threshold (tokens)."""

    above_input_tokens: int
    input_multiplier: float
    output_multiplier: float


class ModelPricing(Wire, frozen=True, kw_only=True):
    """Prices in USD per million tokens."""

    input_usd_per_m_tok: float
    output_usd_per_m_tok: float
    cache_read_usd_per_m_tok: float | None = None
    cache_write_usd_per_m_tok: float | None = None
    cache_write1h_usd_per_m_tok: float | None = None
    tiers: tuple[PriceTier, ...] | None = None


class ModelCaps(Wire, frozen=True, kw_only=True):
    """Capabilities of one model; token counts are tokens."""

    structured_output: StructuredOutput
    supports_temperature: bool
    supports_parallel_tools: bool
    reasoning_efforts: tuple[str, ...]
    context_window: int
    max_output_tokens: int
    min_output_tokens_per_turn: int | None = None
    prompt_caching: Literal["explicit", "implicit", "none"] | None = None
    pricing: ModelPricing | None = None
