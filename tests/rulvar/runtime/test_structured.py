"""Answers that are JSON and cannot be kept: they are asked for again, and the call is closed."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, Finish, FinishInfo, TextDelta, Usage, define_workflow, workflow
from rulvar.testing import FAKE_MODEL_REF, FakeAdapter, create_test_engine


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


CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "space", ["\u1680", "\u2003", "\u200a", "\u202f", "\u205f", "\u3000", "\ufeff", "\u00a0"]
)
async def test_white_space_of_any_kind_around_an_answer_is_no_part_of_it(space: str) -> None:
    engine = create_test_engine(agents={"*": f"{space}7{space}"})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", schema={"type": "integer"})

    async with engine:
        assert (await engine.run(flow).result()).value == 7


async def answered(schema: Any, *answers: Any, **options: Any) -> Any:
    """Return the outcome of a call whose model gives these answers as they stand, and its requests."""
    scripted = iter(answers)

    class Plain(FakeAdapter):
        async def stream(self, request: Any, signal: Any = None) -> Any:
            self.requests = [*getattr(self, "requests", ()), request]
            yield TextDelta(text=next(scripted))
            yield Finish(finish=FinishInfo(reason="stop"), usage=Usage.from_wire(USED))

    adapter = Plain(agents={"*": "unused"}, caps_overrides=options)

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", schema=schema)

    async with Engine(adapters=[adapter], routing={"loop": FAKE_MODEL_REF}) as engine:
        outcome = await engine.run(define_workflow("w", body)).result()
    return outcome, adapter.requests


USED = {"inputTokens": 1, "outputTokens": 1, "cacheReadTokens": 0, "cacheWriteTokens": 0}


async def test_a_text_is_no_answer_where_the_model_must_deliver_it_by_the_tool() -> None:
    outcome, requests = await answered(CLOSED, *['{"n": 1}'] * 3, structured_output="forced-tool")
    assert outcome.error.data["kind"] == "schema-mismatch"
    assert len(requests) == 3
    assert all(request.tool_choice.name == "emit_result" for request in requests)


async def test_a_text_is_an_answer_where_the_provider_holds_the_model_to_the_schema() -> None:
    outcome, requests = await answered(CLOSED, 'so: {"n": 1} it is')
    assert outcome.value == {"n": 1}
    assert requests[0].schema == CLOSED
