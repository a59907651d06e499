"""Where a call stands: plain asyncio code inside a branch keeps its place."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar import Ctx, define_workflow
from rulvar.testing import create_test_engine


async def test_tasks_that_a_branch_starts_stay_in_its_scope(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async def branch(n: int) -> Any:
            task = asyncio.create_task(ctx.step("inner", lambda: n))
            return await asyncio.gather(task, ctx.step("other", lambda: n))

        return await ctx.parallel([lambda: branch(0), lambda: branch(1)])

    assert (await bench.run(body)).value == [[0, 0], [1, 1]]
    scopes = {entry["scope"] for entry in await bench.entries() if entry["kind"] == "step"}
    assert scopes == {"par:0:0", "par:0:1"}


async def test_coroutines_may_be_handed_to_parallel_and_run_in_their_branch(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([ctx.step("a", lambda: 1), ctx.step("a", lambda: 2)])

    assert (await bench.run(body)).value == [1, 2]
    scopes = [e["scope"] for e in await bench.entries() if e["kind"] == "step" and e["status"] == "ok"]
    assert sorted(scopes) == ["par:0:0", "par:0:1"]


async def test_sites_count_per_scope_in_execution_order(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        for _ in range(2):
            await ctx.parallel([lambda: ctx.parallel([lambda: ctx.step("s", lambda: 1)])])

    await bench.run(body)
    scopes = [e["scope"] for e in await bench.entries() if e["kind"] == "step" and e["status"] == "ok"]
    assert scopes == ["par:0:0/par:0:0", "par:1:0/par:0:0"]


async def test_a_phase_changes_accounting_and_no_identity(bench: Any) -> None:
    async def with_phase(ctx: Ctx, args: Any) -> Any:
        async with ctx.phase("plan"):
            first = await ctx.agent("a")
        return [first, await ctx.phase("write")(lambda: ctx.agent("b"))]

    async def without(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("a"), await ctx.agent("b")]

    outcome = await bench.run(with_phase)
    assert dict(outcome.cost.by_phase) == {"plan": 0, "write": 0}
    await bench.resume(without)
    assert (await bench.handle.preview()).hits == 2


async def test_a_journaling_call_inside_a_step_is_refused(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("outer", lambda: ctx.agent("inner"))

    outcome = await bench.run(body)
    assert outcome.error.code == "config"
    assert "outer" in outcome.error.message


async def test_a_workflow_that_runs_inside_another_run_has_its_own_place(make_bench: Any) -> None:
    inner, outer = make_bench(), make_bench()

    async def nested(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("inner question")

    async def body(ctx: Ctx, args: Any) -> Any:
        async def call() -> Any:
            return (await inner.run(nested)).value

        return await ctx.step("ask the other engine", call)

    assert (await outer.run(body)).value == "x"
    assert len(inner.engine.fake.calls) == 1
    assert [e["kind"] for e in await outer.entries()] == ["step", "step", "decision"]


async def test_a_call_that_may_be_served_from_anywhere_takes_the_recorded_ones_in_their_order() -> None:
    """Those that failed, and those that were taken in their own place, are not among them."""
    answers = iter(["a", "b", "c"])
    engine = create_test_engine(agents={"*": lambda request: next(answers)})
    moved = False

    async def body(ctx: Ctx, args: Any) -> Any:
        async def ask() -> Any:
            return await ctx.agent("same", replay="cache")

        if not moved:
            return [await ask(), await ask(), await ask()]
        first = await ask()
        return [first, *await ctx.parallel([ask]), *await ctx.parallel([ask])]

    flow = define_workflow("w", body)
    assert (await engine.run(flow, run_id="r").result()).value == ["a", "b", "c"]
    moved = True
    assert (await engine.resume("r", flow).result()).value == ["a", "b", "c"]
