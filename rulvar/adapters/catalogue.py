"""What is known of models: capabilities and prices as data, each row with the day it was verified.

A model that is not listed gets its provider's present-day capabilities and no price: an invented price
would misprice every model that is newer than this table. Give the engine ``pricing=`` for it, or the
adapter ``models=``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from rulvar.contracts.capabilities import ModelCaps, ModelPricing, PriceTier
from rulvar.contracts.messages import camel_case
from rulvar.errors import ConfigError

__all__ = [
    "ANTHROPIC_MODELS",
    "COMPATIBLE_CAPS",
    "OPENAI_MODELS",
    "KnownModels",
    "ModelFacts",
    "anthropic_facts",
    "facts_with",
    "has_price",
    "openai_facts",
]

ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model.

    Attributes:
        caps: what it can do and what it costs.
        verified: the day on which the row was compared with what its provider publishes.
        adaptive_thinking: whether a request asks it to think as much as it needs.
        max_effort: whether the provider's own scale has ``max``; it is sent as ``xhigh`` otherwise.
    """

    caps: ModelCaps
    verified: date | None = None
    adaptive_thinking: bool = True
    max_effort: bool = True


def _anthropic(
    window: int,
    most: int,
    prices: tuple[float, float, float, float, float] | None = None,
    verified: date | None = None,
    *,
    efforts: tuple[str, ...] = ALL_EFFORTS,
    adaptive: bool = True,
    tiers: tuple[PriceTier, ...] | None = None,
) -> ModelFacts:
    """``prices``: input, output, cache read, 5 minute write, 1 hour write; USD per million tokens."""
    pricing = None
    if prices is not None:
        given, written, read, five_minutes, hour = prices
        pricing = ModelPricing(
            input_usd_per_m_tok=given,
            output_usd_per_m_tok=written,
            cache_read_usd_per_m_tok=read,
            cache_write_usd_per_m_tok=five_minutes,
            cache_write1h_usd_per_m_tok=hour,
            tiers=tiers,
        )
    caps = ModelCaps(
        structured_output="native",
        supports_temperature=False,
        supports_parallel_tools=True,
        reasoning_efforts=efforts,
        context_window=window,
        max_output_tokens=most,
        prompt_caching="explicit",
        pricing=pricing,
    )
    return ModelFacts(caps=caps, verified=verified, adaptive_thinking=adaptive)


_M, _K = 1_000_000, 1_000
_OCTOBER = date(2026, 10, 16)
_HAIKU_TIER = (PriceTier(above_input_tokens=100 * _K, input_multiplier=5, output_multiplier=5),)

ANTHROPIC_MODELS: Mapping[str, ModelFacts] = {
    "claude-fable-5-1": _anthropic(_M, 128 * _K, (10, 50, 0.25, 12.5, 20), _OCTOBER),
    "claude-fable-5": _anthropic(_M, 128 * _K, (10, 50, 1, 12.5, 20), _OCTOBER),
    "claude-opus-5-5": _anthropic(_M, 128 * _K, (4, 20, 0.2, 5, 8), _OCTOBER),
    "claude-opus-5": _anthropic(_M, 128 * _K, (5, 25, 0.5, 6.25, 10), _OCTOBER),
    "claude-opus-4-8": _anthropic(_M, 128 * _K, (5, 25, 0.5, 6.25, 10), _OCTOBER),
    "claude-opus-4-7": _anthropic(_M, 128 * _K, (5, 25, 0.5, 6.25, 10), _OCTOBER),
    "claude-opus-4-6": _anthropic(_M, 128 * _K, (5, 25, 0.5, 6.25, 10), _OCTOBER, adaptive=False),
    "claude-sonnet-5-5": _anthropic(_M, 128 * _K, (2, 10, 0.1, 2.5, 4), _OCTOBER),
    "claude-sonnet-5": _anthropic(_M, 128 * _K, (2, 10, 0.2, 2.5, 4), _OCTOBER),
    "claude-sonnet-4-6": _anthropic(_M, 128 * _K, (3, 15, 0.3, 3.75, 6), _OCTOBER, adaptive=False),
    "claude-haiku-5-5": _anthropic(_M, 128 * _K, (0.1, 0.5, 0.01, 0.125, 0.2), _OCTOBER, tiers=_HAIKU_TIER),
    "claude-haiku-4-5": _anthropic(
        200 * _K, 64 * _K, (1, 5, 0.1, 1.25, 2), _OCTOBER, efforts=(), adaptive=False
    ),
}
_ANTHROPIC_UNKNOWN = _anthropic(400 * _K, 64 * _K)


