"""Calls that a body has started and not awaited are stopped and journaled before the run is settled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import RunSuspended
from rulvar.testing import create_test_engine


async def slow(call: Any) -> str:
    await asyncio.sleep(5)
    return "slow"


@workflow(name="kid")
async def kid(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("in the child")


async def asleep() -> None:
    await asyncio.sleep(5)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", ["agent", "child", "step", "parallel"])
async def test_what_was_left_behind_ends_before_the_run_does(kind: str, fails: bool) -> None:
    left: list[asyncio.Task[Any]] = []

    async def call(ctx: Ctx) -> Any:
        if kind == "agent":
            return await ctx.agent("alone")
        if kind == "child":
            return await ctx.workflow(kid)
        if kind == "step":
            return await ctx.step("sleep", asleep)
        return await ctx.parallel([lambda: ctx.agent("one"), lambda: ctx.agent("two")])

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        left.append(asyncio.ensure_future(call(ctx)))
        await asyncio.sleep(0.01)
        if fails:
            raise ValueError("no")
        return "done"

    async with create_test_engine(agents={"*": slow}) as engine:
        outcome = await engine.run(flow, run_id="r").result()
        assert (outcome.status, outcome.value) == (("error", None) if fails else ("ok", "done"))
        entries = await engine.store.load("r")
        calls = {"agent": 1, "child": 1, "step": 0, "parallel": 2}[kind]
        assert outcome.cost.wire_requests == calls
        begun = {e.seq for e in entries if e.status == "running"}
        ended = {e.ref: e.status for e in entries if e.ref is not None}
        assert begun == set(ended)
        assert set(ended.values()) == {"cancelled"}
        assert entries[-1].value["decisionType"] == "run_settle"
        await asyncio.wait(left)
        assert len(await engine.store.load("r")) == len(entries)


async def test_what_was_left_behind_calls_nothing_more() -> None:
    left: list[asyncio.Task[Any]] = []

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        async def again_and_again() -> None:
            for number in range(3):
                try:
                    await ctx.agent(f"call {number}")
                except asyncio.CancelledError:
                    continue

        left.append(asyncio.ensure_future(again_and_again()))
        await asyncio.sleep(0.01)

    async with create_test_engine(agents={"*": slow}) as engine:
        await engine.run(flow, run_id="r").result()
        assert len(engine.fake.calls) == 1
    with pytest.raises(RunSuspended):
        await left[0]
