"""The end of a run, as its last event tells it: whether anything that lasts says the same."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar import Ctx, workflow
from rulvar.errors import StoreError
from rulvar.stores import InMemoryStore
from rulvar.testing import create_test_engine


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    await ctx.step("one", lambda: 1)
    return "done"


class NoEnd(InMemoryStore):
    """Keeps everything but the row that says how a run ended."""

    async def save_meta(self, run_id: str, meta: Any, **lease: Any) -> None:
        if meta["status"] != "running":
            raise StoreError("the disk is full")
        await super().save_meta(run_id, meta, **lease)


async def last_event(journal: InMemoryStore) -> Any:
    async with create_test_engine(agents={"*": "x"}, journal=journal) as engine:
        handle = engine.run(flow, run_id="r")
        await handle.result()
        return [event async for event in handle.events][-1]


async def test_an_end_that_could_not_be_written_is_told_to_be_unsettled() -> None:
    event = await last_event(NoEnd())
    assert (event["type"], event["status"], event["settled"]) == ("run:end", "error", False)
    assert event["envelope"]["settled"] is False
    assert event["envelope"]["error"]["code"] == "settlement"


async def test_an_end_that_was_written_is_settled() -> None:
    event = await last_event(InMemoryStore())
    assert "settled" not in event
    assert event["envelope"]["settled"] is True


async def test_whoever_lets_a_run_go_settles_nothing() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(5)

    @workflow(name="slow")
    async def slow(ctx: Ctx, args: Any) -> None:
        await ctx.step("wait", wait)

    async with create_test_engine(agents={"*": "x"}) as engine:
        handle = engine.run(slow, run_id="r")
        await begun.wait()
        await handle.let_go()
        event = [event async for event in handle.events][-1]
    assert (event["settled"], event["settledReason"]) == (False, "superseded")
    assert event["envelope"]["settledReason"] == "superseded"
