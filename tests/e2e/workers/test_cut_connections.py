"""A connection to PostgreSQL is cut at every request of a run's life, before it is served and after.

A few of the requests here; RULVAR_SOAK=1 takes every one of them.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any, Literal

import pytest
from cutting_proxy import CuttingProxy
from postgres_server import PostgresServer

from rulvar import Ctx, Engine, PostgresStore, define_workflow, tool
from rulvar.errors import ResolutionError
from rulvar.stores import delete_run
from rulvar.testing import FakeAdapter, fake_tool_calls
from rulvar.testing.engine import fake_routing
from rulvar.workers import CallLimit, PostgresLimiter, ProcrastinateQueue, Worker

STRIDE = 1 if os.environ.get("RULVAR_SOAK") else 23


class Life:
    """One run from its submission to its deletion, through a proxy."""

    def __init__(self, dsn: str) -> None:
        self.paid: Counter[str] = Counter()
        self.dsn = dsn

    def engine(self) -> Engine:
        @tool
        def look(n: int) -> int:
            """Look at a number."""
            return self.pay("tool", n)

        async def body(ctx: Ctx, args: Any) -> Any:
            first = await ctx.step("first", lambda: self.pay("first", args))
            said = await ctx.agent("look twice", tools=[look])
            await asyncio.sleep(0.15)  # the lease is renewed
            answer = await ctx.await_external("answer")
            return [first, said, answer, await ctx.step("last", lambda: self.pay("last", answer))]

        calls = [fake_tool_calls({"name": "look", "args": {"n": n}}) for n in range(2)]
        return Engine(
            adapters=[FakeAdapter.sequence([*calls, "seen"])],
            routing=fake_routing(),
            journal=PostgresStore(self.dsn, max_connections=2, patience_s=20),
            queue=ProcrastinateQueue(self.dsn, max_connections=1, patience_s=20),
            limiter=PostgresLimiter(self.dsn, {"fake": CallLimit(at_once=1, per_minute=60_000)}),
            workflows=[define_workflow("life", body)],
            lease_ttl_s=0.4,
        )

    def pay(self, what: str, value: Any) -> Any:
        self.paid[what] += 1
        return value

    async def live(self) -> list[Any]:
        """Return the run's value; everything on the way must be as if nothing had been cut."""
        async with self.engine() as engine:
            await engine.enqueue("life", "a", run_id="r")
            await self.served(engine, "suspended")
            try:
                await engine.resolve_external("r", "answer", 5)
            except ResolutionError:
                # the answer is there: what was lost is that it was told; whoever answers again has the run woken
                await engine.queue.wake("r")  # type: ignore[union-attr]
            await self.served(engine, "ok")
            entries = await engine.store.load("r")
            assert [entry.seq for entry in entries] == list(range(len(entries)))
            assert sum(b'"run_settle"' in entry.line for entry in entries) == 2  # suspended, ok
            outcome = await engine.resume("r", args="a").result()
            assert outcome.status == "ok", outcome.error
            assert await delete_run(engine.store, "r")
            assert await engine.store.run_ids() == []  # type: ignore[attr-defined]
            value: list[Any] = outcome.value
            return value

    async def served(self, engine: Engine, status: str) -> None:
        async with asyncio.timeout(30):
            while (await engine.store.load_meta("r") or {}).get("status") != status:
                await Worker(engine).run(until_idle=True)


async def cut(postgres: PostgresServer, dsn: str, at: int | None, before: Any) -> int:
    async with CuttingProxy(postgres.port, at, before) as proxy:
        life = Life(dsn.replace(f":{postgres.port}/", f":{proxy.port}/"))
        assert await life.live() == ["a", "seen", 5, 5]
        assert life.paid == {"first": 1, "tool": 2, "last": 1}
        return proxy.requests


@pytest.mark.parametrize("before", ["request", "answer"])
async def test_a_connection_that_is_cut_anywhere_changes_nothing(
    postgres: PostgresServer, database: str, before: Literal["request", "answer"]
) -> None:
    await cut(postgres, database, None, before)  # makes the tables
    count = await cut(postgres, database, None, before)
    assert count > 60
    for at in range(0 if before == "request" else 3, count, STRIDE):
        try:
            await cut(postgres, database, at, before)
        except BaseException as error:
            error.add_note(f"cut at request {at} of {count}")
            raise
