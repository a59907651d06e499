"""What a run is doing at a moment, asked of its handle."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar import Ctx, InMemoryStore, workflow
from rulvar.engine.handle import RunHandle
from rulvar.testing import create_test_engine


def told(handle: RunHandle[Any]) -> list[tuple[str, str, str]]:
    return [(call.kind, call.name, call.scope) for call in handle.under_way()]


async def test_a_handle_names_what_is_under_way_as_its_author_did() -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(call: Any) -> str:
        begun.set()
        await gate.wait()
        return "done"

    @workflow(name="inner")
    async def inner(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("look", label="first look")

    @workflow(name="outer")
    async def outer(ctx: Ctx, args: Any) -> Any:
        await ctx.step("before", lambda: 1)
        return await ctx.parallel([lambda: ctx.step("load", gate.wait), lambda: ctx.workflow(inner)])

    engine = create_test_engine(agents={"*": slow})
    handle = engine.run(outer)
    assert told(handle) == []
    await begun.wait()

    assert told(handle) == [
        ("step", "load", "par:0:0"),
        ("child", "inner", "par:0:1"),
        ("agent", "first look", handle.under_way()[2].scope),
    ]
    assert all(call.seconds >= 0 and call.span for call in handle.under_way())

    gate.set()
    assert (await handle.result()).status == "ok"
    assert told(handle) == []


async def test_a_call_that_a_resume_takes_up_counts_from_the_resume() -> None:
    gate = asyncio.Event()

    @workflow(name="waits")
    async def waits(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("load", gate.wait)

    store = InMemoryStore()
    first = create_test_engine(journal=store).run(waits, run_id="r")
    while not first.under_way():
        await asyncio.sleep(0)
    await first.let_go()
    assert told(first) == []

    again = create_test_engine(journal=store).resume("r", waits)
    while not again.under_way():
        await asyncio.sleep(0)
    [call] = again.under_way()
    assert (call.name, call.seconds < 1) == ("load", True)
    gate.set()
    await again.result()
