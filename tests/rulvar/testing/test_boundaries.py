"""What a fixture and overrides may name: tools, models, services; the rest is a typing error."""

from __future__ import annotations

from typing import Any

import pytest
from orders import Orders

from rulvar import Agent, MachineCtx, StateMachine, agent_as_tool, inject, tool, transition, with_preflight
from rulvar.errors import ConfigError
from rulvar.testing import (
    final,
    run_tool,
    run_transition,
    run_workflow,
    scripted_model,
    tool_calls,
    tool_mock,
)

LOOK = {"id": "c1", "tool_id": "orders.lookup", "input": {"order_id": "A1"}}


class Desk:
    """A service."""


def desk(orders: Orders, model: Any = None, **options: Any) -> Agent[Any]:
    steps = [tool_calls(LOOK), final("shipped")]
    return Agent(id="desk", model=model or scripted_model(steps), tools=[orders.lookup], **options)


def shop(orders: Orders) -> type[StateMachine]:
    """Return a machine that calls a tool, and an agent that hands over to another agent."""
    inner = desk(orders, input={"type": "string"})
    steps = [tool_calls({"id": "c1", "tool_id": "desk", "input": {"input": "A1"}}), final("done")]
    outer = Agent(id="outer", model=scripted_model(steps, id="outer"), tools=[agent_as_tool(inner)])

    class Shop(StateMachine):
        @transition
        async def serve(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(orders.peek, {"order_id": "A1"})
            ctx.result["said"] = await ctx.workflow(outer, "hi")

    return Shop


async def test_an_override_reaches_the_tools_of_an_agent_below_an_agent() -> None:
    orders = Orders()
    mock = tool_mock(orders.lookup).returns({"data": {"status": "mocked"}})
    run = await run_workflow(shop(orders), overrides={orders.lookup: mock}, budget_defaults={"max_depth": 4})
    assert run.result == {"said": "done"}
    mock.assert_awaited_once_with({"order_id": "A1"})


@pytest.mark.parametrize("token", ["orders.refund", "orders.lookupp", Desk, "refund"])
async def test_a_token_that_nothing_asks_for_is_refused_before_anything_runs(token: Any) -> None:
    orders = Orders()
    chosen = orders.refund if token == "refund" else token
    told = getattr(chosen, "id", None) or getattr(chosen, "__name__", chosen)
    with pytest.raises(ConfigError, match=f"overrides: .*{told}.*orders.lookup"):
        await run_workflow(shop(orders), overrides={chosen: tool_mock("x")})
    with pytest.raises(ConfigError, match=told):
        await run_tool(orders.lookup, {"order_id": "A1"}, overrides={chosen: tool_mock("x")})
    with pytest.raises(ConfigError, match=told):
        await run_transition(shop(orders), "serve", overrides={chosen: tool_mock("x")})
    assert not orders.executions


async def test_a_service_that_a_tool_asks_for_may_be_overridden() -> None:
    token = object()

    @tool
    def ask(desk: Any = inject(token)) -> str:
        return str(desk)

    assert (await run_tool(ask, overrides={token: "mine"})).output == "mine"


async def test_a_stand_in_for_a_tool_stands_for_it_with_a_check_in_front_too() -> None:
    orders = Orders()
    guarded = with_preflight(orders.refund, lambda order_id, amount: None)

    class Refunding(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["ok"] = (await ctx.call_tool(guarded, {"order_id": "A1", "amount": 1}))["ok"]

    mock = tool_mock(orders.refund).returns({"data": {"ok": "mocked"}})
    assert (await run_workflow(Refunding, overrides={orders.refund: mock})).result == {"ok": "mocked"}


@pytest.mark.parametrize("by", ["name", "id", "adapter"])
async def test_the_turns_of_a_model_that_an_agent_brings_are_recorded_and_replayed(by: str) -> None:
    def named(model: Any) -> list[Any]:
        return [{"name": "model", "id": "model:scripted", "adapter": model}[by]]

    orders = Orders()
    agent = desk(orders)
    first = await run_workflow(agent, "hi", record=True, replay_tools=named(agent.model))
    assert first.recordings is not None
    assert [item.tool for item in first.recordings.recordings] == ["model:scripted"] * 2
    assert first.recordings.recordings[0].config["model"] == "scripted-model"
    model = scripted_model([])
    script = {"replay": first.recordings, "replay_tools": named(model)}
    again = await run_workflow(desk(orders, model), "hi", **script)
    assert (again.outcome.value, model.calls) == ("shipped", [])
    assert orders.executions["orders.lookup"] == 2
    drifted = await run_workflow(desk(orders, model, instructions="Be brief."), "hi", **script)
    assert drifted.outcome.error is not None
    assert drifted.outcome.error.code == "replay_drift"
    assert "Be brief." in drifted.outcome.error.message
