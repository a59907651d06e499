"""What a call that asks for its full result is told, and what the same call raises when it asks for the value."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.errors import AgentCallError
from rulvar.testing import create_test_engine, fake_tool_calls


@tool
def look() -> str:
    """Look."""
    return "seen"


def model(call: Any) -> Any:
    if call.prompt == "fail":
        raise RuntimeError("down")
    return fake_tool_calls(name="look", args={}) if call.prompt == "loop" else "done"


@pytest.mark.parametrize(
    ("prompt", "status", "error", "failure"),
    [
        ("answer", "ok", None, None),
        ("fail", "error", "down", "down"),
        ("loop", "limit", None, "the agent reached a limit after 2 model turns"),
    ],
)
async def test_a_limit_is_no_error_and_yet_there_is_no_value(
    prompt: str, status: str, error: str | None, failure: str | None
) -> None:
    engine = create_test_engine(agents={"*": model})

    async def body(ctx: Ctx, args: Any) -> Any:
        options: dict[str, Any] = {"tools": [look], "limits": {"max_turns": 2}, "memoize_outcome": True}
        full = await ctx.agent(prompt, result="full", **options)
        try:
            raised = None if await ctx.agent(prompt, key="again", **options) else ""
        except AgentCallError as caught:
            raised = caught.message
            assert caught.result.status == full.status
        told = [full.status, full.error, full.failure, raised]
        return [getattr(item, "message", item) for item in told]

    flow = define_workflow("w", body)
    async with engine:
        first = await engine.run(flow, run_id="r").result()
        second = await engine.resume("r", flow).result()
    assert first.value == second.value == [status, error, failure, failure]
