"""Orders of a small shop: reserve, take the payment, ship. Run it to be a worker: python shop.py DSN NAME"""

import asyncio
import sys

from rulvar import Ctx, Engine, PostgresStore, workflow
from rulvar.workers import ProcrastinateQueue, Worker


@workflow(name="order", args={"type": "object", "required": ["item"]})
async def order(ctx: Ctx, args):
    async def reserve():
        await asyncio.sleep(0.3)  # another service
        return f"{args['item']} is reserved"

    async def ship():
        await asyncio.sleep(0.3)
        return f"{args['item']} is on its way"

    await ctx.step("reserve", reserve)
    paid = await ctx.await_external("payment", schema={"type": "boolean"})
    return await ctx.step("ship", ship) if paid else "cancelled"


def make_engine(dsn: str, name: str) -> Engine:
    return Engine(
        journal=PostgresStore(dsn),
        queue=ProcrastinateQueue(dsn),
        workflows=[order],
        owner=name,
        lease_ttl_s=2,  # so that the demo is short; 30 is the default
    )


async def main(dsn: str, name: str) -> None:
    def tell(run_id, outcome):
        print(f"  {name}: {run_id} {outcome.status} {outcome.value or ''}", flush=True)

    async with make_engine(dsn, name) as engine:
        await Worker(engine, concurrency=4, on_outcome=tell).run(handle_signals=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
