"""A worker in a process of its own, some of whose runs end it: python poisoned_process.py DSN TTL_S MAX"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue, Worker

DSN, TTL_S, MOST = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])


async def harmless(ctx: Ctx, args: Any) -> Any:
    return [await ctx.step("load", lambda number=number: number, deps=[number]) for number in range(3)]


async def poisoned(ctx: Ctx, args: Any) -> Any:
    first = await ctx.step("load", lambda: args)
    return [first, await ctx.step("burst", lambda: os.kill(os.getpid(), signal.SIGKILL))]


async def main() -> None:
    engine = Engine(
        journal=PostgresStore(DSN, max_connections=4),
        queue=ProcrastinateQueue(DSN, max_connections=3),
        workflows=[define_workflow("harmless", harmless), define_workflow("poisoned", poisoned)],
        lease_ttl_s=TTL_S,
    )
    async with engine:
        await Worker(engine, max_interruptions=MOST).run(handle_signals=True)


asyncio.run(main())
