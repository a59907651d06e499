"""What a model is told of calls that came to nothing, and of arguments that were almost JSON."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, ModelRetry, define_workflow, tool
from rulvar.testing import create_test_engine, fake_tool_calls


async def told_of(steps: list[Any], *, data: Any = None) -> list[Any]:
    """Return what a model is told of each of its calls of a tool that sends it back where a step says so."""
    asked = iter(steps)

    @tool
    def work(back: bool = False) -> str:
        """Work."""
        if back:
            raise ModelRetry("try another way", data=data)
        return "done"

    def model(call: Any) -> Any:
        step = next(asked, None)
        return "end" if step is None else fake_tool_calls(name="work", args=step)

    engine = create_test_engine(agents={"*": model})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", tools=[work])

    async with engine:
        assert (await engine.run(define_workflow("w", body)).result()).value == "end"
    messages = engine.fake.calls[-1].req.messages
    return [part.result for message in messages for part in message.parts if part.type == "tool-result"]


BACK, DONE, WRONG = {"back": True}, {"back": False}, {"back": "?"}


async def test_the_third_time_in_a_row_a_model_is_told_that_it_is_enough() -> None:
    plain, enough = (
        {"error": "try another way"},
        {"error": "try another way", "retriesExhausted": True},
    )
    assert await told_of([BACK] * 4) == [plain, plain, enough, enough]


async def test_a_call_that_comes_to_a_result_starts_the_count_anew_and_one_that_does_not_fit_does_not() -> (
    None
):
    told = await told_of([BACK, BACK, DONE, BACK, BACK, WRONG, BACK])
    assert ["retriesExhausted" in answer for answer in told if isinstance(answer, dict)] == [
        False,
        False,
        False,
        False,
        False,
        True,
    ]


async def test_what_a_tool_sends_along_reaches_the_model() -> None:
    assert await told_of([BACK], data={"near": ["a", "b"]}) == [
        {"error": "try another way", "data": {"near": ["a", "b"]}}
    ]


async def taken(text: str) -> Any:
    """Return the arguments that a tool is called with for a text that an adapter could not read; None if it is not."""
    got: list[Any] = []

    @tool(parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})
    def look(args: Any) -> str:
        """Look."""
        got.append(args)
        return "seen"

    def model(call: Any) -> Any:
        done = call.req.messages[-1].role == "tool"
        return "end" if done else fake_tool_calls(name="look", args={"__unparsed": text})

    engine = create_test_engine(agents={"*": model})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", tools=[look])

    async with engine:
        run = engine.run(define_workflow("w", body))
        assert (await run.result()).value == "end"
        warned = [event for event in run.events_seen() if event["type"] == "log" and event["level"] == "warn"]
    sent = engine.fake.calls[-1].req.messages[1].parts[0]
    assert sent.args == {"__unparsed": text}  # the conversation keeps what the model wrote
    assert len(warned) == len(got)
    return got[0] if got else None


@pytest.mark.parametrize(
    ("text", "q"),
    [
        ('{"q": "a"}', "a"),
        ('```json\n{"q": "a"}\n```', "a"),
        ('{"q": "a"} and that is all }', "a"),
        ('Here: {"q": "a}"}', "a}"),
        ('{"q": "two\nlines\tand \x01"}', "two\nlines\tand \x01"),
        ('{"q": "quoted \\"x\n\\""}', 'quoted "x\n"'),
    ],
)
async def test_arguments_that_are_almost_json_are_read_once_more(text: str, q: str) -> None:
    assert await taken(text) == {"q": q}


@pytest.mark.parametrize(
    "text", ['{"q": "a', "[1]", "none", "", '{"q": 5}', '{"x": "a"}', '{"q": "a",}', "\\", '"']
)
async def test_what_breaks_off_or_does_not_fit_is_told_to_the_model(text: str) -> None:
    assert await taken(text) is None
