"""Limits of model calls over one database: within one process, when calls fail, are cancelled, or queue up."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Any

import psycopg
import pytest

from rulvar.errors import ConfigError
from rulvar.workers import CallLimit, PostgresLimiter


async def test_limits_hold_over_workers(database: str) -> None:
    under_way, most, starts = 0, 0, []

    async def call(limiter: PostgresLimiter) -> None:
        nonlocal under_way, most
        async with limiter.slot("model"):
            starts.append(time.monotonic())
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.03)
            under_way -= 1

    limits = {"model": CallLimit(at_once=3, per_minute=60 * 40, burst=2)}
    limiters = [PostgresLimiter(database, limits) for _ in range(3)]
    await asyncio.gather(*(call(limiter) for limiter in limiters for _ in range(8)))
    for limiter in limiters:
        await limiter.close()
    assert most <= 3
    starts.sort()
    assert len(starts) == 24
    assert starts[-1] - starts[0] >= (24 - 2) / 40 * 0.9
    async with limiters[0].slot("another model"):
        pass


async def test_a_place_is_given_back_when_a_call_fails_or_is_cancelled(database: str) -> None:
    limiter = PostgresLimiter(database, {"model": CallLimit(at_once=1)})
    for error in (RuntimeError, asyncio.CancelledError):
        with contextlib.suppress(error):
            async with limiter.slot("model"):
                raise error
    await asyncio.wait_for(limiter.slot("model").__aenter__(), 5)
    await limiter.close()


async def test_calls_that_are_cancelled_while_they_wait_leave_no_place_and_no_moment_taken(
    database: str,
) -> None:
    limiter = PostgresLimiter(database, {"model": CallLimit(at_once=1), "paced": CallLimit(per_minute=600)})

    async def call(name: str) -> None:
        async with limiter.slot(name):
            await asyncio.sleep(0.01)

    await call("model")
    for _ in range(30):  # cancelled at any moment: looking, taking, holding
        tasks = [asyncio.create_task(call("model")) for _ in range(4)]
        await asyncio.sleep(random.uniform(0, 0.02))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await asyncio.wait_for(call("model"), 5)
    await call("paced")
    waiting = [asyncio.create_task(call("paced")) for _ in range(300)]  # half a minute of calls
    await asyncio.sleep(0.05)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await asyncio.wait_for(call("paced"), 5)
    await limiter.close()
    async with await psycopg.AsyncConnection.connect(database) as connection:
        left = await (await connection.execute("SELECT count(*) FROM rulvar.slots")).fetchone()
    assert left == (0,)


async def test_calls_of_one_process_are_let_through_in_the_order_in_which_they_came(database: str) -> None:
    limiter = PostgresLimiter(database, {"model": CallLimit(at_once=2)})
    order: list[int] = []

    async def call(number: int) -> None:
        async with limiter.slot("model"):
            order.append(number)
            await asyncio.sleep(0.005)

    await asyncio.gather(*(call(number) for number in range(20)))
    assert order == list(range(20))
    await limiter.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"hold_s": 0}, "hold_s"), ({"hold_s": True}, "hold_s"), ({"limits": {"m": {"at_once": 1}}}, "limits")],
)
def test_options_of_a_limiter_are_checked(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        PostgresLimiter(**{"dsn": "postgresql://x", "limits": {}, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"at_once": 0},
        {"at_once": 2.5},
        {"at_once": True},
        {"per_minute": -1},
        {"per_minute": float("nan")},
        {"per_minute": "5"},
        {"burst": 0},
        {"burst": 1.5},
        {"burst": None},
    ],
)
def test_limits_are_numbers_above_zero(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        CallLimit(**options)
