"""Agents beside each other in task groups: a wait suspends the run, whatever it is wrapped in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import Agent, Engine, InMemoryStore, tool, workflow
from rulvar.agents import AgentGuards, Hook
from rulvar.testing import final, scripted_model, tool_calls


def desk(name: str, ran: list[str]) -> Agent[Any]:
    @tool(id="act", needs_approval=True)
    def act() -> str:
        ran.append(name)
        return name

    def step(request: Any) -> Any:
        if any(message.role == "assistant" for message in request.messages):
            return final(f"{name} done")
        return tool_calls({"tool_id": "act", "id": f"call-{name}", "input": {}})

    return Agent(id=name, model=scripted_model([step] * 4, id=name), tools=[act])


async def test_agents_in_a_task_group_wait_and_go_on() -> None:
    ran: list[str] = []

    @workflow
    async def both(ctx: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.workflow(desk(name, ran), "hi")) for name in ("ann", "bob")]
        return [task.result() for task in tasks]

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        run = engine.run(both, run_id="r")
        outcome = await run.result()
        assert (outcome.status, len(outcome.pending), ran) == ("suspended", 2, [])
        assert {view.status for view in engine.inspect(run).agents} == {"suspended"}
        for wait in outcome.pending:
            await engine.resolve_external("r", wait.key, {"decision": "allow"})
    async with Engine(journal=store) as engine:
        outcome = await engine.resume("r", both).result()
    assert (outcome.status, outcome.value) == ("ok", ["ann done", "bob done"])
    assert sorted(ran) == ["ann", "bob"]


@pytest.mark.parametrize("place", ["guard", "hook"])
async def test_a_wait_in_the_tasks_of_a_guard_or_a_hook_suspends_the_agent(place: str) -> None:
    told: list[Any] = []

    @workflow
    async def guarded(ctx: Any) -> Any:
        async def wait(value: Any) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.await_external("go"))

        agent = Agent(
            id="a",
            model=scripted_model([final("ok")]),
            guards=AgentGuards(input=[wait] if place == "guard" else []),
            hooks=[
                Hook("finally", told.append),
                *([Hook("before_run", wait)] if place == "hook" else []),
            ],
        )
        return await ctx.workflow(agent, "hi")

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        run = engine.run(guarded, run_id="r")
        outcome = await run.result()
        assert (outcome.status, outcome.error) == ("suspended", None)
        assert engine.inspect(run).agents[0].status == "suspended"
        assert told == []
        await engine.resolve_external("r", outcome.pending[0].key, True)
    async with Engine(journal=store) as engine:
        outcome = await engine.resume("r", guarded).result()
    assert (outcome.status, outcome.value) == ("ok", "ok")


async def test_a_wait_in_a_hook_inside_the_models_loop_is_refused() -> None:
    @workflow
    async def hooked(ctx: Any) -> Any:
        async def wait(facts: Any) -> None:
            await ctx.await_external("go")

        hook = Hook("before_model_call", wait)
        return await ctx.workflow(Agent(id="a", model=scripted_model([final("ok")]), hooks=[hook]), "hi")

    async with Engine() as engine:
        outcome = await engine.run(hooked).result()
    assert outcome.error is not None
    assert "hook of agent a failed at before_model_call" in outcome.error.message
