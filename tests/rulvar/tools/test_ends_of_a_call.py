"""How one call of a tool can end beside the plain ways: interrupted, or with values that are no JSON."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import Agent, Engine, tool
from rulvar.testing import final, run_tool, scripted_model, tool_calls


@pytest.mark.parametrize(
    ("effects", "status", "money"),
    [("none", "cancelled", (5, 0)), ("read", "cancelled", (5, 0)), ("write", "outcome_unknown", (0, 5))],
)
async def test_a_call_that_is_cancelled_in_its_body(
    effects: Any, status: str, money: tuple[int, int]
) -> None:
    signal = asyncio.Event()

    @tool(effects=effects, cost_micros=5)
    async def slow() -> str:
        signal.set()
        await asyncio.sleep(10)
        return "late"

    ended = await run_tool(slow, {}, signal=signal)
    assert ended.outcome.error is not None
    assert (ended.outcome.status, ended.outcome.error.code) == (status, status)
    assert (ended.spent_micros, ended.reserved_micros) == money
    assert ended.receipt is not None
    assert (ended.receipt.execution, ended.receipt.disclosure) == ("unknown", "withheld")


@pytest.mark.parametrize("effects", ["none", "read", "write", "host"])
@pytest.mark.parametrize(
    "value", [{1, 2}, float("nan"), b"bytes", {"deep": [object()]}], ids=["set", "nan", "bytes", "object"]
)
async def test_a_result_that_is_no_json_is_wrong_and_the_call_has_happened(effects: Any, value: Any) -> None:
    @tool(effects=effects, cost_micros=5)
    def odd() -> Any:
        return value

    ended = await run_tool(odd, {})
    assert ended.outcome.error is not None
    assert (ended.outcome.status, ended.outcome.error.code) == ("error", "invalid_output")
    assert (ended.spent_micros, ended.reserved_micros) == (5, 0)
    assert ended.receipt is not None
    assert (ended.receipt.execution, ended.receipt.disclosure) == ("succeeded", "withheld")


@pytest.mark.parametrize("value", [float("inf"), {1}, object()], ids=["infinity", "set", "object"])
async def test_arguments_that_are_no_json_are_wrong_and_nothing_happens(value: Any) -> None:
    ran: list[Any] = []

    @tool(effects="read", cost_micros=5)
    def take(what: Any) -> str:
        ran.append(what)
        return "taken"

    ended = await run_tool(take, {"what": value})
    assert ended.outcome.error is not None
    assert (ended.outcome.status, ended.outcome.error.code) == ("error", "invalid_input")
    assert "what" in ended.outcome.error.message
    assert ended.receipt is not None
    assert (ended.receipt.execution, ended.spent_micros, ran) == ("not_started", 0, [])


async def test_an_agents_write_whose_result_is_no_json_ends_it_and_is_paid() -> None:
    @tool(id="odd", effects="write", cost_micros=5)
    def odd() -> Any:
        return {1}

    agent = Agent(
        id="a", model=scripted_model([tool_calls({"tool_id": "odd", "input": {}}), final("x")]), tools=[odd]
    )
    async with Engine() as engine:
        run = engine.run(agent, "hi")
        outcome = await run.outcome
        assert outcome.error is not None
        assert (outcome.status, outcome.error.code) == ("error", "invalid_output")
        assert engine.inspect(run).budget.spent_micros == 5
