"""Usages that adapters tell: what cannot be fails the call, and is never a credit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rulvar import Engine, ModelCaps, workflow
from rulvar.contracts.stream import Finish, FinishInfo, PartialUsage, StreamError, UsageUpdate, WireError
from rulvar.contracts.usage import Usage
from rulvar.runtime.told_usage import repaired_update, repaired_usage

CAPS = ModelCaps.from_wire(
    {
        "structuredOutput": "native",
        "supportsTemperature": True,
        "supportsParallelTools": True,
        "reasoningEfforts": [],
        "contextWindow": 1000,
        "maxOutputTokens": 100,
        "pricing": {"inputUsdPerMTok": 1, "outputUsdPerMTok": 10},
    }
)


class Telling:
    """An adapter whose model tells whatever a test wants of it."""

    id = "telling"

    def __init__(self, *events: Any) -> None:
        self.events = events

    def caps(self, model: str) -> ModelCaps:
        return CAPS

    async def stream(self, request: Any, signal: Any = None) -> AsyncIterator[Any]:
        for event in self.events:
            yield event


@workflow
async def once(ctx: Any) -> Any:
    return await ctx.agent("hi")


async def outcome_of(*events: Any) -> Any:
    async with Engine(adapters=[Telling(*events)], routing={"loop": "telling:m"}) as engine:
        return await engine.run(once).result()


def usage(given: int, written: int, read: int = 0, stored: int = 0, **split: int) -> Usage:
    return Usage(
        input_tokens=given,
        output_tokens=written,
        cache_read_tokens=read,
        cache_write_tokens=stored,
        **split,
    )


def finished(told: Usage) -> Finish:
    return Finish(finish=FinishInfo(reason="stop"), usage=told)


@pytest.mark.parametrize(
    ("told", "named", "given", "written"),
    [
        (usage(100, -100), "outputTokens", 100, 0),
        (usage(-7, 5), "inputTokens", 0, 5),
        (usage(10, 5, read=20), "inputTokens", 10, 5),
        (usage(10, 5, stored=4, cache_write5m_tokens=1), "cacheWrite5mTokens", 10, 5),
        (usage(10, 2**53), "outputTokens", 10, 2**53 - 1),
    ],
)
async def test_a_final_usage_that_cannot_be_fails_the_call_and_is_accounted_as_far_as_it_can_be(
    told: Usage, named: str, given: int, written: int
) -> None:
    outcome = await outcome_of(finished(told))
    assert outcome.status == "error"
    assert named in outcome.error.message
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (given, written)
    assert outcome.cost.total_usd >= 0


async def test_counts_on_the_way_that_cannot_be_fail_the_call_whatever_its_end_tells() -> None:
    update = UsageUpdate(usage=PartialUsage(input_tokens=-5))
    outcome = await outcome_of(update, finished(usage(10, 5)))
    assert outcome.status == "error"
    assert "inputTokens" in outcome.error.message
    assert outcome.usage.input_tokens == 10


async def test_a_failure_of_the_provider_is_told_before_a_usage_that_cannot_be() -> None:
    update = UsageUpdate(usage=PartialUsage(output_tokens=-5))
    error = WireError(code="agent", message="the model is gone", retryable=False, data={"kind": "terminal"})
    outcome = await outcome_of(update, StreamError(error=error))
    assert "the model is gone" in outcome.error.message
    assert outcome.usage.output_tokens == 0


async def test_a_usage_that_can_be_is_left_as_it_is() -> None:
    for told in (
        usage(10, 5),
        usage(10, 5, 4, 6),
        usage(10, 5, 0, 6, cache_write5m_tokens=2, cache_write1h_tokens=4),
    ):
        assert repaired_usage(told) == (told, [])
    seen = PartialUsage(input_tokens=3, cache_read_tokens=9)
    assert repaired_update(seen) == (seen, [])
    outcome = await outcome_of(UsageUpdate(usage=seen), finished(usage(10, 5)))
    assert outcome.status == "ok"


def test_counts_on_the_way_are_rounded_up_and_never_below_zero() -> None:
    seen: Any = PartialUsage(input_tokens=-3, output_tokens=2)
    told, broken = repaired_update(seen)
    assert (told.input_tokens, told.output_tokens, broken) == (0, 2, ["inputTokens"])
