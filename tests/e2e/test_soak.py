"""Hundreds of runs on one engine over files, cancelled at random, leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from pathlib import Path
from typing import Any

from rulvar import Ctx, JsonlFileStore, workflow
from rulvar.testing import create_test_engine

RUNS = 200


@workflow(name="soak")
async def work(ctx: Ctx, args: int) -> list[Any]:
    async def branch(number: int) -> Any:
        await ctx.step("wait", lambda: asyncio.sleep(0.001 * (args % 7)), key=str(number))
        return await ctx.agent(f"question {args} {number}", label="soak")

    answers = await ctx.parallel([lambda n=n: branch(n) for n in range(3)])
    if args % 5 == 0:
        await ctx.await_external("never")
    return answers


async def one_round(engine: Any, number: int, chance: random.Random) -> dict[str, int]:
    handles = [engine.run(work, index, run_id=f"r{number}-{index}") for index in range(RUNS)]

    async def cancel_some() -> None:
        for handle in chance.sample(handles, RUNS // 4):
            await asyncio.sleep(0.0005)
            await handle.cancel("the dice said so")

    await cancel_some()
    counts: dict[str, int] = {}
    for handle in handles:
        status = (await handle.result()).status
        counts[status] = counts.get(status, 0) + 1
    return counts


async def test_a_soaked_engine_keeps_no_task_no_file_and_no_memory(tmp_path: Path) -> None:
    seconds = float(os.environ.get("RULVAR_SOAK_SECONDS", "4"))
    chance = random.Random(7)
    engine = create_test_engine(agents={"*": "answer"}, journal=JsonlFileStore(tmp_path / "runs"))
    kept: list[int] = []
    ends = time.monotonic() + seconds
    number = 0
    async with engine:
        while number < 4 or time.monotonic() < ends:
            counts = await one_round(engine, number, chance)
            number += 1
            assert set(counts) <= {"ok", "cancelled", "suspended"}, counts
            assert len(asyncio.all_tasks()) == 1
            del engine.fake.calls[:]
            for file in (tmp_path / "runs").rglob("*"):
                if file.is_file():
                    file.unlink()
            gc.collect()
            kept.append(len(gc.get_objects()))
    open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)]
    assert not [path for path in open_files if str(tmp_path) in path]
    assert kept[-1] - kept[2] < 2_000, kept  # objects that the collector knows of


def _is_link(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")
