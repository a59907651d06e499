"""The limits that a run was given: kept by every resume, and changed by one that says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import Agent, Ctx, Engine, InMemoryStore, Limits, UsageLimits, tool, workflow
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine, fake_tool_calls, final, replay_run, scripted_model, tool_calls


@tool
def look(q: str) -> str:
    """Look."""
    return q


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    await ctx.await_external("go")
    return (await ctx.agent("go", tools=[look], result="full")).status


def engine_of(store: InMemoryStore, **options: Any) -> Any:
    turn = lambda call: fake_tool_calls(name="look", args={"q": str(len(call.req.messages))})  # noqa: E731
    return create_test_engine(agents={"*": turn}, workflows=[flow], journal=store, **options)


async def started(**options: Any) -> InMemoryStore:
    """Return the store of a run that was given limits, waited, and was answered."""
    store = InMemoryStore()
    async with engine_of(store) as engine:
        run = engine.run(flow, run_id="r", **options)
        await run.result()
        await run.answer("go", None)
    return store


async def turns_of(store: InMemoryStore, *given: Any, **options: Any) -> int:
    async with engine_of(store, **options) as engine:
        outcome = await engine.resume("r", *given).result()
        assert outcome.value == "limit", outcome.error
        return len(engine.fake.calls)


@pytest.mark.parametrize("given", [(), (flow,)])
async def test_a_resume_keeps_the_limits_that_the_run_was_given(given: Any) -> None:
    store = await started(limits={"max_turns": 2, "timeout_s": 60.5})
    assert (await store.load_meta("r"))["limits"] == {"maxTurns": 2, "timeoutS": 60.5}
    assert await turns_of(store, *given) == 2
    assert (await store.load_meta("r"))["limits"] == {"maxTurns": 2, "timeoutS": 60.5}


async def test_a_resume_may_give_others_and_these_stay() -> None:
    store = await started(limits={"max_turns": 2})
    async with engine_of(store) as engine:
        await engine.resume("r", flow, limits={"max_turns": 3}).result()
        assert len(engine.fake.calls) == 3
    assert (await store.load_meta("r"))["limits"] == {"maxTurns": 3}


async def test_the_limits_of_an_engine_are_no_runs_own() -> None:
    store = await started()
    assert "limits" not in await store.load_meta("r")
    assert await turns_of(store, limits=UsageLimits(max_turns=4)) == 4
    assert "limits" not in await store.load_meta("r")


async def test_a_strict_replay_leaves_the_row_alone() -> None:
    store = await started(limits={"max_turns": 2})
    before = await store.load_meta("r")
    async with engine_of(store) as engine:
        outcome = await engine.resume("r", flow, dry_run=True, limits={"max_turns": 5}).result()
        assert outcome.error.code == "journal_miss"
    assert await store.load_meta("r") == before
    assert await turns_of(store, flow) == 2
    assert (await replay_run(flow, None, journal=(store, "r"))).outcome.value == "limit"


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ([2], r"meta row of run 'r': limits: expected an object, got \[2\]"),
        ({"maxSteps": 2}, r"meta row of run 'r': limits\.max_steps: unknown field"),
        ({"maxTurns": 0}, r"meta row of run 'r': limits\.max_turns: expected an integer from 1 up"),
    ],
)
async def test_a_row_whose_limits_cannot_be_is_refused_by_the_field(recorded: Any, told: str) -> None:
    store = await started(limits={"max_turns": 2})
    await store.save_meta("r", {**await store.load_meta("r"), "limits": recorded})
    async with engine_of(store) as engine:
        with pytest.raises(ConfigError, match=told):
            await engine.resume("r", flow).result()
        assert (await engine.resume("r", flow, limits={"max_turns": 1}).result()).value == "limit"


async def test_a_resume_by_name_takes_the_limits_of_its_kind_of_workflow() -> None:
    store = await started()
    async with engine_of(store) as engine:
        with pytest.raises(ConfigError, match=r"limits\.max_steps: unknown field"):
            await engine.resume("r", limits={"max_steps": 1}).result()
        await engine.resume("r", limits={"max_turns": 1}).result()
        assert len(engine.fake.calls) == 1


CALL = tool_calls({"tool_id": "look", "input": {"q": "a"}})


def desk(*steps: Any) -> Agent[Any]:
    return Agent(id="desk", model=scripted_model(steps), tools=[look])


async def let_go(**options: Any) -> InMemoryStore:
    """Return the store of an agent's run that was let go while its model thought about the second step."""
    store, thinks = InMemoryStore(), asyncio.Event()

    async def think(request: Any) -> Any:
        thinks.set()
        await asyncio.Event().wait()

    async with Engine(journal=store) as engine:
        run = engine.run(desk(CALL, think), None, run_id="r", **options)
        await thinks.wait()
        await run.let_go()
    return store


async def test_an_agents_run_keeps_its_limits_too() -> None:
    store = await let_go(limits=Limits(max_steps=2))
    assert (await store.load_meta("r"))["limits"] == {"maxSteps": 2}
    async with Engine(journal=store) as engine:
        outcome = await engine.resume("r", desk(CALL, CALL, final("done"))).result()
    assert (outcome.error.code, outcome.error.data["bound"]) == ("limit_exceeded", 2)


async def test_an_agents_run_may_be_given_wider_limits() -> None:
    store = await let_go(limits=Limits(max_steps=2))
    async with Engine(journal=store) as engine:
        outcome = await engine.resume(
            "r", desk(CALL, CALL, final("done")), limits=Limits(max_steps=4)
        ).result()
    assert outcome.value == "done"
    assert (await store.load_meta("r"))["limits"] == {"maxSteps": 4}


async def test_an_agent_that_is_resumed_by_name_has_the_limits_of_its_engine() -> None:
    store = await let_go()
    known = desk(CALL, CALL, final("done"))
    async with Engine(journal=store, workflows=[known], limits=Limits(max_steps=2)) as engine:
        assert (await engine.resume("r").result()).error.data["bound"] == 2
