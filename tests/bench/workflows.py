"""The workflows that the engine's benchmarks run; kept apart from code that reads the clock."""

from __future__ import annotations

from typing import Any

from rulvar import Ctx, define_workflow, tool
from rulvar.testing import fake_tool_calls

__all__ = ["AGENTS", "FAN_OUT", "RESULT", "STEPS", "answer"]

RESULT = {"rows": 3, "name": "a step's result of some length", "flags": [True, False, None]}


async def _steps(ctx: Ctx, args: int) -> None:
    for number in range(args):
        await ctx.step("load", lambda: RESULT, deps=[number])


async def _fan_out(ctx: Ctx, args: int) -> None:
    await ctx.parallel([lambda n=n: ctx.step("load", lambda: RESULT, deps=[n]) for n in range(args)])


@tool
def look(q: str) -> str:
    """Look a thing up."""
    return q


async def _agents(ctx: Ctx, args: int) -> None:
    for number in range(args):
        await ctx.agent(f"ask {number}", tools=[look])


def answer(call: Any) -> Any:
    """Two turns: ask the tool, then answer."""
    return "done" if call.req.messages[-1].role == "tool" else fake_tool_calls(name="look", args={"q": "x"})


STEPS = define_workflow("steps", _steps)
FAN_OUT = define_workflow("fan-out", _fan_out)
AGENTS = define_workflow("agents", _agents)
