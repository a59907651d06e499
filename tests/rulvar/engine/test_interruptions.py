"""Segments that broke off: the meta row counts them for as long as the run gets no further."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, Engine, JsonlFileStore, define_workflow, tool
from rulvar.errors import ConfigError, RunInterruptedError
from rulvar.testing import FakeAdapter, fake_tool_calls
from rulvar.testing.engine import fake_routing
from rulvar.workers.giving_up import give_up_if_stuck


class Disk:
    """The folder of a store; what a process leaves that dies is a copy of it made at that moment."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._deaths = 0
        self._copied = False

    @property
    def store(self) -> JsonlFileStore:
        return JsonlFileStore(self._root / str(self._deaths))

    def die(self) -> None:
        """Have the process die here, as far as the disk is concerned."""
        if not self._copied:
            shutil.copytree(self._root / str(self._deaths), self._root / str(self._deaths + 1))
            self._copied = True

    async def segment(self, wf: Any, **options: Any) -> dict[str, Any]:
        """Drive a segment, go on with what it left if it died, and return the meta row."""
        async with Engine(journal=self.store, **options) as engine:
            handle: Any = engine.resume("r", wf) if await engine.knows("r") else engine.run(wf, run_id="r")
            await handle.result()
        if self._copied:
            self._deaths, self._copied = self._deaths + 1, False
        row = await self.store.load_meta("r")
        assert row is not None
        return row


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def dies_after(disk: Disk, steps: Callable[[], int]) -> Any:
    async def body(ctx: Ctx) -> None:
        for number in range(steps()):
            await ctx.step("load", lambda number=number: number, deps=[number])
        await ctx.step("burst", disk.die)

    return define_workflow("dies", body)


async def test_segments_that_break_off_at_one_place_are_counted(disk: Disk) -> None:
    wf = dies_after(disk, lambda: 2)

    rows = [await disk.segment(wf) for _ in range(4)]

    assert [row["status"] for row in rows] == ["running"] * 4
    assert [row.get("interrupted", {}).get("times") for row in rows] == [None, 1, 2, 3]


async def test_a_run_that_got_further_is_counted_anew(disk: Disk) -> None:
    done = iter([1, 1, 3, 3])
    wf = dies_after(disk, lambda: next(done))

    rows = [await disk.segment(wf) for _ in range(4)]

    assert [row.get("interrupted", {}).get("times") for row in rows] == [None, 1, 2, 1]


async def test_an_agent_that_finished_another_turn_got_further(disk: Disk) -> None:
    @tool
    def look(q: str) -> str:
        """Look a thing up."""
        return q

    dying = iter([2, 2, 3, 3, 9])
    dies_at = 0

    def answer(call: Any) -> Any:
        turn = sum(1 for message in call.req.messages if message.role == "assistant") + 1
        if turn == dies_at:
            disk.die()
        return "done" if turn > 4 else fake_tool_calls(name="look", args={"q": str(turn)})

    async def body(ctx: Ctx) -> Any:
        return await ctx.agent("look around", tools=[look])

    counted = []
    for turn in dying:
        dies_at = turn
        row = await disk.segment(
            define_workflow("agent", body),
            adapters=[FakeAdapter(agents={"*": answer})],
            routing=fake_routing(),
        )
        counted.append(row.get("interrupted", {}).get("times"))

    assert counted == [None, 1, 2, 1, None]
    assert row["status"] == "ok"


async def test_a_segment_that_is_settled_ends_the_count(disk: Disk) -> None:
    dies = dies_after(disk, lambda: 1)
    await disk.segment(dies)
    await disk.segment(dies)

    async def body(ctx: Ctx) -> None:
        await ctx.step("load", lambda: 0, deps=[0])

    row = await disk.segment(define_workflow("dies", body))

    assert row["status"] == "ok"
    assert "interrupted" not in row


async def test_a_run_that_is_let_go_has_not_broken_off(disk: Disk) -> None:
    wf = dies_after(disk, lambda: 1)
    for _ in range(3):
        await disk.segment(wf)

    async def waits(ctx: Ctx) -> None:
        await ctx.step("load", lambda: 0, deps=[0])
        await handle.let_go()

    engine = Engine(journal=disk.store)
    handle = engine.resume("r", define_workflow("dies", waits))
    await handle.result()
    await engine.close()

    row = await disk.segment(wf)
    assert row["interrupted"]["times"] == 1


async def test_whoever_drives_runs_by_himself_gives_one_up_that_breaks_off_too_often(disk: Disk) -> None:
    wf = dies_after(disk, lambda: 1)
    for _ in range(3):
        row = await disk.segment(wf)
    engine = Engine(journal=disk.store)

    await give_up_if_stuck(engine, "r", row, 4)
    await give_up_if_stuck(engine, "r", row, None)
    with pytest.raises(
        RunInterruptedError, match=r"run 'r' broke off 3 times in a row after entry 2, each time"
    ):
        await give_up_if_stuck(engine, "r", row, 3)

    kept = await disk.store.load_meta("r")
    assert kept is not None
    assert kept["status"] == "error"
    assert len(await disk.store.load("r")) == 3  # nothing was journaled: it can be resumed as it is
    await engine.close()


async def test_a_dry_run_counts_nothing(disk: Disk) -> None:
    wf = dies_after(disk, lambda: 1)
    await disk.segment(wf)
    engine = Engine(journal=disk.store)

    await engine.resume("r", wf, dry_run=True).result()

    assert "interrupted" not in (await disk.store.load_meta("r") or {})
    await engine.close()


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "3"])
def test_how_often_a_run_may_break_off_is_checked(value: Any) -> None:
    pytest.importorskip("procrastinate")
    from rulvar.workers import ProcrastinateQueue, Worker

    queue = ProcrastinateQueue("postgresql://nowhere/x")
    with pytest.raises(ConfigError, match="max_interruptions="):
        Worker(Engine(), queue, max_interruptions=value)
