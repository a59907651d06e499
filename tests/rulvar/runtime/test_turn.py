"""What a model answered and no journal can keep ends its call, which is closed and paid once."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, tool, workflow
from rulvar.testing import create_test_engine, fake_tool_calls


@tool
def look(q: Any) -> dict[str, Any]:
    """Look a thing up."""
    return {"found": 1}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [390, 600, 3000])
async def test_arguments_that_are_nested_too_deeply_end_the_call(levels: int) -> None:
    engine = create_test_engine(agents={"*": fake_tool_calls(name="look", args={"q": nested(levels)})})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", tools=[look], memoize_outcome=True)

    async with engine:
        for _ in range(2):
            outcome = await (
                engine.resume("r", flow) if await engine.store.load("r") else engine.run(flow, run_id="r")
            ).result()
            assert outcome.error is not None
            assert "the arguments of look nested deeper than" in outcome.error.message
            assert len(engine.fake.calls) == 1
        ends = [entry.status for entry in await engine.store.load("r") if entry.kind == "agent"]
        assert ends == ["running", "error"]


async def test_arguments_as_deep_as_any_document_reach_their_tool() -> None:
    engine = create_test_engine(
        agents={
            "*": lambda call: (
                "done"
                if call.req.messages[-1].role == "tool"
                else fake_tool_calls(name="look", args={"q": nested(300)})
            )
        }
    )

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", tools=[look])

    async with engine:
        assert (await engine.run(flow).result()).value == "done"
