"""When a run's money is used up: how it ends, what a call is told, and what starts all the same."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, tool, workflow
from rulvar.agents import Agent
from rulvar.errors import BudgetExhaustedError
from rulvar.stores import InMemoryStore
from rulvar.testing import FAKE_MODEL_REF, FakeAdapter, create_test_engine, fake_tool_calls

PAID = {FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}
"""Every answer of eight characters costs 2 USD."""
FREE = {"flat_reserve_usd": 0}


def engine_of(agents: Any = "eight ch", **options: Any) -> Any:
    options = {"pricing": PAID, "budget_defaults": FREE, **options}
    return create_test_engine(agents={"*": agents} if not isinstance(agents, dict) else agents, **options)


def calls(number: int) -> Any:
    @workflow(name="calls")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent(f"call {n}") for n in range(number)]

    return flow


async def settle_of(engine: Any) -> Any:
    entries = await engine.store.load("r")
    return next(e.value for e in reversed(entries) if e.value and e.value.get("decisionType") == "run_settle")


async def test_a_run_that_reaches_its_ceiling_ends_exhausted_with_what_it_returned() -> None:
    async with engine_of() as engine:
        outcome = await engine.run(calls(2), run_id="r", budget_usd=4).result()
        assert (outcome.status, outcome.value, outcome.error) == ("exhausted", ["eight ch"] * 2, None)
        settled = await settle_of(engine)
        assert settled["runStatus"] == "exhausted"
        assert len(settled["outputHash"]) == 64
        assert (await engine.run(calls(2), budget_usd=4.01).result()).status == "ok"


async def test_a_refusal_that_the_workflow_caught_is_told_all_the_same() -> None:
    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.agent("dear", est_cost=9)
        except BudgetExhaustedError:
            return "went on without"

    async with engine_of() as engine:
        outcome = await engine.run(flow, budget_usd=5).result()
    assert (outcome.status, outcome.value, outcome.error) == ("exhausted", "went on without", None)


async def test_exhausted_wins_over_whatever_else_went_wrong() -> None:
    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("one")
        raise ValueError("unrelated")

    async with engine_of() as engine:
        outcome = await engine.run(flow, run_id="r", budget_usd=2).result()
        assert "outputHash" not in await settle_of(engine)
    assert (outcome.status, outcome.value, outcome.error) == ("exhausted", None, None)
    assert outcome.raised is not None
    assert outcome.raised.type == "ValueError"


async def test_a_child_that_is_out_of_money_does_not_exhaust_the_run() -> None:
    child = calls(3)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.workflow(child)
        except BudgetExhaustedError as error:
            return error.data["account"]

    async with engine_of() as engine:
        outcome = await engine.run(flow, budget_usd=10).result()
    assert (outcome.status, outcome.value) == ("ok", "wf:calls:0")


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def looks(call: Any) -> Any:
    return fake_tool_calls({"name": "look", "args": {}})  # costs 8


@pytest.mark.parametrize("on_error", ["raise", "null"])
@pytest.mark.parametrize("result", ["value", "full"])
async def test_an_agent_that_the_money_does_not_reach_for_raises_however_it_was_called(
    on_error: str, result: str
) -> None:
    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        try:
            return await ctx.agent("x", tools=[look], on_error=on_error, result=result)
        except BudgetExhaustedError as error:
            return dict(error.data)

    async with engine_of(looks) as engine:
        outcome = await engine.run(flow, budget_usd=16).result()
    told = outcome.value
    assert outcome.status == "exhausted"
    assert (told["scope"], told["source"], told["rootSpentUsd"], told["rootCeilingUsd"]) == (
        "",
        "root",
        16,
        16,
    )
    assert (told["crossedScope"], told["crossedCeilingUsd"], told["crossedSpentUsd"]) == ("run", 16, 16)
    assert isinstance(told["entryRef"], int)


async def test_no_turn_is_sent_once_a_ceiling_is_reached_though_it_would_cost_nothing() -> None:
    free = {FAKE_MODEL_REF: {"inputUsdPerMTok": 1e6, "outputUsdPerMTok": 0}}
    async with engine_of(looks, pricing=free) as engine:

        @workflow(name="w")
        async def flow(ctx: Ctx, args: Any) -> Any:
            return await ctx.agent("x", tools=[look])

        outcome = await engine.run(flow, budget_usd=1).result()
        assert outcome.status == "exhausted"
        assert len(engine.fake.calls) == 1


async def test_a_model_without_a_price_needs_no_promise_and_is_warned_of_once() -> None:
    adapter = FakeAdapter(agents={"*": "eight ch"}, caps_overrides={"pricing": None})
    async with Engine(
        adapters=[adapter], journal=InMemoryStore(), routing={"loop": FAKE_MODEL_REF}
    ) as engine:
        handle = engine.run(calls(2), budget_usd=0.1)
        outcome = await handle.result()
        told = [event async for event in handle.events if event["type"] == "log"]
        bare = engine.run(calls(2))
        await bare.result()
        assert [event async for event in bare.events if event["type"] == "log"] == []
    assert (outcome.status, outcome.cost.total_usd) == ("ok", 0)
    assert [event["level"] for event in told] == ["warn"]
    assert FAKE_MODEL_REF in told[0]["msg"]


async def test_a_child_gets_its_part_of_the_ceiling_and_its_calls_promise_no_more() -> None:
    child = calls(1)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(child)

    async with create_test_engine(agents={"*": "eight ch"}) as engine:  # the flat promise is 0.5
        outcome = await engine.run(flow, run_id="r", budget_usd=1).result()
        assert (outcome.status, outcome.value) == ("ok", ["eight ch"])
        entries = await engine.store.load("r")
    (decision,) = [
        e.value["decision"] for e in entries if e.value and "childScope" in e.value and "decision" in e.value
    ]
    assert decision["verdict"]["reserve"] == {
        "reserveUsd": 0.3,
        "source": "default",
        "clampedBy": "fraction-ceiling",
        "childCeilingUsd": 0.3,
    }


async def test_a_child_that_is_refused_money_leaves_its_refusal_in_the_journal() -> None:
    child = calls(1)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("first")
        return await ctx.workflow(child)

    async with engine_of() as engine:
        handle = engine.run(flow, run_id="r", budget_usd=2)
        outcome = await handle.result()
        assert (outcome.status, outcome.error.data["reason"]) == ("exhausted", {"code": "budget"})
        told = [event async for event in handle.events if event["type"] == "spawn:rejected"]
        assert [(event["code"], event["agentType"], event.replayed) for event in told] == [
            ("budget", "calls", False)
        ]
        again = engine.resume("r", flow)
        assert (await again.result()).status == "exhausted"
        told = [event async for event in again.events if event["type"] == "spawn:rejected"]
        assert [event.replayed for event in told] == [True]
        raised = await engine.resume("r", flow, budget_usd=20).result()
        assert (raised.status, raised.value) == ("ok", ["eight ch"])
        replayed = await engine.resume("r", flow).result()
        assert (replayed.status, replayed.value) == ("ok", ["eight ch"])
        assert len(engine.fake.calls) == 2


@pytest.mark.parametrize("kind", ["agent", "child"])
async def test_a_run_starts_no_more_than_it_may_in_its_life(kind: str) -> None:
    child = calls(0)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        for number in range(3):
            await (ctx.agent(f"call {number}") if kind == "agent" else ctx.workflow(child, {"n": number}))

    async with engine_of(budget_defaults={**FREE, "max_spawns": 2}) as engine:
        outcome = await engine.run(flow).result()
    assert (outcome.status, outcome.error.code) == ("exhausted", "budget_exhausted")
    told = {"cap": 2} if kind == "agent" else {"reason": {"code": "lifetime"}}
    assert outcome.error.data == told


async def test_what_was_admitted_once_goes_on_whatever_is_left() -> None:
    flow = calls(1)
    async with create_test_engine(agents={"*": "eight ch"}) as engine:  # the flat promise is 0.5
        refused = await engine.run(flow, budget_usd=0.4).result()
        assert (refused.status, engine.fake.calls) == ("exhausted", [])
        await engine.run(flow, run_id="r").result()
        await engine.store.append("crashed", (await engine.store.load("r"))[:1])
        meta = {
            "runId": "crashed",
            "status": "running",
            "segments": 1,
            "workflowName": "calls",
            "budgetUsd": 0.4,
        }
        await engine.store.save_meta("crashed", meta)
        resumed = await engine.resume("crashed", flow).result()
    assert (resumed.status, resumed.value) == ("ok", ["eight ch"])


async def test_what_is_left_is_told_without_promises_and_not_at_all_without_a_ceiling() -> None:
    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        async def ask() -> Any:
            left = ctx.budget.remaining()
            return [left.usd, left.spawns, left.to_wire()]

        await ctx.agent("one")
        return await ctx.parallel([lambda: ctx.agent("two", est_cost=1), ask])

    async with engine_of() as engine:
        bounded = await engine.run(flow, budget_usd=9).result()
        free = await engine.run(flow).result()
    usage = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0}
    usd, spawns, wire = bounded.value[1]
    assert usd == 7
    assert wire == {"usd": 7, "usage": usage, "agentsSpawned": spawns}
    assert free.value[1][0] is None
    assert free.value[1][2] is None


async def test_children_count_among_what_was_started() -> None:
    child = calls(2)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> Any:
        await ctx.workflow(child)
        return ctx.budget.spent().to_wire()["agentsSpawned"]

    async with engine_of() as engine:
        handle = engine.run(flow, run_id="r")
        assert (await handle.result()).value == 3
        (end,) = [event async for event in handle.events if event["type"] == "run:end"]
        assert end["envelope"]["agentsSpawned"] == 3
        assert (await engine.resume("r", flow).result()).value == 3


async def test_an_agent_value_of_a_free_model_needs_no_money() -> None:
    agent = Agent(id="free", model=FAKE_MODEL_REF, instructions="Answer.")
    async with Engine(adapters=[FakeAdapter(agents={"*": "hello"})], journal=InMemoryStore()) as engine:
        outcome = await engine.run(agent, "hi", budget_usd=0).result()
    assert (outcome.status, outcome.value) == ("ok", "hello")
