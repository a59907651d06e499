"""Answers that are JSON and cannot be kept: they are asked for again, and the call is closed."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.testing import create_test_engine


@pytest.mark.parametrize(
    ("text", "named"),
    [('{"a": 1e400}', r"the answer\.a is inf"), ('{"a": [-1e400]}', r"the answer\.a\[0\] is -inf")],
)
async def test_a_number_that_no_double_holds_is_an_answer_that_does_not_fit(text: str, named: str) -> None:
    answers = iter([text, '{"a": 1}'])
    engine = create_test_engine(agents={"*": lambda call: next(answers)})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", schema={"type": "object"})

    async with engine:
        outcome = await engine.run(flow, run_id="r").result()
        assert (outcome.status, outcome.value) == ("ok", {"a": 1})
        assert len(engine.fake.calls) == 2
        assert (await engine.resume("r", flow).result()).value == {"a": 1}
        assert len(engine.fake.calls) == 2


async def test_a_model_that_insists_on_one_ends_the_call_and_leaves_nothing_dangling() -> None:
    engine = create_test_engine(agents={"*": '{"a": 1e400}'})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", schema={"type": "object"}, memoize_outcome=True, on_error="null")

    async with engine:
        outcome = await engine.run(flow, run_id="r").result()
        assert (outcome.status, outcome.value) == ("ok", None)
        ends = [entry.status for entry in await engine.store.load("r") if entry.kind == "agent"]
        assert ends == ["running", "error"]
        asked = len(engine.fake.calls)
        assert (await engine.resume("r", flow).result()).value is None
        assert len(engine.fake.calls) == asked
