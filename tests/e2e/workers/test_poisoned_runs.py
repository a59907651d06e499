"""Runs that end whatever process drives them: they are given up, and everybody else's runs go on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from worker_fleet import Fleet

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue

PROCESS = Path(__file__).with_name("poisoned_process.py")


async def never(ctx: Ctx, args: Any) -> Any:
    raise AssertionError("only workers drive runs here")


def submitting(dsn: str) -> Engine:
    workflows = [define_workflow(name, never) for name in ("harmless", "poisoned")]
    return Engine(journal=PostgresStore(dsn), queue=ProcrastinateQueue(dsn), workflows=workflows)


async def supervised(fleet: Fleet, engine: Engine, statuses: dict[str, str], seconds: float) -> int:
    """Start a worker whenever one has died, until the runs stand so; return how many have died."""
    died, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        for process in list(fleet.alive):
            if process.poll() is not None:
                fleet.reap(process)
                died += 1
        if not fleet.alive:
            fleet.start()
        if {meta["runId"]: meta["status"] for meta in await engine.store.list_runs()} == statuses:
            return died
        await asyncio.sleep(0.05)
    raise AssertionError([dict(meta) for meta in await engine.store.list_runs()])


async def test_a_run_that_ends_its_worker_each_time_is_given_up_and_the_others_are_done(
    database: str,
) -> None:
    fleet = Fleet(PROCESS, database, 1.0, 3)
    engine = submitting(database)
    try:
        await engine.enqueue("poisoned", "bad", run_id="bad")
        for number in range(4):
            await engine.enqueue("harmless", number, run_id=f"good-{number}")
        ended = {"bad": "error", **{f"good-{number}": "ok" for number in range(4)}}

        died = await supervised(fleet, engine, ended, 60)

        assert died == 3
        row = await engine.store.load_meta("bad")
        assert row is not None
        assert row["interrupted"]["times"] == 3
        before = len(await engine.store.load("bad"))
        # nobody tries again by himself
        await asyncio.sleep(2.5)
        assert len(fleet.alive) == 1
        assert fleet.alive[0].poll() is None

        await engine.queue.wake("bad")  # type: ignore[union-attr]
        deadline = time.monotonic() + 20
        while fleet.alive[0].poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        died = await supervised(fleet, engine, ended, 60)

        assert died == 3  # as many tries again
        assert len(await engine.store.load("bad")) == before
    finally:
        fleet.close()
        await engine.close()
