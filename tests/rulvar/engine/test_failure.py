"""A run that fails says which exception ended it and where; its value can be asked for in one word."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import RunFailedError


def broken(args: Any) -> Any:
    return args["missing"]


@workflow(name="breaks")
async def breaks(ctx: Ctx, args: Any) -> Any:
    return broken({})


@workflow(name="rejects")
async def rejects(ctx: Ctx, args: Any) -> Any:
    return await ctx.step("s", lambda: json.loads("{"))


async def test_the_outcome_names_the_exception_and_the_innermost_line_of_the_users_code(bench: Any) -> None:
    raised = (await bench.run(breaks)).raised
    assert (raised.type, raised.function) == ("KeyError", "broken")
    assert raised.file.endswith("tests/rulvar/engine/test_failure.py")
    assert raised.line == broken.__code__.co_firstlineno + 1


async def test_what_a_library_raises_is_told_with_the_line_that_called_it(bench: Any) -> None:
    raised = (await bench.run(rejects)).raised
    assert (raised.type, raised.function) == ("JSONDecodeError", "<lambda>")


async def test_an_outcome_gives_its_value_in_one_word_or_says_why_there_is_none(make_bench: Any) -> None:
    async def fine(ctx: Ctx, args: Any) -> int:
        return 3

    assert (await make_bench().run(fine)).unwrap() == 3

    async def failing(ctx: Ctx, args: Any) -> Any:
        return broken({})

    outcome = await make_bench().run(failing)
    with pytest.raises(
        RunFailedError, match=r"ended error; error: 'missing'; raised by KeyError at .*test_failure"
    ):
        outcome.unwrap()

    async def waiting(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("approve")

    outcome = await make_bench().run(waiting)
    with pytest.raises(RunFailedError, match="ended suspended; waits for approve"):
        outcome.unwrap()


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def raise_mute(*args: Any) -> Any:
    raise Mute


@workflow(name="mute")
async def mute(ctx: Ctx, args: Any) -> Any:
    if args == "parallel":
        return await ctx.parallel([raise_mute], settle=True)
    if args == "pipeline":
        return await ctx.pipeline([1], raise_mute)
    if args == "step":
        return await ctx.step("s", raise_mute)
    raise Mute


@pytest.mark.parametrize("where", ["body", "step", "parallel", "pipeline"])
async def test_an_exception_that_cannot_tell_its_text_fails_the_run_as_any_other(
    make_bench: Any, where: str
) -> None:
    outcome = await make_bench().run(mute, where)
    [error] = [
        each for each in (outcome.error, *(item.error for item in outcome.dropped)) if each is not None
    ]
    assert error.message == "Mute (its text cannot be told)"
    assert outcome.raised is None or outcome.raised.type == "Mute"


async def test_an_exception_without_a_text_is_told_by_its_name(bench: Any) -> None:
    @workflow(name="late")
    async def late(ctx: Ctx, args: Any) -> Any:
        raise TimeoutError

    assert (await bench.run(late)).error.message == "TimeoutError"


async def test_a_group_of_exceptions_is_told_with_what_is_in_it(bench: Any) -> None:
    @workflow(name="group")
    async def group(ctx: Ctx, args: Any) -> Any:
        raise ExceptionGroup(
            "both", [ValueError("a"), ExceptionGroup("inner", [KeyError("b"), TimeoutError()])]
        )

    told = (await bench.run(group)).error.message
    assert told == "both (2 sub-exceptions): ValueError: a; KeyError: 'b'; TimeoutError: TimeoutError"


async def test_a_body_that_raises_before_it_can_be_awaited_fails_its_run(bench: Any) -> None:
    def checked(body: Any) -> Any:
        @functools.wraps(body)
        def check(ctx: Ctx, args: Any) -> Any:
            raise PermissionError("not for you")

        return check

    @checked
    async def body(ctx: Ctx, args: Any) -> Any:
        return None

    outcome = await bench.run(body)
    assert outcome.error is not None and outcome.error.message == "not for you"
