"""Scenarios S53 to S58: one tool alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import ToolContext, ToolGuards, tool
from rulvar.testing import TestClock, run_tool, tool_grants
from rulvar.testing import test_tool as tool_alias


def receipt(run: Any) -> tuple[str, str]:
    assert run.receipt is not None
    return run.receipt.execution, run.receipt.disclosure


async def test_s53_refund(ref: Any) -> None:
    run = await run_tool(ref.refund, {"order_id": "A1", "amount": 3})
    assert (run.outcome.status, run.output) == ("ok", {"ok": True})
    assert (run.spent_micros, run.reserved_micros) == (10, 0)
    assert receipt(run) == ("succeeded", "released")
    assert run.receipt.call_id == "test-call"
    assert tool_grants(ref.refund) == ["tool:orders.refund", "payments:refund", "effect:write"]
    assert tool_alias is run_tool

    @tool
    def where(tc: ToolContext) -> list[str]:
        return [tc.run_id, tc.call_id, tc.scope["principal"]]

    assert (await run_tool(where)).output == ["test-run", "test-call", "test"]


@pytest.mark.parametrize(
    ("options", "input", "status", "code"),
    [
        ({"grants": ["tool:orders.refund", "effect:write"]}, {}, "blocked", "permission_denied"),
        ({}, {"amount": "x"}, "error", "invalid_input"),
        ({"budget_micros": 5}, {}, "exhausted", "budget_exceeded"),
        ({"signal": True}, {}, "cancelled", "cancelled"),
    ],
)
async def test_s54_refusals_before_the_body(
    ref: Any, options: dict[str, Any], input: dict[str, Any], status: str, code: str
) -> None:
    if "signal" in options:
        options = {"signal": asyncio.Event()}
        options["signal"].set()
    run = await run_tool(ref.refund, {"order_id": "A1", "amount": 3, **input}, **options)
    assert run.outcome.error is not None
    assert (run.outcome.status, run.outcome.error.code) == (status, code)
    assert receipt(run)[0] == "not_started"
    assert (run.spent_micros, run.reserved_micros) == (0, 0)
    assert not ref.executions


async def test_s55_three_ways_to_break(ref: Any) -> None:
    refused = await run_tool(ref.refund, {"order_id": "A0", "amount": 3})
    assert refused.outcome.error is not None
    assert (refused.outcome.status, refused.outcome.error.code) == ("error", "tool_failed")
    assert "nothing to refund" in refused.outcome.error.message
    assert receipt(refused)[0] == "not_started"
    assert (refused.spent_micros, refused.reserved_micros) == (0, 0)

    unknown = await run_tool(ref.refund, {"order_id": "ERR", "amount": 3})
    assert unknown.outcome.status == "outcome_unknown"
    assert receipt(unknown)[0] == "unknown"
    assert (unknown.spent_micros, unknown.reserved_micros) == (0, 10)
    assert isinstance(unknown.exception, RuntimeError)

    failed = await run_tool(ref.peek, {"order_id": "ERR"})
    assert failed.outcome.error is not None
    assert (failed.outcome.status, failed.outcome.error.code) == ("error", "tool_failed")
    assert receipt(failed)[0] == "failed"
    assert (failed.spent_micros, failed.reserved_micros) == (4, 0)
    for run in (unknown, failed):
        assert "PRIVATE" not in str(run.outcome)


async def test_s56_wrong_output() -> None:
    class Made(BaseModel):
        ok: bool

    @tool(effects="write", cost_micros=10, result_schema=Made)
    def make() -> dict[str, Any]:
        return {"ok": "perhaps"}

    run = await run_tool(make)
    assert run.outcome.error is not None
    assert (run.outcome.status, run.outcome.error.code) == ("error", "invalid_output")
    assert receipt(run) == ("succeeded", "withheld")
    assert run.spent_micros == 10


async def test_s57_guards() -> None:
    asked: list[str] = []
    executions: list[int] = []

    def first(args: Any) -> bool:
        asked.append("first")
        return True

    async def second(args: Any) -> bool:
        asked.append("second")
        raise RuntimeError("broken")

    @tool(guards=ToolGuards(input=[first, second]))
    def guarded() -> None:
        executions.append(1)

    run = await run_tool(guarded)
    assert run.outcome.error is not None
    assert (run.outcome.status, run.outcome.error.code) == ("blocked", "guard_unavailable")
    assert (asked, executions) == (["first", "second"], [])

    @tool(cost_micros=3, guards=ToolGuards(output=[lambda data: "too much"]))
    def told() -> str:
        return "a lot"

    run = await run_tool(told)
    assert run.outcome.error is not None
    assert (run.outcome.status, run.outcome.error.code) == ("blocked", "guard_blocked")
    assert receipt(run) == ("succeeded", "withheld")
    assert run.spent_micros == 3


async def hanging(effects: Any, **guards: Any) -> Any:
    @tool(effects=effects, cost_micros=5, timeout=0.02, guards=ToolGuards(**guards))
    async def hang() -> None:
        await asyncio.Event().wait()

    clock = TestClock()
    running = asyncio.ensure_future(run_tool(hang, clock=clock))
    await clock.wait_for_scheduled()
    clock.advance(0.021)
    return await asyncio.wait_for(running, 2)


async def test_s58_time() -> None:
    write = await hanging("write")
    assert (write.outcome.status, write.reserved_micros) == ("outcome_unknown", 5)
    assert receipt(write)[0] == "unknown"

    read = await hanging("read")
    assert read.outcome.error is not None
    assert (read.outcome.status, read.outcome.error.code) == ("error", "timeout")

    async def forever(args: Any) -> bool:
        await asyncio.Event().wait()
        return True

    guarded = await hanging("read", input=[forever])
    assert guarded.outcome.error is not None
    assert (guarded.outcome.status, guarded.outcome.error.code) == ("error", "timeout")
    assert receipt(guarded)[0] == "not_started"
