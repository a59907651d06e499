"""Agents that run agents: narrowed grants, shared money and counters, failures that go up."""

from __future__ import annotations

from typing import Any

import pytest
from orders import Orders

from rulvar import Engine, InMemoryStore, Tool, ToolRefusal, tool
from rulvar.agents import Agent, Limits, agent_as_tool, with_preflight
from rulvar.errors import ConfigError
from rulvar.testing.script import final, scripted_model, tool_calls

ASK = {"tool_id": "expert", "input": {"input": "what?"}}
ALL = {"model:boss", "model:expert", "tool:expert", "agent:delegate", "tool:orders.lookup", "effect:read"}


def expert(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(id="expert", model=scripted_model(steps, id="expert"), **options)


def boss(child: Tool, *steps: Any, **options: Any) -> Agent[Any]:
    return Agent(id="boss", model=scripted_model(steps, id="boss"), tools=[child], **options)


async def test_a_child_answers_its_parent(run: Any) -> None:
    def check(request: Any) -> Any:
        assert request.messages[-1].result == "42"
        return final("It is 42.")

    told = await run(boss(agent_as_tool(expert(final("42"))), tool_calls(ASK), check), grants=ALL)
    assert (told.status, told.outcome.value) == ("ok", "It is 42.")
    parent = told.view.agents[0]
    assert (parent.agent_id, parent.model_calls) == ("boss", 3)
    assert [(child.agent_id, child.status, child.model_calls) for child in parent.children] == [
        ("expert", "ok", 1)
    ]
    types = await told.types()
    assert types.index("delegate:start") < types.index("delegate:end")


@pytest.mark.parametrize("missing", ["agent:delegate", "tool:expert", "model:expert"])
async def test_a_missing_grant_blocks_the_parent(run: Any, missing: str) -> None:
    child = expert(final("42"))
    told = await run(boss(agent_as_tool(child), tool_calls(ASK)), grants=ALL - {missing})
    assert (told.status, told.code) == ("blocked", "permission_denied")
    assert child.model.calls == []


async def test_a_child_may_use_no_more_than_it_is_lent(run: Any) -> None:
    orders = Orders()
    look = tool_calls({"tool_id": "orders.lookup", "input": {"order_id": "A1"}})
    child = expert(look, final("ok"), tools=[orders.lookup])
    lent = agent_as_tool(child, grants={"model:expert"})
    told = await run(boss(lent, tool_calls(ASK)), grants=ALL)
    assert (told.status, told.code) == ("blocked", "permission_denied")
    assert not orders.executions
    child = expert(look, final("ok"), tools=[orders.lookup])
    told = await run(boss(agent_as_tool(child), tool_calls(ASK), final("done")), grants=ALL)
    assert told.status == "ok"


async def test_money_is_shared(run: Any) -> None:
    child = Agent(
        id="expert", model=scripted_model([final("42", cost_micros=6)], id="expert", max_cost_micros=6)
    )
    parent = Agent(
        id="boss",
        model=scripted_model(
            [tool_calls(ASK, cost_micros=3), final("ok", cost_micros=3)], id="boss", max_cost_micros=3
        ),
        tools=[agent_as_tool(child)],
        limits=Limits(max_cost_micros=11),
    )
    told = await run(parent, budget_defaults={"flat_reserve_usd": 0})
    assert (told.status, told.code) == ("exhausted", "budget_exceeded")
    assert told.budget.spent_micros == 9


async def test_counters_are_shared(run: Any) -> None:
    child = agent_as_tool(expert(final("42")))
    told = await run(boss(child, tool_calls(ASK), final("ok"), limits=Limits(max_model_calls=2)))
    assert (told.status, told.code) == ("error", "limit_exceeded")


async def test_a_write_of_a_child_that_may_have_happened_makes_the_parent_unknown(run: Any) -> None:
    orders = Orders()
    refund = tool_calls({"tool_id": "orders.refund", "input": {"order_id": "ERR", "amount": 1}})
    child = expert(refund, tools=[orders.refund])
    told = await run(boss(agent_as_tool(child), tool_calls(ASK)))
    assert (told.status, told.code) == ("outcome_unknown", "outcome_unknown")
    assert "PRIVATE" not in told.everything


async def test_an_agent_does_not_run_below_itself(run: Any) -> None:
    inner = Agent(id="boss", model=scripted_model([final("x")], id="inner"))
    told = await run(boss(agent_as_tool(inner, id="expert"), tool_calls(ASK)))
    assert (told.status, told.code) == ("error", "conflict")


async def test_descendants_are_bounded(run: Any) -> None:
    told = await run(
        boss(agent_as_tool(expert(final("42"))), tool_calls(ASK), limits=Limits(max_descendants=0))
    )
    assert (told.status, told.code) == ("error", "limit_exceeded")


def test_limits_of_a_child_may_only_be_lowered() -> None:
    child = expert(limits=Limits(max_steps=3))
    assert agent_as_tool(child, limits={"max_steps": 2}).capabilities == ("agent:delegate",)
    with pytest.raises(ConfigError, match="max_steps: 4 is higher"):
        agent_as_tool(child, limits={"max_steps": 4})
    with pytest.raises(ConfigError, match="max_duration"):
        agent_as_tool(child, limits={"max_duration": None})


async def test_lower_limits_hold_for_the_child(run: Any) -> None:
    orders = Orders()
    look = {"tool_id": "orders.lookup", "input": {"order_id": "A1"}}
    child = expert(tool_calls(look), tool_calls(look), final("ok"), tools=[orders.lookup])
    told = await run(boss(agent_as_tool(child, limits={"max_tool_calls": 1}), tool_calls(ASK)))
    assert told.code == "limit_exceeded"
    assert orders.executions["orders.lookup"] == 1


async def test_a_finished_child_is_served_from_the_journal_when_its_parent_goes_on() -> None:
    store = InMemoryStore()
    child = expert(final("42"))
    async with Engine(journal=store) as engine:
        outcome = await engine.run(boss(agent_as_tool(child), tool_calls(ASK)), "hi", run_id="r").result()
    assert outcome.status == "error"  # the parent's script was used up
    seq = next(entry.seq for entry in await store.load("r") if entry.kind == "agent" and entry.ref is None)
    again = expert(final("never"))
    async with Engine(journal=store) as engine:
        parent = boss(agent_as_tool(again), tool_calls(ASK), final("ok"))
        outcome = await engine.resume("r", parent, args="hi", invalidate=[seq]).result()
    assert outcome.status == "ok"


async def test_a_preflight_refuses_before_any_effect(run: Any) -> None:
    ran: list[int] = []

    @tool(effects="write", cost_micros=7)
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    def check(amount: int) -> Any:
        if amount == 3:
            raise ValueError("PRIVATE")
        if amount == 2:
            raise ToolRefusal("too little")
        return amount > 5 or "too much work"

    checked = with_preflight(pay, check, extra_timeout=1.0, description="Pay, after a look.")
    assert (checked.id, checked.timeout, checked.description) == ("pay", 31.0, "Pay, after a look.")
    for amount, text in ((1, "too much work"), (2, "too little"), (3, "failed")):
        agent = Agent(
            id="a",
            model=scripted_model([tool_calls({"tool_id": "pay", "input": {"amount": amount}})]),
            tools=[checked],
        )
        told = await run(agent)
        assert (told.status, told.code) == ("error", "tool_failed")
        assert text in told.text
        assert told.budget.reserved_micros == 0
        assert "PRIVATE" not in told.everything
    assert ran == []
    agent = Agent(
        id="a",
        model=scripted_model([tool_calls({"tool_id": "pay", "input": {"amount": 9}}), final("ok")]),
        tools=[checked],
    )
    assert (await run(agent)).status == "ok"
    assert ran == [9]
