"""A worker whose model calls are limited: python limited_process.py DSN PROVIDER_PORT HOLD_S AT_ONCE PER_MINUTE

A rate of 0 is none.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from metered_provider import call_provider

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.testing import FakeAdapter
from rulvar.testing.engine import fake_routing
from rulvar.workers import CallLimit, PostgresLimiter, ProcrastinateQueue, Worker

DSN, PORT, HOLD_S = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
LIMIT = CallLimit(at_once=int(sys.argv[4]), per_minute=float(sys.argv[5]) or None, burst=2)


async def ask_four_times(ctx: Ctx, args: Any) -> Any:
    return await ctx.parallel([lambda n=n: ctx.agent(f"{args}/{n}") for n in range(4)])


async def answer(call: Any) -> str:
    return await call_provider(PORT, os.getpid(), call.prompt)


async def main() -> None:
    engine = Engine(
        adapters=[FakeAdapter({"*": answer})],
        routing=fake_routing(),
        journal=PostgresStore(DSN, max_connections=4),
        queue=ProcrastinateQueue(DSN, max_connections=3),
        limiter=PostgresLimiter(DSN, {"fake": LIMIT}, hold_s=HOLD_S),
        workflows=[define_workflow("ask", ask_four_times)],
        lease_ttl_s=2.0,
    )
    async with engine:
        print("ready", flush=True)
        await Worker(engine, concurrency=4, drain_s=20).run(handle_signals=True)


asyncio.run(main())
