"""Writes of agents whose process dies: none is made twice."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rulvar import Agent, Engine, InMemoryStore, tool
from rulvar.agents import Limits
from rulvar.testing import final, scripted_model, tool_calls


class Desk:
    """An agent with tools that write, and what a disk held when its process died."""

    def __init__(self, dies_in: str) -> None:
        self.dies_in = dies_in
        self.limits = Limits()
        self.store = InMemoryStore()
        self.saved: InMemoryStore | None = None
        self.writes: list[str] = []

    def agent(self, *steps: Any) -> Agent[Any]:
        @tool(id="pay", effects="write", cost_micros=5)
        async def pay(who: str) -> dict[str, Any]:
            self.writes.append(who)
            if who == self.dies_in and self.saved is None:
                self.saved = await on_disk(self.store)
            return {"paid": who}

        return Agent(id="desk", model=scripted_model(steps), tools=[pay], limits=self.limits)

    async def live(self, *steps: Any) -> None:
        async with Engine(journal=self.store) as engine:
            await engine.run(self.agent(*steps), "hi", run_id="r").result()
        assert self.saved is not None

    async def resume(self, *steps: Any, **options: Any) -> tuple[Any, Any, list[Any]]:
        assert self.saved is not None
        store = await on_disk(self.saved)
        agent = self.agent(*steps)
        async with Engine(journal=store) as engine:
            handle = engine.resume("r", agent, args="hi", **options)
            outcome = await handle.result()
            budget = engine.inspect(handle).budget
        self.saved = store
        return outcome, budget, agent.model.calls


def pay(*people: str) -> Any:
    return tool_calls(*({"tool_id": "pay", "id": f"to-{who}", "input": {"who": who}} for who in people))


async def test_a_write_that_was_under_way_when_the_process_died_is_not_made_again() -> None:
    desk = Desk(dies_in="ann")
    await desk.live(pay("ann"), final("Done."))
    desk.writes.clear()
    outcome, budget, calls = await desk.resume(final("never"))
    assert outcome.status == "outcome_unknown"
    assert (desk.writes, calls) == ([], [])
    assert (budget.spent_micros, budget.reserved_micros) == (0, 5)


@pytest.mark.parametrize("looked_at_first", [False, True])
async def test_only_the_unknown_write_is_made_again_when_the_agent_is_invalidated(
    looked_at_first: bool,
) -> None:
    desk = Desk(dies_in="bob")
    await desk.live(pay("ann", "bob"), final("Done."))
    assert desk.saved is not None
    desk.writes.clear()
    seq = next(entry.seq for entry in await desk.saved.load("r") if entry.kind == "agent")
    if looked_at_first:
        unknown, _, _ = await desk.resume()
        assert unknown.status == "outcome_unknown"
    outcome, budget, calls = await desk.resume(final("Done."), invalidate=[seq])
    assert (outcome.status, outcome.value) == ("ok", "Done.")
    assert desk.writes == ["bob"]
    assert len(calls) == 1
    assert budget.spent_micros == 10
    assert budget.reserved_micros == (5 if looked_at_first else 0)


async def test_the_first_write_of_two_is_not_made_again_when_the_second_is_unknown() -> None:
    desk = Desk(dies_in="bob")
    await desk.live(pay("ann", "bob"), final("Done."))
    desk.writes.clear()
    outcome, budget, _ = await desk.resume()
    assert outcome.status == "outcome_unknown"
    assert desk.writes == []
    assert (budget.spent_micros, budget.reserved_micros) == (5, 5)


async def test_a_process_that_dies_between_two_writes_goes_on_with_the_second() -> None:
    desk = Desk(dies_in="bob")
    await desk.live(pay("ann", "bob"), final("Done."))
    assert desk.saved is not None
    entries = await desk.saved.load("r")
    assert entries[-1].key == "ts:to-bob"
    desk.saved = await on_disk(desk.saved, leave_out=1)
    desk.writes.clear()
    outcome, budget, calls = await desk.resume(final("Done."))
    assert (outcome.status, outcome.value) == ("ok", "Done.")
    assert desk.writes == ["bob"]
    assert (budget.spent_micros, budget.reserved_micros) == (10, 0)
    told = [
        part.result for message in calls[0].req.messages for part in message.parts if message.role == "tool"
    ]
    assert told == [{"paid": "ann"}, {"paid": "bob"}]


async def on_disk(store: InMemoryStore, leave_out: int = 0) -> InMemoryStore:
    """Return what another process finds, the lease of the first one gone."""
    copied = InMemoryStore()
    entries = await store.load("r")
    copied.append_now("r", entries[: len(entries) - leave_out])
    copied.transcripts = copy.deepcopy(store.transcripts)
    meta = await store.load_meta("r")
    assert meta is not None
    await copied.save_meta("r", meta)
    return copied


@pytest.mark.parametrize("effects", ["none", "read"])
async def test_a_tool_without_effects_is_called_again(effects: Any) -> None:
    store = InMemoryStore()
    saved: list[InMemoryStore] = []
    looked: list[int] = []

    @tool(id="look", effects=effects)
    async def look() -> str:
        looked.append(1)
        saved.append(await on_disk(store))
        return "seen"

    steps = [tool_calls({"tool_id": "look", "id": "one"}), final("Done.")]
    agent = Agent(id="desk", model=scripted_model(steps), tools=[look])
    async with Engine(journal=store) as engine:
        await engine.run(agent, "hi", run_id="r").result()
        again = Agent(id="desk", model=scripted_model(steps), tools=[look])
    async with Engine(journal=saved[0]) as engine:
        outcome = await engine.resume("r", again, args="hi").result()
    assert (outcome.status, outcome.value, len(looked)) == ("ok", "Done.", 2)


async def test_a_resumed_agent_has_the_steps_left_that_it_had() -> None:
    desk = Desk(dies_in="bob")
    desk.limits = Limits(max_steps=2)
    await desk.live(pay("ann"), pay("bob"))
    assert desk.saved is not None
    desk.saved = await on_disk(desk.saved, leave_out=1)
    outcome, _, calls = await desk.resume(final("never"))
    assert (outcome.status, outcome.error.code) == ("error", "limit_exceeded")
    assert calls == []
