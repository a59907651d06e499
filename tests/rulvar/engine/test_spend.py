"""What a run says that it cost."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool
from rulvar.testing import FAKE_MODEL_REF, create_test_engine, fake_tool_calls


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def answer(call: Any) -> Any:
    if call.prompt == "say" or call.req.messages[-1].role == "tool":
        return "eight ch"
    return fake_tool_calls(*[{"name": "look", "args": {}}] * 3)


async def body(ctx: Ctx, args: Any) -> Any:
    return [await ctx.agent("say"), await ctx.agent("look", tools=[look])]


async def test_a_replay_reports_the_cost_of_the_live_run_to_the_last_bit() -> None:
    engine = create_test_engine(
        agents={"*": answer}, pricing={FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1000}}
    )
    async with engine:
        workflow = define_workflow("w", body)
        live = await engine.run(workflow, run_id="r").result()
        replayed = await engine.resume("r", workflow).result()
    assert live.cost == replayed.cost
    assert live.cost.total_usd == pytest.approx(0.028)
