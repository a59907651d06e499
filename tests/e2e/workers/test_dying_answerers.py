"""Processes that die while they answer a waiting run: a worker finishes what they began."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.errors import ResolutionError
from rulvar.workers import ProcrastinateQueue, Worker

PROCESS = Path(__file__).with_name("answering_process.py")


async def ask(ctx: Ctx, args: Any) -> Any:
    return await ctx.await_external("answer", schema={"type": "integer"})


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    made = Engine(
        journal=PostgresStore(database),
        queue=ProcrastinateQueue(database, patience_s=0.5),
        workflows=[define_workflow("ask", ask)],
        lease_ttl_s=1.0,
    )
    await made.enqueue("ask", run_id="r")
    await Worker(made).run(until_idle=True)
    yield made
    await made.close()


async def jobs(database: str) -> int:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        found = await connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'")
        [count] = await found.fetchone() or (0,)
        return int(count)


@pytest.mark.parametrize("moment", ["before the answer is journaled", "before the wake", "after the wake"])
async def test_the_answer_of_a_process_that_died_is_journaled_once_and_its_run_goes_on(
    database: str, engine: Engine, moment: str
) -> None:
    command = [sys.executable, str(PROCESS), database, "r", moment]
    died = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr

    worker = Worker(engine)
    serving = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        while ((await engine.store.load_meta("r")) or {})["status"] != "ok" or await jobs(database):
            await asyncio.sleep(0.05)
    worker.stop()
    await serving

    entries = await engine.store.load("r")
    [resolution] = [entry.to_wire() for entry in entries if entry.kind == "resolution"]
    assert resolution["resolution"]["value"] == 7
    assert worker.stats.failed == 0


async def test_nothing_stands_by_after_an_answer(database: str, engine: Engine) -> None:
    await engine.resolve_external("r", "answer", 7)
    assert await jobs(database) == 1
    await Worker(engine).run(until_idle=True)
    assert await jobs(database) == 0


@pytest.mark.parametrize(("key", "value"), [("answer", "seven"), ("answr", 7)])
async def test_nothing_stands_by_after_an_answer_that_was_refused(
    database: str, engine: Engine, key: str, value: Any
) -> None:
    with pytest.raises(ResolutionError):
        await engine.resolve_external("r", key, value)
    assert await jobs(database) == 0
