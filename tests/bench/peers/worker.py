"""A worker for the bench: python worker.py DSN; its runs do five steps that do nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue, Worker


async def five(ctx: Ctx, args: Any) -> None:
    for number in range(5):
        await ctx.step("step", lambda n=number: n, deps=[number])


async def main(dsn: str) -> None:
    engine = Engine(
        journal=PostgresStore(dsn), queue=ProcrastinateQueue(dsn), workflows=[define_workflow("five", five)]
    )
    async with engine:
        print("ready", flush=True)
        await Worker(engine, concurrency=10).run(handle_signals=True)


asyncio.run(main(sys.argv[1]))
