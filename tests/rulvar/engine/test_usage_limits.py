"""Limits of a call come field by field from the nearest place that says them, and end it where they are met."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, UsageLimits, define_workflow, tool
from rulvar.testing import create_test_engine, fake_tool_calls


class Worker:
    """An agent that never stops asking for its tools."""

    def __init__(self, calls: int = 1, **engine: Any) -> None:
        self.ran: list[int] = []

        @tool
        def work(n: int) -> int:
            """Work."""
            self.ran.append(n)
            return n

        @tool
        def secret() -> str:
            """Be refused."""
            return "told"

        self.tools = [work, secret]
        self.calls = calls
        self.engine = create_test_engine(agents={"w": self.model}, permissions={"deny": ["secret"]}, **engine)

    def model(self, call: Any) -> Any:
        return fake_tool_calls(*({"name": "work", "args": {"n": n}} for n in range(self.calls)))

    async def status(self, limits: Any = None, run: Any = None) -> str:
        async def body(ctx: Ctx, args: Any) -> Any:
            ended = await ctx.agent("go", agent_type="w", tools=self.tools, limits=limits, result="full")
            return ended.status

        async with self.engine as engine:
            outcome = await engine.run(define_workflow("w", body), limits=run, run_id="r").result()
        assert outcome.status == "ok", outcome.error
        return str(outcome.value)


@pytest.mark.parametrize(
    ("call", "profile", "run", "turns"),
    [
        ({"max_output_tokens_per_turn": 9}, {"max_turns": 2}, {"max_turns": 3}, 2),
        ({"max_output_tokens_per_turn": 9}, None, {"max_turns": 3}, 3),
        ({"max_turns": 4}, {"max_output_tokens_per_turn": 9}, None, 4),
        (UsageLimits(max_output_tokens_per_turn=9), {"max_turns": 2}, None, 2),
        (None, {"max_turns": 32}, {"max_turns": 2}, 32),
    ],
)
async def test_each_limit_comes_from_the_nearest_place_that_says_it(
    call: Any, profile: Any, run: Any, turns: int
) -> None:
    worker = Worker(profiles={"w": {} if profile is None else {"limits": profile}})
    assert await worker.status(call, run) == "limit"
    assert len(worker.engine.fake.calls) == turns
    said = any("max_output_tokens_per_turn" in str(layer) and "9" in str(layer) for layer in (call, profile))
    assert worker.engine.fake.calls[0].req.max_output_tokens == (9 if said else None)


@pytest.mark.parametrize(
    ("bound", "made"), [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 0]), (4, [0, 1, 0, 1])]
)
async def test_tool_calls_are_made_up_to_their_number_and_what_they_gave_stands(
    bound: int, made: list[int]
) -> None:
    worker = Worker(calls=2)
    assert await worker.status({"max_tool_calls": bound}) == "limit"
    assert worker.ran == made
    entries = await worker.engine.store.load("r")
    [end] = [entry.to_wire() for entry in entries if entry.kind == "agent" and entry.status == "limit"]
    assert "error" not in end


async def test_a_call_that_the_gate_refuses_is_not_one_of_them() -> None:
    worker = Worker()
    turns = iter(["secret", "secret", "work", None])

    def model(call: Any) -> Any:
        name = next(turns)
        return "end" if name is None else fake_tool_calls(name=name, args={"n": 7} if name == "work" else {})

    worker.engine = create_test_engine(agents={"w": model}, permissions={"deny": ["secret"]})
    assert await worker.status({"max_tool_calls": 1}) == "ok"
    assert worker.ran == [7]


@pytest.mark.parametrize("tools", [None, []])
async def test_an_agent_without_tools_takes_its_models_text_whatever_it_calls(tools: Any) -> None:
    engine = create_test_engine(agents={"*": fake_tool_calls(name="work", args={"n": 1})})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", tools=tools)

    async with engine:
        outcome = await engine.run(define_workflow("w", body)).result()
    assert (outcome.status, outcome.value) == ("ok", "")
    assert len(engine.fake.calls) == 1


async def test_a_bound_below_what_a_model_takes_is_refused_before_it_is_asked() -> None:
    worker = Worker(caps_overrides={"min_output_tokens_per_turn": 16})
    flow_limits = {"max_output_tokens_per_turn": 15}

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", agent_type="w", limits=flow_limits)

    flow = define_workflow("w", body)
    async with worker.engine as engine:
        outcome = await engine.run(flow, run_id="r").result()
        assert outcome.error is not None
        assert outcome.error.code == "config"
        assert "max_output_tokens_per_turn" in outcome.error.message
        assert not engine.fake.calls
        flow_limits["max_output_tokens_per_turn"] = 16
        assert (await engine.resume("r", flow).result()).status == "ok"
