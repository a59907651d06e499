"""A worker in a process of its own: python worker_process.py DSN SERVICE_PORT TTL_S [CONCURRENCY [until-idle]]"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from counting_service import call_service

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.workers import ProcrastinateQueue, Worker

DSN, PORT, TTL_S = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
CONCURRENCY = int(sys.argv[4]) if len(sys.argv) > 4 else 8


async def five_steps(ctx: Ctx, args: Any) -> Any:
    receipts = []
    for number in range(5):
        name = f"{args}/{number}"
        receipts.append(await ctx.step("effect", lambda name=name: call_service(PORT, name), deps=[number]))
    return receipts


async def main() -> None:
    engine = Engine(
        journal=PostgresStore(DSN, max_connections=4),
        queue=ProcrastinateQueue(DSN, max_connections=3),
        workflows=[define_workflow("five-steps", five_steps)],
        lease_ttl_s=TTL_S,
    )
    async with engine:
        print("ready", flush=True)
        worker = Worker(engine, concurrency=CONCURRENCY, drain_s=20)
        await worker.run(handle_signals=True, until_idle="until-idle" in sys.argv)


asyncio.run(main())
