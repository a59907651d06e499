"""An adapter that tells counts or prices that cannot be gives no run a credit, and its answer does not count."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rulvar import Ctx, Engine, workflow
from rulvar.contracts.capabilities import ModelPricing
from rulvar.contracts.stream import Finish
from rulvar.contracts.usage import Usage, usage_violations
from rulvar.stores import InMemoryStore
from rulvar.testing import FAKE_MODEL_REF, FakeAdapter


def counts(**changed: Any) -> Usage:
    fields = {"input_tokens": 10, "output_tokens": 10, "cache_read_tokens": 0, "cache_write_tokens": 0}
    return Usage(**{**fields, **changed})


class Telling(FakeAdapter):
    """Tells one usage with every answer."""

    def __init__(self, usage: Usage, **options: Any) -> None:
        super().__init__(agents={"*": "x"}, **options)
        self._usage = usage

    def stream(self, request: Any, signal: Any = None) -> AsyncIterator[Any]:
        return self._changed(super().stream(request, signal))

    async def _changed(self, events: Any) -> AsyncIterator[Any]:
        async for event in events:
            yield Finish(finish=event.finish, usage=self._usage) if isinstance(event, Finish) else event


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    ended = await ctx.agent("hi", result="full")
    return [ended.status, ended.error and ended.error.to_wire(), ctx.budget.spent().usd]


async def run_with(adapter: FakeAdapter, **options: Any) -> Any:
    async with Engine(
        adapters=[adapter], journal=InMemoryStore(), routing={"loop": FAKE_MODEL_REF}, **options
    ) as engine:
        return await engine.run(flow, run_id="r").result(), await engine.store.load("r")


@pytest.mark.parametrize(
    ("told", "fields"),
    [
        ({"output_tokens": -100}, ["outputTokens"]),
        ({"input_tokens": 1.5}, ["inputTokens"]),
        ({"input_tokens": math.nan}, ["inputTokens"]),
        ({"output_tokens": math.inf}, ["outputTokens"]),
        ({"output_tokens": "many"}, ["outputTokens"]),
        ({"cache_read_tokens": 11}, ["inputTokens"]),
        ({"cache_write_tokens": 5, "cache_write1h_tokens": 4}, ["cacheWrite5mTokens"]),
    ],
)
async def test_an_answer_with_counts_that_cannot_be_fails_and_is_paid_for(told: Any, fields: Any) -> None:
    pricing = {FAKE_MODEL_REF: {"inputUsdPerMTok": 1e6, "outputUsdPerMTok": 1e6}}
    outcome, entries = await run_with(Telling(counts(**told)), pricing=pricing)
    status, error, spent = outcome.value
    assert (status, error["data"]) == ("error", {"kind": "transport", "reason": "invalid_response"})
    assert error["message"].endswith(f"cannot be: {', '.join(fields)}")
    assert spent == outcome.cost.total_usd >= 10
    assert usage_violations(outcome.usage) == []
    (end,) = [entry.to_wire() for entry in entries if entry.kind == "agent" and entry.ref is not None]
    assert usage_violations(end["usage"]) == []
    assert usage_violations(end["providerCalls"][0]["usage"]) == []


@pytest.mark.parametrize("rate", [-1e6, math.nan, math.inf])
async def test_a_price_that_cannot_be_is_no_price(rate: float) -> None:
    pricing = ModelPricing(input_usd_per_m_tok=1, output_usd_per_m_tok=rate)
    outcome, _ = await run_with(Telling(counts(), caps_overrides={"pricing": pricing}))
    assert (outcome.value[0], outcome.cost.total_usd) == ("ok", 0)
    assert outcome.cost.unpriced == (FAKE_MODEL_REF,)
