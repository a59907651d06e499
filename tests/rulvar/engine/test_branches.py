"""Which failure of several branches or items is told, and which of them stop the others."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from rulvar import Ctx, define_workflow, tool, workflow
from rulvar.errors import AgentCallError, BudgetExhaustedError
from rulvar.testing import FAKE_MODEL_REF, create_test_engine, fake_tool_calls, fake_wire_error

BROKEN = fake_wire_error({"code": "agent", "message": "broken", "retryable": False})
PAID = {FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}


@tool
def look() -> str:
    """Look around."""
    return "nothing"


async def slow(call: Any) -> str:
    await asyncio.sleep(0.02)
    return "slow"


async def run(body: Any, agents: Any = None, **options: Any) -> Any:
    made = {name: options.pop(name) for name in ("pricing", "budget_defaults") if name in options}
    engine = create_test_engine(
        agents=agents or {"broken": BROKEN, "slow": slow, "*": "eight ch"},
        budget_defaults=made.pop("budget_defaults", {"flat_reserve_usd": 0}),
        **made,
    )
    async with engine:
        return await engine.run(workflow(name="w")(body), **options).result()


async def fails_after(seconds: float, name: str) -> None:
    await asyncio.sleep(seconds)
    raise ValueError(name)


async def test_of_two_failures_the_first_branch_tells() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        branches = [lambda: fails_after(0.02, "first"), lambda: fails_after(0, "second")]
        await ctx.parallel(branches, abort_siblings=False)

    outcome = await run(body)
    assert outcome.error.message == "first"


async def test_a_failure_is_told_before_a_limit() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.parallel(
                [
                    lambda: ctx.agent("x", limits={"max_turns": 1}, tools=[look]),
                    lambda: fails_after(0.01, "failed"),
                ]
            )
        except ValueError as error:
            return str(error)

    looping = fake_tool_calls({"name": "look", "args": {}})
    outcome = await run(body, {"*": looping})
    assert outcome.value == "failed"


async def test_a_branch_that_met_a_limit_stops_no_other() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.parallel(
                [
                    lambda: ctx.agent("looping", limits={"max_turns": 1}, tools=[look]),
                    lambda: ctx.agent("slow"),
                ]
            )
        except AgentCallError as error:
            return [error.result.status, ctx.budget.spent().agents_spawned]

    looping = fake_tool_calls({"name": "look", "args": {}})
    outcome = await run(body, {"looping": looping, "slow": slow})
    assert outcome.value == ["limit", 2]
    assert outcome.usage.output_tokens == 8 + 1  # the slow one has answered


@pytest.mark.parametrize("settle", [False, True])
async def test_a_refusal_of_the_budget_is_told_before_any_failure(settle: bool) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.parallel(
                [lambda: ctx.agent("broken"), lambda: ctx.agent("dear", est_cost=9)],
                settle=settle,
                abort_siblings=False,
            )
        except BudgetExhaustedError as error:
            return error.data["account"]

    outcome = await run(body, budget_usd=5)
    assert (outcome.status, outcome.value) == ("exhausted", "run")


@pytest.mark.parametrize("mode", ["drop", "collect", "throw"])
async def test_a_pipeline_drops_no_item_for_want_of_money(mode: str) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.pipeline(
            ["broken", "dear"],
            lambda item: ctx.agent(item, est_cost=9 if item == "dear" else 0),
            on_item_error=mode,
        )

    outcome = await run(body, budget_usd=5)
    assert (outcome.status, outcome.error.code) == ("exhausted", "budget_exhausted")


async def test_a_pipeline_throws_what_failed_first() -> None:
    async def stage(item: float) -> None:
        await fails_after(item, str(item))

    async def body(ctx: Ctx, args: Any) -> Any:
        await ctx.pipeline([0.02, 0.01], stage, on_item_error="throw")

    outcome = await run(body)
    assert outcome.error.message == "0.01"


async def test_an_exit_in_a_branch_is_not_settled() -> None:
    class Verdict(BaseException):
        pass

    async def leave() -> None:
        raise Verdict

    async def body(ctx: Ctx, args: Any) -> Any:
        await ctx.parallel([leave], settle=True)

    with pytest.raises(Verdict):
        await run(body)


@pytest.mark.parametrize("how", ["parallel", "pipeline", "phase"])
@pytest.mark.parametrize("determinism", ["off", "warn"])
async def test_a_function_that_is_not_async_is_refused_and_no_item_is_dropped_for_it(
    how: str, determinism: Any
) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        time.time()  # rulvar: ignore[RLV101] the guard looks at a body that could read a clock
        if how == "parallel":
            return await ctx.parallel([lambda: 1])  # type: ignore[list-item, return-value]
        if how == "pipeline":
            return await ctx.pipeline([1], lambda item: item + 1)
        return await ctx.phase("p")(lambda: 1)  # type: ignore[arg-type, return-value]

    engine = create_test_engine(determinism=determinism)
    outcome = await engine.run(define_workflow("plain", body)).result()
    assert outcome.error is not None
    assert outcome.error.code == "config"
    assert "<lambda> returned int, and what it returns is awaited" in outcome.error.message


async def test_the_ctx_of_a_run_that_is_over_is_of_no_use_in_another_one() -> None:
    kept: list[Ctx] = []

    async def keep(ctx: Ctx, args: Any) -> Any:
        kept.append(ctx)
        return await kept[0].step("s", lambda: 1)

    engine = create_test_engine()
    wf = define_workflow("keep", keep)
    assert (await engine.run(wf, run_id="first").result()).value == 1
    outcome = await engine.run(wf, run_id="second").result()
    assert outcome.error is not None
    assert "ctx of run 'first', which is over, was called in run 'second'" in outcome.error.message


async def test_a_branch_may_return_an_exception() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async def look(item: int) -> Exception:
            await ctx.step(f"look at {item}", lambda: item)
            return ValueError(item)

        plain = await ctx.parallel([partial(look, 1)])
        [settled] = await ctx.parallel([partial(look, 2)], settle=True)
        piped = await ctx.pipeline([3], look)
        return [str(error) for error in (*plain, settled.value, *piped)]

    assert (await run(body)).unwrap() == ["1", "2", "3"]