def _openai(
    window: int,
    most: int,
    prices: tuple[float, float, float | None, float | None] | None = None,
    verified: date | None = None,
    *,
    max_effort: bool = False,
    long_context: bool = False,
) -> ModelFacts:
    """``prices``: input, output, cache read, cache write; USD per million tokens."""
    pricing = None
    if prices is not None:
        given, written, read, stored = prices
        pricing = ModelPricing(
            input_usd_per_m_tok=given,
            output_usd_per_m_tok=written,
            cache_read_usd_per_m_tok=read,
            cache_write_usd_per_m_tok=stored,
            tiers=_LONG_CONTEXT if long_context else None,
        )
    caps = ModelCaps(
        structured_output="native",
        supports_temperature=False,
        supports_parallel_tools=True,
        reasoning_efforts=ALL_EFFORTS,
        context_window=window,
        max_output_tokens=most,
        min_output_tokens_per_turn=16,
        prompt_caching="implicit",
        pricing=pricing,
    )
    return ModelFacts(caps=caps, verified=verified, max_effort=max_effort)


_LONG_CONTEXT = (PriceTier(above_input_tokens=272 * _K, input_multiplier=2, output_multiplier=1.5),)
_JULY, _JULY_CUT, _SEPTEMBER = date(2026, 7, 18), date(2026, 7, 31), date(2026, 9, 23)
_SOL = _openai(1_050 * _K, 128 * _K, (5, 30, 0.5, 6.25), _JULY_CUT, max_effort=True, long_context=True)

OPENAI_MODELS: Mapping[str, ModelFacts] = {
    "gpt-6-sol": _openai(
        1_050 * _K, 128 * _K, (2, 10, 0.2, 2.5), _SEPTEMBER, max_effort=True, long_context=True
    ),
    "gpt-6-luna": _openai(
        1_050 * _K, 128 * _K, (0.1, 0.5, 0.01, 0.125), _SEPTEMBER, max_effort=True, long_context=True
    ),
    "gpt-5.6": _SOL,  # what the provider serves under the family's name; its siblings are models of their own
    "gpt-5.6-sol": _SOL,
    "gpt-5.6-terra": _openai(
        1_050 * _K, 128 * _K, (2, 12, 0.2, 2.5), _JULY_CUT, max_effort=True, long_context=True
    ),
    "gpt-5.6-luna": _openai(
        1_050 * _K, 128 * _K, (0.2, 1.2, 0.02, 0.25), _JULY_CUT, max_effort=True, long_context=True
    ),
    "gpt-5.5-pro": _openai(400 * _K, 128 * _K, (30, 180, None, None), _JULY),
    "gpt-5.5": _openai(400 * _K, 128 * _K, (5, 30, 0.5, None), _JULY),
    "gpt-5.4": _openai(272 * _K, 100 * _K, (2.5, 15, 0.25, None), _JULY),
    "gpt-5.4-mini": _openai(272 * _K, 100 * _K, (0.75, 4.5, 0.075, None), _JULY),
}
_OPENAI_UNKNOWN = _openai(272 * _K, 100 * _K)

