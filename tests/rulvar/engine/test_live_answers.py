"""Answers that are given while a run is at work: it is suspended when nothing in it goes on, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rulvar import Ctx, InMemoryStore, workflow
from rulvar.contracts.entries import JournalEntry
from rulvar.errors import StoreError
from rulvar.testing import create_test_engine


class SlowStore(InMemoryStore):
    """Takes its time to write answers down, or does not write them at all."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__()
        self.refuses = refuses

    append_now = None  # type: ignore[assignment]

    async def append(self, run_id: str, entries: Sequence[JournalEntry], *, lease: Any = None) -> None:
        if any(entry.kind == "resolution" for entry in entries):
            await asyncio.sleep(0.02)
            if self.refuses:
                raise StoreError("the disk is full")
        InMemoryStore.append_now(self, run_id, entries)


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    async def second() -> Any:
        first = await ctx.await_external("second")
        return [first, await ctx.await_external("third")]

    return await ctx.parallel([lambda: ctx.await_external("first"), second])


async def answered(store: InMemoryStore, replies: dict[str, Any]) -> Any:
    """Run, and answer what there is a reply to as soon as it is asked."""
    tasks = []

    async with create_test_engine(journal=store) as engine:
        run = engine.run(flow, run_id="r")

        def reply(event: Any) -> None:
            if event["key"] in replies:
                tasks.append(asyncio.ensure_future(run.answer(event["key"], replies[event["key"]])))

        run.on("external:waiting", reply)
        outcome = await asyncio.wait_for(run.result(), 10)
        said = await asyncio.gather(*tasks, return_exceptions=True)
    return outcome, said


STORES = pytest.mark.parametrize("store", [InMemoryStore, SlowStore])


@STORES
async def test_a_run_is_not_suspended_while_an_answer_is_taken(store: type[InMemoryStore]) -> None:
    outcome, _ = await answered(store(), {"second": 2, "third": 3, "first": 1})
    assert (outcome.status, outcome.value) == ("ok", [1, [2, 3]])


@STORES
async def test_what_goes_on_after_an_answer_may_wait_again(store: type[InMemoryStore]) -> None:
    outcome, _ = await answered(store(), {"second": 2})
    assert outcome.status == "suspended"
    assert [wait.key for wait in outcome.pending] == ["first", "third"]


async def test_an_answer_that_cannot_be_written_leaves_its_wait_open() -> None:
    outcome, said = await answered(SlowStore(refuses=True), {"second": 2})
    assert outcome.status in ("suspended", "error")
    assert isinstance(said[0], StoreError)
    if outcome.status == "suspended":
        assert [wait.key for wait in outcome.pending] == ["first", "second"]


@pytest.mark.parametrize("late", [0, 1, 2, 3])
async def test_an_answer_that_meets_a_suspension_is_kept_for_the_next_segment(late: int) -> None:
    store = InMemoryStore()
    async with create_test_engine(journal=store) as engine:
        run = engine.run(flow, run_id="r")
        asked = asyncio.Event()
        run.on("external:waiting", lambda event: asked.set() if event["key"] == "second" else None)
        await asked.wait()
        for _ in range(late):
            await asyncio.sleep(0)
        answering = asyncio.ensure_future(run.answer("second", 2))
        outcome = await asyncio.wait_for(run.result(), 10)
        await answering
        while outcome.status == "suspended":
            for wait in outcome.pending:
                if wait.key != "second":
                    await engine.resolve_external("r", wait.key, wait.key, wf=flow)
            outcome = await asyncio.wait_for(engine.resume("r", flow).result(), 10)
    assert outcome.value == ["first", [2, "third"]]
