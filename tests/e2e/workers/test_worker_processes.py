"""Worker processes that are killed, stopped and told to go while they drive runs.

The soak is short here; RULVAR_SOAK=1 runs it with 8 workers and 2,000 runs.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counting_service import CountingService
from worker_fleet import Fleet

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue

WORKER = Path(__file__).with_name("worker_process.py")
IS_LONG = bool(os.environ.get("RULVAR_SOAK"))


@pytest.fixture
def service() -> Iterator[CountingService]:
    made = CountingService()
    yield made
    made.close()


async def never(ctx: Ctx, args: Any) -> Any:
    raise AssertionError("only workers drive runs here")


def submitting(dsn: str) -> Engine:
    return Engine(
        journal=PostgresStore(dsn),
        queue=ProcrastinateQueue(dsn),
        workflows=[define_workflow("five-steps", never)],
    )


async def settled(engine: Engine, count: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        statuses = [meta["status"] for meta in await engine.store.list_runs()]
        if statuses.count("ok") == count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"after {seconds} s: { ({s: statuses.count(s) for s in set(statuses)}) }")


async def check_every_step_was_completed_once(
    engine: Engine, service: CountingService, runs: list[str], stopped: frozenset[int] = frozenset()
) -> int:
    """Return how many calls were made more than once because their process died in the middle.

    The receipt that was journaled is the last one that was handed out: a completed step is not made
    again. The one exception is a process that was stopped with a call on its way: when it wakes up it
    makes that call, although somebody else has meanwhile made it and gone on. Its result goes nowhere.
    """
    again = 0
    for run_id in runs:
        entries = await engine.store.load(run_id)
        assert [entry.seq for entry in entries] == list(range(len(entries))), run_id
        settles = [entry for entry in entries if b"run_settle" in entry.line]
        assert len(settles) == 1, run_id
        assert settles[0] is entries[-1], run_id
        done = [entry.value for entry in entries if entry.kind == "step" and entry.status == "ok"]
        assert len(done) == 5, run_id
        for number, receipt in enumerate(done):
            handed_out = service.receipts[f"{run_id}/{number}"]
            assert receipt in handed_out, (run_id, number, handed_out, receipt)
            later = [other for other in handed_out if other > receipt]
            assert {service.callers[other] for other in later} <= stopped, (
                run_id,
                number,
                handed_out,
                receipt,
            )
            again += len(handed_out) - 1
    return again


async def test_runs_of_killed_workers_are_adopted_and_no_completed_step_is_made_again(
    database: str, service: CountingService
) -> None:
    workers, count, kills = (8, 2000, 60) if IS_LONG else (3, 120, 6)
    chance = random.Random(20261130)
    fleet = Fleet(WORKER, database, service.port, 2.0)
    engine = submitting(database)
    stopped: set[int] = set()
    try:
        runs = [f"run-{number}" for number in range(count)]
        for run_id in runs:
            await engine.enqueue("five-steps", run_id, run_id=run_id)
        for _ in range(workers):
            fleet.start()
        for number in range(kills):
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            victim = chance.choice(fleet.alive)
            if number % 3 == 2:  # stopped for longer than its lease: it wakes up overtaken
                victim.send_signal(signal.SIGSTOP)
                stopped.add(victim.pid)
                await asyncio.sleep(2.5)
                victim.send_signal(signal.SIGCONT)
            else:
                fleet.kill(victim)
                fleet.start()
        await settled(engine, count, 600 if IS_LONG else 60)
        await check_every_step_was_completed_once(engine, service, runs, frozenset(stopped))
        assert set(service.receipts) == {f"{run_id}/{n}" for run_id in runs for n in range(5)}
    finally:
        fleet.close()
        await engine.close()


async def test_a_worker_that_ends_when_it_is_idle_takes_up_what_a_dead_one_has_left(
    database: str, service: CountingService
) -> None:
    fleet = Fleet(WORKER, database, service.port, 1.0)
    engine = submitting(database)
    try:
        for number in range(5):
            await engine.enqueue("five-steps", f"run-{number}", run_id=f"run-{number}")
        with service.silent():
            process = fleet.start()
            while len(await engine.store.list_runs()) < 5:
                await asyncio.sleep(0.02)
            fleet.kill(process)
        await asyncio.sleep(1.5)  # it has been silent for longer than its leases last
        last = Fleet(WORKER, database, service.port, 1.0, 8, "until-idle")
        try:
            assert await asyncio.to_thread(last.reap, last.start(), 60) == 0
        finally:
            last.close()
        assert [meta["status"] for meta in await engine.store.list_runs()] == ["ok"] * 5
    finally:
        fleet.close()
        await engine.close()


async def test_a_worker_process_that_is_told_to_go_drains_and_exits_cleanly(
    database: str, service: CountingService
) -> None:
    fleet = Fleet(WORKER, database, service.port, 2.0)
    engine = submitting(database)
    try:
        process = fleet.start()
        runs = [f"run-{number}" for number in range(200)]
        for run_id in runs:
            await engine.enqueue("five-steps", run_id, run_id=run_id)
        while len(service.receipts) < 50:
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(fleet.reap, process) == 0
        metas = await engine.store.list_runs()
        assert 0 < len(metas) < len(runs)
        assert {meta["status"] for meta in metas} == {"ok"}
        started = [meta["runId"] for meta in metas]
        assert await check_every_step_was_completed_once(engine, service, started) == 0
    finally:
        fleet.close()
        await engine.close()
