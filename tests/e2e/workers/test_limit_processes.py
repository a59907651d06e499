"""Limits of model calls hold over worker processes, also while some of them are killed or stopped.

The provider counts, not the limiter: what is under way is what it has not answered yet.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metered_provider import MeteredProvider
from worker_fleet import Fleet

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue

WORKER = Path(__file__).with_name("limited_process.py")
CALLS_PER_RUN = 4


async def never(ctx: Ctx, args: Any) -> Any:
    raise AssertionError("only workers drive runs here")


class Site:
    """Three worker processes, the provider that they call, and the engine that submits."""

    def __init__(self, dsn: str, provider: MeteredProvider, *limits: object) -> None:
        self.provider = provider
        self.fleet = Fleet(WORKER, dsn, provider.port, *limits)
        self.engine = Engine(
            journal=PostgresStore(dsn),
            queue=ProcrastinateQueue(dsn),
            workflows=[define_workflow("ask", never)],
        )

    async def __aenter__(self) -> Site:
        await self.engine.store.list_runs()  # makes the tables
        for _ in range(3):
            self.fleet.start()
        for process in self.fleet.alive:
            assert process.stdout is not None
            await asyncio.to_thread(process.stdout.readline)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.fleet.close()
        await self.engine.close()

    async def submit(self, count: int) -> None:
        for number in range(count):
            await self.engine.enqueue("ask", f"r{number}", run_id=f"r{number}")

    async def until(self, condition: Callable[[], Any], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            result = condition()
            if await result if asyncio.iscoroutine(result) else result:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it never came to that")

    async def settled(self, count: int) -> None:
        async def all_ok() -> bool:
            return [meta["status"] for meta in await self.engine.store.list_runs()] == ["ok"] * count

        await self.until(all_ok)

    def busiest(self) -> Any:
        """Return the process that has most calls under way."""
        ((pid, calls),) = self.provider.under_way.most_common(1)
        assert calls > 0
        return next(process for process in self.fleet.alive if process.pid == pid)


async def test_three_processes_together_never_have_more_calls_under_way_than_allowed(database: str) -> None:
    async with MeteredProvider(0.1) as provider, Site(database, provider, 30, 4, 0) as site:
        await site.submit(24)
        await site.settled(24)
        assert provider.most == 4
        assert len(provider.starts) == 24 * CALLS_PER_RUN
        # the places are used: with four of them always taken it would be done in 2.4 s
        assert provider.starts[-1] - provider.starts[0] < 10
        assert len(provider.under_way) == 3


async def test_three_processes_together_start_no_more_calls_than_allowed_in_any_window(database: str) -> None:
    rate, burst, late = 25, 2, 0.3
    async with MeteredProvider(0.02) as provider, Site(database, provider, 30, 20, 60 * rate) as site:
        await site.submit(30)
        await site.settled(30)
        starts = provider.starts
        assert len(starts) == 30 * CALLS_PER_RUN
        for first in range(len(starts)):
            for last in range(first + rate, len(starts)):
                # a process that is late with one call may start it beside the next
                allowed = burst + rate * (starts[last] - starts[first] + late)
                assert last - first + 1 <= allowed, (first, last, starts[last] - starts[first])
        assert starts[-1] - starts[0] < 3 * len(starts) / rate
        assert len(provider.under_way) == 3


async def test_the_places_of_a_killed_process_come_back_and_the_limit_holds_all_the_while(
    database: str,
) -> None:
    hold_s, at_once = 1.5, 4
    async with MeteredProvider(0.15) as provider, Site(database, provider, hold_s, at_once, 0) as site:
        await site.submit(40)
        for _ in range(2):
            await site.until(lambda: provider.under_way.total() == at_once)
            site.fleet.kill(site.busiest())
            site.fleet.start()
            await asyncio.sleep(hold_s)
        await site.until(lambda: provider.under_way.total() == at_once)  # every place is back
        await site.settled(40)
        assert provider.most == at_once
        assert {name: count for name, count in provider.answered.items() if count > 1} == {}
        assert len(provider.answered) == 40 * CALLS_PER_RUN


async def test_a_process_stopped_for_longer_than_it_may_be_silent_exceeds_by_its_own_calls_at_most(
    database: str,
) -> None:
    hold_s, at_once = 1.0, 4
    async with MeteredProvider(0.2) as provider, Site(database, provider, hold_s, at_once, 0) as site:
        await site.submit(40)
        await site.until(lambda: provider.under_way.total() == at_once)
        victim = site.busiest()
        victim.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3 * hold_s)
        assert provider.most == at_once
        victim.send_signal(signal.SIGCONT)
        await site.settled(40)
        assert provider.most <= 2 * at_once
        provider.most = 0
        async with asyncio.timeout(10):
            await asyncio.gather(*(site.engine.queue.wake(f"r{n}") for n in range(4)))  # type: ignore[union-attr]
        assert provider.most <= at_once
