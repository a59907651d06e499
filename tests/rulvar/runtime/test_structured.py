"""Answers that are JSON and cannot be kept: they are asked for again, and the call is closed."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, Finish, FinishInfo, TextDelta, Usage, define_workflow, tool, workflow
from rulvar.testing import FAKE_MODEL_REF, FakeAdapter, create_test_engine, fake_tool_calls


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


async def test_a_tool_of_the_name_of_the_forced_one_is_a_tool_like_any_other() -> None:
    ran: list[str] = []

    @tool
    def emit_result(text: str) -> str:
        """Send a result to somebody."""
        ran.append(text)
        return "sent"

    def model(call: Any) -> Any:
        if call.req.messages[-1].role == "tool":
            return "end"
        return fake_tool_calls(name="emit_result", args={"text": "hello"})

    engine = create_test_engine(agents={"*": model})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", tools=[emit_result])

    async with engine:
        assert (await engine.run(flow).result()).value == "end"
    assert ran == ["hello"]


async def test_an_answer_that_comes_with_other_calls_is_the_answer() -> None:
    ran: list[int] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    def model(call: Any) -> Any:
        if len(engine.fake.calls) == 1:
            return "no JSON"
        return fake_tool_calls({"name": "look", "args": {}}, {"name": "emit_result", "args": {"n": 4}})

    engine = create_test_engine(agents={"*": model}, caps_overrides={"structured_output": "forced-tool"})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", tools=[look], schema=CLOSED)

    async with engine:
        assert (await engine.run(flow).result()).value == {"n": 4}
    assert ran == []
    assert [getattr(call.req.tool_choice, "name", None) for call in engine.fake.calls] == [
        None,
        "emit_result",
    ]
