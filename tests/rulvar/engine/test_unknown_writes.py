"""A write of ctx.agent that may have happened ends the run so; nobody makes it again unasked."""

from __future__ import annotations

from typing import Any

from rulvar import Ctx, define_workflow, tool
from rulvar.stores import InMemoryStore
from rulvar.testing import create_test_engine, fake_tool_calls


class Crash(BaseException):
    """Stands for the end of the process."""


def engine_over(store: InMemoryStore, answers: list[Any]) -> Any:
    return create_test_engine(agents={"*": answers}, journal=store)


async def test_a_write_that_may_have_happened_ends_the_run_until_somebody_has_looked() -> None:
    store, paid, dies = InMemoryStore(), list[str](), [True]

    @tool(effects="write")
    async def pay() -> str:
        """Pay."""
        paid.append("pay")
        if dies:
            raise Crash
        return "done"

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", tools=[pay])

    flow = define_workflow("w", body)
    try:
        await engine_over(store, [fake_tool_calls(name="pay", args={})]).run(flow, run_id="r").result()
    except Crash:
        dies.clear()
    for _ in range(2):
        outcome = await engine_over(store, ["told"]).resume("r", flow).result()
        assert outcome.status == "outcome_unknown"
        assert outcome.error is not None
        assert "may have happened; look, and resume with invalidate=[0]" in outcome.error.message
        assert paid == ["pay"]
    outcome = await engine_over(store, ["told"]).resume("r", flow, invalidate=[0]).result()
    assert (outcome.status, outcome.value, paid) == ("ok", "told", ["pay", "pay"])
