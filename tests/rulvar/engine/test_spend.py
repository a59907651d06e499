"""What a run says that it cost."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool, workflow
from rulvar.errors import BudgetExhaustedError
from rulvar.testing import FAKE_MODEL_REF, create_test_engine, fake_tool_calls


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def answer(call: Any) -> Any:
    if call.prompt == "say" or call.req.messages[-1].role == "tool":
        return "eight ch"
    return fake_tool_calls(*[{"name": "look", "args": {}}] * 3)


async def body(ctx: Ctx, args: Any) -> Any:
    return [await ctx.agent("say"), await ctx.agent("look", tools=[look])]


async def test_a_replay_reports_the_cost_of_the_live_run_to_the_last_bit() -> None:
    engine = create_test_engine(
        agents={"*": answer}, pricing={FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1000}}
    )
    async with engine:
        workflow = define_workflow("w", body)
        live = await engine.run(workflow, run_id="r").result()
        replayed = await engine.resume("r", workflow).result()
    assert live.cost == replayed.cost
    assert live.cost.total_usd == pytest.approx(0.028)


PAID = {"fake:fake-model": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}


def children_of(calls: int) -> Any:
    @workflow(name="kid")
    async def kid(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent(f"call {number}") for number in range(calls)]

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("before")
        try:
            inner = await ctx.workflow(kid)
        except BudgetExhaustedError as error:
            inner = error.data["account"], error.data["ceilingUsd"]
        return [inner, await ctx.agent("after")]

    return flow


async def test_a_resume_gives_a_child_no_more_than_it_was_given_at_first() -> None:
    flow = children_of(5)
    engine = create_test_engine(
        agents={"*": "eight ch"}, pricing=PAID, budget_defaults={"flat_reserve_usd": 0}
    )
    async with engine:  # every call costs 2: of the 20 that are left, the child gets 6
        first = await engine.run(flow, run_id="r", budget_usd=22).result()
        assert first.value == [["wf:kid:0", 6.0], "eight ch"]
        for _ in range(2):
            again = await engine.resume("r", flow).result()
            assert (again.value, again.cost.total_usd) == (first.value, first.cost.total_usd)


async def test_a_child_that_dangles_goes_on_with_the_rest_of_what_it_was_given() -> None:
    flow = children_of(5)
    engine = create_test_engine(
        agents={"*": "eight ch"}, pricing=PAID, budget_defaults={"flat_reserve_usd": 0}
    )
    async with engine:
        first = await engine.run(flow, run_id="r", budget_usd=22).result()
        entries = await engine.store.load("r")
        ended = next(e.seq for e in entries if e.kind == "child" and e.ref is not None)
        for length in range(ended):
            name = f"crashed-{length}"
            await engine.store.append(name, entries[:length])
            meta = {
                "runId": name,
                "status": "running",
                "segments": 1,
                "workflowName": "flow",
                "budgetUsd": 22,
            }
            await engine.store.save_meta(name, meta)
            resumed = await engine.resume(name, flow).result()
            assert (resumed.value, resumed.cost.total_usd) == (first.value, first.cost.total_usd), length


async def test_a_raised_ceiling_raises_what_a_child_gets() -> None:
    flow = children_of(5)
    engine = create_test_engine(
        agents={"*": "eight ch"}, pricing=PAID, budget_defaults={"flat_reserve_usd": 0}
    )
    async with engine:
        await engine.run(flow, run_id="r", budget_usd=22).result()
        raised = await engine.resume("r", flow, budget_usd=42).result()
        assert raised.value == [["eight ch"] * 5, "eight ch"]
