"""Models as data: capabilities and prices that say when they were verified."""

from __future__ import annotations

from datetime import date

import pytest

from rulvar import ModelCaps
from rulvar.adapters.catalogue import (
    ANTHROPIC_MODELS,
    OPENAI_MODELS,
    anthropic_facts,
    facts_with,
    openai_facts,
)
from rulvar.contracts.usage import Usage
from rulvar.errors import ConfigError
from rulvar.runtime.pricing import price_usd

LISTED = [*ANTHROPIC_MODELS.items(), *OPENAI_MODELS.items()]


@pytest.mark.parametrize(("model", "facts"), LISTED, ids=[name for name, _ in LISTED])
def test_a_listed_price_says_when_it_was_verified(model: str, facts: object) -> None:
    row = ANTHROPIC_MODELS.get(model) or OPENAI_MODELS[model]
    assert row.caps.pricing is not None
    assert isinstance(row.verified, date)
    pricing = row.caps.pricing
    assert 0 < pricing.input_usd_per_m_tok < pricing.output_usd_per_m_tok
    read = pricing.cache_read_usd_per_m_tok
    assert read is None or 0 < read < pricing.input_usd_per_m_tok
    assert ModelCaps.from_wire(row.caps.to_wire()) == row.caps


def test_an_unlisted_model_has_no_price() -> None:
    for facts in (anthropic_facts("claude-next-9"), openai_facts("gpt-99"), openai_facts("gpt-5.4-preview")):
        assert facts.caps.pricing is None
        assert facts.verified is None
        assert facts.caps.structured_output == "native"


def test_a_dated_snapshot_is_its_model_and_a_sibling_is_not() -> None:
    assert anthropic_facts("claude-haiku-4-5-20251001") is ANTHROPIC_MODELS["claude-haiku-4-5"]
    assert openai_facts("gpt-5.5-2026-04-23") is OPENAI_MODELS["gpt-5.5"]
    assert openai_facts("gpt-5.4-nano").caps.pricing is None
    for snapshot in (
        "gpt-5.5-20260423",
        "gpt-5.6-sol-preview",
        "gpt-5.6-2026-08",
        "gpt-5.6-sol-2026-08-01-2",
    ):
        assert openai_facts(snapshot).caps.pricing is None
    for snapshot in ("claude-haiku-4-5-2025-10-01", "claude-sonnet-5-preview", "claude-haiku-4-5-2025100"):
        assert anthropic_facts(snapshot).caps.pricing is None


def test_a_familys_name_is_its_first_model_and_no_other() -> None:
    assert openai_facts("gpt-5.6") is openai_facts("gpt-5.6-sol") is openai_facts("gpt-5.6-2026-08-01")
    assert openai_facts("gpt-5.6-luna").caps.pricing != openai_facts("gpt-5.6-sol").caps.pricing
    assert openai_facts("gpt-5.6-terra-2026-08-01") is OPENAI_MODELS["gpt-5.6-terra"]


@pytest.mark.parametrize("caching", ["explicit", "implicit", "none", None])
def test_how_a_provider_caches_is_told_in_the_words_of_the_wire(caching: str | None) -> None:
    wire = {**openai_facts("gpt-5.5").caps.to_wire(), "promptCaching": caching}
    assert ModelCaps.from_wire(wire).prompt_caching == caching


def test_long_prompts_of_tiered_models_cost_more() -> None:
    pricing = OPENAI_MODELS["gpt-6-sol"].caps.pricing
    assert pricing is not None
    short = Usage(input_tokens=272_000, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0)
    long = Usage(input_tokens=272_001, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0)
    assert price_usd(pricing, long) > 1.99 * price_usd(pricing, short)


def test_capabilities_can_be_refined_field_by_field() -> None:
    base = anthropic_facts("claude-sonnet-5")
    refined = facts_with(base, {"max_output_tokens": 10, "promptCaching": None}, "models")
    assert refined.caps.max_output_tokens == 10
    assert refined.caps.prompt_caching is None
    assert refined.caps.pricing == base.caps.pricing
    priced = facts_with(base, {"pricing": {"input_usd_per_m_tok": 1, "output_usd_per_m_tok": 2}}, "models")
    assert priced.caps.pricing is not None
    assert priced.caps.pricing.output_usd_per_m_tok == 2
    with pytest.raises(ConfigError, match=r"models\.windows"):
        facts_with(base, {"windows": 1}, "models")