COMPATIBLE_CAPS = ModelCaps(
    structured_output="prompt",
    supports_temperature=True,
    supports_parallel_tools=False,
    reasoning_efforts=(),
    context_window=8_192,
    max_output_tokens=4_096,
)
"""What is assumed of an endpoint that nothing is known of: the least."""

_DATED = {
    "anthropic": re.compile(r"(.+)-[0-9]{8}"),
    "openai": re.compile(r"(.+)-[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}
"""How each provider names a dated snapshot of a model; any other suffix is another model."""


def anthropic_facts(model: str, models: Mapping[str, ModelFacts] = ANTHROPIC_MODELS) -> ModelFacts:
    """Return what is known of an Anthropic model; a dated snapshot is its model."""
    return _lookup(model, models, _ANTHROPIC_UNKNOWN, _DATED["anthropic"])


def openai_facts(model: str, models: Mapping[str, ModelFacts] = OPENAI_MODELS) -> ModelFacts:
    """Return what is known of an OpenAI model; a dated snapshot is its model."""
    return _lookup(model, models, _OPENAI_UNKNOWN, _DATED["openai"])


def _lookup(
    model: str, models: Mapping[str, ModelFacts], otherwise: ModelFacts, snapshot: re.Pattern[str]
) -> ModelFacts:
    found = models.get(model)
    if found is None and (dated := snapshot.fullmatch(model)):
        found = models.get(dated[1])
    return found or otherwise


def facts_with(facts: ModelFacts, overrides: ModelCaps | Mapping[str, Any] | None, where: str) -> ModelFacts:
    """Return facts with other capabilities: all of them, or single fields in snake_case or camelCase.

    Raises:
        ConfigError: an unknown field, or a value of the wrong type; names it.
    """
    if overrides is None:
        return facts
    if isinstance(overrides, ModelCaps):
        return replace(facts, caps=overrides)
    if not isinstance(overrides, Mapping):
        raise ConfigError(f"{where}: expected ModelCaps or a mapping", data={"field": where})
    wire = facts.caps.to_wire()
    for name, value in overrides.items():
        field = camel_case(name)
        if field not in ModelCaps.__struct_encode_fields__:
            known = ", ".join(ModelCaps.__struct_fields__)
            raise ConfigError(
                f"{where}.{name}: unknown field; use {known}", data={"field": f"{where}.{name}"}
            )
        if value is None:
            wire.pop(field, None)
        else:
            wire[field] = _plain(value)
    try:
        return replace(facts, caps=ModelCaps.from_wire(wire))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}", data={"field": where}) from None


def has_price(caps: ModelCaps) -> bool:
    """Whether tokens of a model cost something; what an answer used must then be told."""
    pricing = caps.pricing
    return pricing is not None and (pricing.input_usd_per_m_tok > 0 or pricing.output_usd_per_m_tok > 0)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_wire"):
        return value.to_wire()
    if isinstance(value, Mapping):
        return {camel_case(name): _plain(item) for name, item in value.items()}
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


class KnownModels:
    """What is known of an adapter's models: a catalogue, refined by the adapter's options.

    Raises:
        ConfigError: an option is wrong; names it.
    """

    def __init__(
        self,
        catalogued: Callable[[str], ModelFacts],
        models: Mapping[str, ModelCaps | Mapping[str, Any]] | None,
        model: str | None,
        pricing: ModelPricing | Mapping[str, Any] | None,
    ) -> None:
        self._catalogued = catalogued
        self._refined = {
            name: facts_with(catalogued(name), caps, f"models[{name!r}]")
            for name, caps in (models or {}).items()
        }
        if pricing is not None:
            if model is None:
                raise ConfigError("pricing: name the model that it is for: model=", data={"field": "pricing"})
            self._refined[model] = facts_with(self(model), {"pricing": pricing}, "pricing")

    def __call__(self, model: str) -> ModelFacts:
        """Return what is known of a model."""
        return self._refined.get(model) or self._catalogued(model)
