"""Agents on scripted models: the acceptance scenarios S43 to S52, with their exact values."""

from __future__ import annotations

from typing import Any

import pytest
from orders import REPLY, Orders

from rulvar import Engine, InMemoryStore
from rulvar.agents import Agent, Limits, StreamPolicy
from rulvar.errors import ConfigError
from rulvar.testing.script import scripted_model

GRANTS = {"model:scripted", "tool:orders.lookup", "effect:read"}
LOOK_UP = {
    "type": "tool_calls",
    "calls": [{"id": "c1", "tool_id": "orders.lookup", "input": {"order_id": "A1"}}],
}


def support(model: Any, orders: Orders, **options: Any) -> Agent[Any]:
    return Agent(
        id="support", instructions="Answer questions about orders.", model=model, tools=[orders.lookup],
        output=REPLY, **options,
    )  # fmt: skip


def answer(request: Any) -> dict[str, Any]:
    last = request.messages[-1]
    assert last.role == "tool"
    assert last.result == {"status": "shipped"}
    return {"type": "final", "output": {"reply": "Shipped."}}


class Told:
    """A run, and everything that it told."""

    def __init__(self, engine: Engine, handle: Any, outcome: Any) -> None:
        self.engine, self.handle, self.outcome = engine, handle, outcome
        self.budget = engine.inspect(handle).budget

    @property
    def code(self) -> str | None:
        return None if self.outcome.error is None else self.outcome.error.code


async def run(agent: Agent[Any], grants: Any = GRANTS, **options: Any) -> Told:
    store = InMemoryStore()
    async with Engine(journal=store, grants=grants) as engine:
        handle = engine.run(agent, {"message": "Where is order A1?"}, **options)
        outcome = await handle.outcome
        assert await handle.result() is outcome
        return Told(engine, handle, outcome)


async def test_s43_looks_up_then_answers() -> None:
    orders, model = Orders(), scripted_model([LOOK_UP, answer])
    told = await run(support(model, orders))
    assert (told.outcome.status, told.outcome.value) == ("ok", {"reply": "Shipped."})
    assert len(model.calls) == 2
    assert orders.executions["orders.lookup"] == 1


async def test_s44_a_grant_left_out() -> None:
    orders = Orders()
    told = await run(support(scripted_model([LOOK_UP, answer]), orders), {"model:scripted"})
    assert (told.outcome.status, told.code) == ("blocked", "permission_denied")
    assert orders.executions["orders.lookup"] == 0


async def test_s45_a_script_that_is_used_up() -> None:
    told = await run(support(scripted_model([LOOK_UP]), Orders()))
    assert (told.outcome.status, told.code, told.outcome.value) == ("error", "model_failed", None)


async def test_s46_an_assertion_in_a_step() -> None:
    def wrong(request: Any) -> Any:
        raise AssertionError("PRIVATE expectation")

    told = await run(support(scripted_model([LOOK_UP, wrong]), Orders()))
    assert (told.outcome.status, told.code) == ("error", "model_failed")
    assert "PRIVATE" not in repr(told.outcome)
    assert isinstance(told.handle.exception, AssertionError)


async def test_s47_cost() -> None:
    model = scripted_model(
        [{"type": "final", "output": {"reply": "Done."}, "usage": {"cost_micros": 1200}}],
        max_cost_micros=5000,
    )
    told = await run(support(model, Orders(), limits=Limits(max_cost_micros=10_000)))
    assert told.outcome.status == "ok"
    assert (told.budget.spent_micros, told.budget.reserved_micros, told.budget.calls) == (1200, 0, 1)
    assert told.outcome.cost.total_usd == pytest.approx(0.0012)


@pytest.mark.parametrize("ceiling", [{"limits": Limits.strict()}, {"budget_usd": 0}])
async def test_s48_a_ceiling_of_zero(ceiling: dict[str, Any]) -> None:
    model = scripted_model(
        [{"type": "final", "output": {"reply": "Done."}, "usage": {"cost_micros": 1200}}],
        max_cost_micros=5000,
    )
    options = {"limits": ceiling.pop("limits")} if "limits" in ceiling else {}
    told = await run(support(model, Orders(), **options), **ceiling)
    assert (told.outcome.status, told.code) == ("exhausted", "budget_exceeded")
    assert told.budget.spent_micros == 0
    assert model.remaining == 1
    assert "ceiling" in told.outcome.error.message


async def test_s49_more_than_its_bound() -> None:
    model = scripted_model(
        [{"type": "final", "output": {"reply": "Done."}, "usage": {"cost_micros": 6}}], max_cost_micros=5
    )
    told = await run(support(model, Orders(), limits=Limits(max_cost_micros=100)))
    assert told.outcome.status == "exhausted"
    assert told.budget.spent_micros == 6


async def test_s50_tool_events() -> None:
    told = await run(support(scripted_model([LOOK_UP, answer]), Orders()))
    first = [event async for event in told.handle.observe()]
    assert [event.metadata["tool_id"] for event in first if event.type == "tool:start"] == ["orders.lookup"]
    assert first[-1].type == "run:end"
    assert first[-1].metadata["spent_micros"] == 0
    again = [event async for event in told.handle.observe()]
    assert [event.to_wire() for event in again] == [event.to_wire() for event in first]
    assert [event.seq for event in first] == list(range(1, len(first) + 1))


async def test_s51_a_streamed_answer() -> None:
    model = scripted_model([{"type": "final", "output": {"reply": "Hello, streamed."}}], stream_chunk=4)
    agent = Agent(id="writer", instructions="Write.", model=model, output=REPLY,
                  stream=StreamPolicy(field=["reply"], guards=[]))  # fmt: skip
    told = await run(agent)
    deltas = [event.metadata["text"] async for event in told.handle.observe() if event.type == "output:delta"]
    assert "".join(deltas) == "Hello, streamed." == told.outcome.value["reply"]


async def test_s52_a_limit_of_tool_calls() -> None:
    orders = Orders()
    again = {
        "type": "tool_calls",
        "calls": [{"id": "c2", "tool_id": "orders.lookup", "input": {"order_id": "A2"}}],
    }
    told = await run(
        support(scripted_model([LOOK_UP, again, answer]), orders, limits=Limits(max_tool_calls=1))
    )
    assert (told.outcome.status, told.code) == ("error", "limit_exceeded")
    assert orders.executions["orders.lookup"] == 1


@pytest.mark.parametrize(
    ("media", "seen"),
    [("image/png", ("image/png",)), (["application/pdf"], ("application/pdf",)), (False, ()), (None, ())],
)
def test_what_a_scripted_model_can_see(media: Any, seen: tuple[str, ...]) -> None:
    assert scripted_model([], media=media).media == seen


@pytest.mark.parametrize("media", [True, 3, [1]])
def test_media_types_that_are_none_are_refused(media: Any) -> None:
    with pytest.raises(ConfigError, match="media"):
        scripted_model([], media=media)
