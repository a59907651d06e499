"""Runs handed to workers: started, resumed, answered, cancelled, drained and let go, over a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.errors import ConfigError, NonSerializableValueError, ResolutionError
from rulvar.stores import LocalKeys, SealedStore
from rulvar.workers import ProcrastinateQueue, Worker


class Site:
    """Engines and workers over one database, as several machines would have them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.paid: list[Any] = []
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        self._engines: list[Engine] = []

    def workflows(self) -> list[Any]:
        async def add(ctx: Ctx, args: Any) -> Any:
            return await ctx.step("add", lambda: self.pay(args["a"] + args["b"]))

        async def ask(ctx: Ctx, args: Any) -> Any:
            before = await ctx.step("before", lambda: self.pay(args))
            answer = await ctx.await_external("answer", schema={"type": "integer"})
            return [before, answer, await ctx.step("after", lambda: self.pay("after"))]

        async def slow(ctx: Ctx, args: Any) -> Any:
            first = await ctx.step("first", lambda: self.pay("first"))
            self.reached.set()
            await self.gate.wait()
            return [first, await ctx.step("second", lambda: self.pay("second"))]

        schema = {"type": "object", "required": ["a", "b"]}
        return [
            define_workflow("add", add, args=schema),
            define_workflow("ask", ask),
            define_workflow("slow", slow),
        ]

    def pay(self, what: Any) -> Any:
        self.paid.append(what)
        return what

    def engine(self, **options: Any) -> Engine:
        engine = Engine(
            **{
                "journal": PostgresStore(self.dsn, max_connections=4),
                "queue": ProcrastinateQueue(self.dsn),
                "workflows": self.workflows(),
                "lease_ttl_s": 1.0,
                **options,
            }
        )
        self._engines.append(engine)
        return engine

    @contextlib.asynccontextmanager
    async def worker(self, engine: Engine | None = None, **options: Any) -> AsyncIterator[Worker]:
        worker = Worker(engine or self.engine(), **options)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop(now=True)
            await asyncio.wait_for(task, 20)

    async def until(self, condition: Callable[[], Any], seconds: float = 15) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            result = condition()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            await asyncio.sleep(0.02)
        raise AssertionError("it never came to that")

    async def settled(self, run_id: str, status: str) -> dict[str, Any]:
        store = self._engines[0].store

        async def look() -> Any:
            meta = await store.load_meta(run_id)
            return meta if meta is not None and meta["status"] == status else None

        meta: dict[str, Any] = await self.until(look)
        return meta

    async def close(self) -> None:
        self.gate.set()
        for engine in self._engines:
            await engine.close()


@pytest.fixture
async def site(database: str) -> AsyncIterator[Site]:
    made = Site(database)
    yield made
    await made.close()


async def test_a_run_is_submitted_here_and_driven_there(site: Site) -> None:
    here = site.engine()
    run_id = await here.enqueue("add", {"a": 2, "b": 3}, name="sum", tags=["t"])
    assert site.paid == []
    worker = Worker(site.engine())
    await asyncio.wait_for(worker.run(until_idle=True), 20)
    meta = await site.settled(run_id, "ok")
    assert (meta["workflowName"], meta["name"], meta["tags"]) == ("add", "sum", ["t"])
    assert site.paid == [5]
    assert (worker.stats.driven, worker.stats.failed) == (1, 0)
    assert (await here.resume(run_id, args={"a": 2, "b": 3}).result()).value == 5
    assert [row["runId"] for row in await here.store.list_runs()] == [run_id]


async def test_submitting_a_run_twice_starts_it_once(site: Site) -> None:
    here = site.engine()
    assert here.queue is not None
    assert await here.queue.waiting() == []  # type: ignore[attr-defined]
    for _ in range(3):
        await here.enqueue("add", {"a": 1, "b": 1}, run_id="once")
    assert await here.queue.waiting() == ["once"]  # type: ignore[attr-defined]
    await asyncio.wait_for(Worker(site.engine()).run(until_idle=True), 20)
    assert site.paid == [2]
    assert (await here.store.load_meta("once") or {})["segments"] == 1


async def test_mistakes_are_refused_where_they_are_made(site: Site) -> None:
    here = site.engine()
    for attempt, error in (
        (here.enqueue("nothing", 1), ConfigError),
        (here.enqueue("add", {"a": 1}), ConfigError),
        (here.enqueue("ask", {"when": {1, 2}}), NonSerializableValueError),
        (here.enqueue("ask", run_id="../x"), ConfigError),
        (here.enqueue("ask", budget_usd=-1), ConfigError),
        (Engine(workflows=site.workflows()).enqueue("ask"), ConfigError),
    ):
        with pytest.raises(error):
            await attempt
    worker = Worker(site.engine())
    await asyncio.wait_for(worker.run(until_idle=True), 20)
    assert worker.stats.driven == 0


async def test_a_run_is_submitted_in_the_transaction_of_the_callers_own_data(site: Site) -> None:
    here = site.engine()
    await here.enqueue("add", {"a": 0, "b": 0}, run_id="first")  # makes the tables
    async with await psycopg.AsyncConnection.connect(site.dsn) as connection:
        await connection.execute("CREATE TABLE orders (id int)")
        await connection.execute("INSERT INTO orders VALUES (1)")
        await here.enqueue("add", {"a": 1, "b": 1}, run_id="kept", connection=connection)
        await connection.commit()
        await connection.execute("INSERT INTO orders VALUES (2)")
        await here.enqueue("add", {"a": 2, "b": 2}, run_id="undone", connection=connection)
        await connection.rollback()
        rows = await (await connection.execute("SELECT id FROM orders")).fetchall()
        assert rows == [(1,)]
    await asyncio.wait_for(Worker(site.engine()).run(until_idle=True), 20)
    assert sorted(row["runId"] for row in await here.store.list_runs()) == ["first", "kept"]


async def test_a_suspended_run_is_picked_up_when_it_is_answered(site: Site) -> None:
    here = site.engine()
    async with site.worker(), site.worker():
        run_id = await here.enqueue("ask", "hello")
        await site.settled(run_id, "suspended")
        with pytest.raises(ResolutionError):
            await here.resolve_external(run_id, "answer", "no integer")
        await here.resolve_external(run_id, "answer", 42)
        await site.settled(run_id, "ok")
        with pytest.raises(ResolutionError):  # it has been answered
            await here.resolve_external(run_id, "answer", 43)
    assert site.paid == ["hello", "after"]
    assert (await here.resume(run_id, args="hello").result()).value == ["hello", 42, "after"]


async def test_an_answer_to_a_run_that_is_under_way_is_queued_and_wins_when_it_suspends(site: Site) -> None:
    async def both(ctx: Ctx, args: Any) -> Any:
        async def busy() -> Any:
            site.reached.set()
            await site.gate.wait()
            return await ctx.step("busy", lambda: "done")

        return await ctx.parallel([lambda: ctx.await_external("answer"), busy])

    workflow = define_workflow("both", both)
    here = site.engine(workflows=[workflow])
    async with site.worker(site.engine(workflows=[workflow])):
        run_id = await here.enqueue("both")
        await asyncio.wait_for(site.reached.wait(), 15)

        async def waits() -> bool:
            return any(entry.kind == "external" for entry in await here.store.load(run_id))

        await site.until(waits)
        with pytest.raises(ResolutionError, match="'other'"):
            await here.resolve_external(run_id, "other", "from afar")
        await here.resolve_external(run_id, "answer", "from afar")
        await asyncio.sleep(0.2)
        site.gate.set()
        await site.settled(run_id, "ok")
    assert (await here.resume(run_id).result()).value == ["from afar", "done"]


@pytest.mark.parametrize("sealed", [False, True])
async def test_what_is_queued_arrives_exactly_as_it_was_given(site: Site, sealed: bool) -> None:
    odd = {"a\0b": ["\0", "\ud800", -0.0, 1e22, 1e-300, 2**63, "\\u0000", "日本", {"": None}]}

    async def echo(ctx: Ctx, args: Any) -> Any:
        return [args, await ctx.await_external("k\0")]

    keys = LocalKeys({"k": b"k" * 32}) if sealed else None
    here, there = (
        site.engine(queue=ProcrastinateQueue(site.dsn, keys=keys), workflows=[define_workflow("echo", echo)])
        for _ in range(2)
    )
    await here.enqueue("echo", odd, run_id="r", name="n\0", tags=["t\0"], scope={"s\0": 1e22})
    assert here.queue is not None
    worker = Worker(there)
    await asyncio.wait_for(worker.run(until_idle=True), 20)
    await here.queue.answer("r", "k\0", odd)
    await asyncio.wait_for(worker.run(until_idle=True), 20)
    meta = await here.store.load_meta("r") or {}
    assert (meta["status"], meta["name"], meta["tags"]) == ("ok", "n\0", ["t\0"])
    value = (await here.resume("r", args=odd).result()).value
    assert repr(value) == repr([odd, odd])  # -0.0 and 1e22 are told from 0 and an integer


@pytest.mark.parametrize("priority", [2**31, -(2**31), 1.5, True, "high"])
async def test_a_priority_that_the_queue_cannot_hold_is_refused(site: Site, priority: Any) -> None:
    with pytest.raises(ConfigError, match="priority"):
        await site.engine().enqueue("ask", priority=priority)


async def test_a_run_that_no_engine_knows_fails_its_job_and_not_the_worker(site: Site) -> None:
    async def elsewhere(ctx: Ctx, args: Any) -> None:
        return None

    here = site.engine(workflows=[define_workflow("elsewhere", elsewhere)])
    await here.enqueue("elsewhere", run_id="lost")
    other = site.engine()
    await other.enqueue("add", {"a": 1, "b": 1}, run_id="fine")
    worker = Worker(site.engine())
    await asyncio.wait_for(worker.run(until_idle=True), 20)
    assert (worker.stats.failed, worker.stats.driven) == (1, 1)


async def test_workers_outlive_a_server_that_restarts_and_make_no_step_twice(
    site: Site, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def four(ctx: Ctx, args: Any) -> Any:
        for number in range(4):
            await ctx.step("s", lambda n=number: site.pay((args, n)), deps=[number])
            await asyncio.sleep(0.02)

    workflows, count = [define_workflow("four", four)], 60
    here = site.engine(workflows=workflows)
    for number in range(count):
        await here.enqueue("four", number)
    workers = [site.worker(site.engine(workflows=workflows, lease_ttl_s=2.0), concurrency=3) for _ in "ab"]
    async with workers[0], workers[1]:
        for mode in ("fast", "immediate"):
            reached = len(site.paid)
            await site.until(lambda n=reached: len(site.paid) > n + 10)
            await asyncio.to_thread(postgres.restart, mode, 0.2)

        async def all_done() -> bool:
            return [row["status"] for row in await here.store.list_runs()] == ["ok"] * count

        await site.until(all_done, 40)
    assert sorted(site.paid) == [(number, n) for number in range(count) for n in range(4)]
    said = [record.getMessage() for record in caplog.records if record.name == "rulvar.workers"]
    assert all("\n" not in line and "Database error" not in line for line in said), said


async def test_a_stopping_worker_finishes_what_it_has_and_takes_nothing_more(site: Site) -> None:
    here, worker = site.engine(), Worker(site.engine(), drain_s=20)
    task = asyncio.create_task(worker.run())
    run_id = await here.enqueue("slow")
    await asyncio.wait_for(site.reached.wait(), 15)
    worker.stop()
    await here.enqueue("add", {"a": 1, "b": 1}, run_id="later")
    await asyncio.sleep(0.3)
    assert not task.done()
    site.gate.set()
    await asyncio.wait_for(task, 15)
    assert (await here.store.load_meta(run_id) or {})["status"] == "ok"
    assert await here.store.load_meta("later") is None
    assert site.paid == ["first", "second"]


async def test_a_worker_that_drains_for_longer_than_the_lease_time_is_not_taken_for_dead(site: Site) -> None:
    here, worker = site.engine(), Worker(site.engine(), drain_s=20)
    task = asyncio.create_task(worker.run())
    run_id = await here.enqueue("slow")
    await asyncio.wait_for(site.reached.wait(), 15)
    async with site.worker() as other:
        worker.stop()
        await asyncio.sleep(3.5)  # the lease time is one second
        site.gate.set()
        await asyncio.wait_for(task, 15)
        await asyncio.sleep(1.5)
        assert (other.stats.adopted, other.stats.retried, other.stats.driven) == (0, 0, 0)
    assert (worker.stats.driven, worker.stats.retried) == (1, 0)
    assert (await here.store.load_meta(run_id) or {})["segments"] == 1
    assert site.paid == ["first", "second"]


async def test_a_worker_that_ends_when_it_is_idle_does_not_take_itself_for_dead(site: Site) -> None:
    here, worker = site.engine(), Worker(site.engine())
    await here.enqueue("slow")
    task = asyncio.create_task(worker.run(until_idle=True))
    await asyncio.wait_for(site.reached.wait(), 15)
    await asyncio.sleep(3.5)
    site.gate.set()
    await asyncio.wait_for(task, 15)
    assert (worker.stats.driven, worker.stats.adopted) == (1, 0)


async def test_a_worker_may_be_stopped_at_any_moment_of_its_start(site: Site) -> None:
    here = site.engine()
    await here.enqueue("add", {"a": 1, "b": 1}, run_id="r")
    for pause in (None, 0, 0.001, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1):
        worker = Worker(site.engine())
        task = asyncio.create_task(worker.run())
        if pause is not None:
            await asyncio.sleep(pause)
        worker.stop()
        await asyncio.wait_for(task, 10)
    await asyncio.wait_for(worker.run(until_idle=True), 10)  # and started again
    assert await site.settled("r", "ok")


async def test_a_run_that_outlasts_the_drain_is_let_go_and_taken_up_where_it_stands(site: Site) -> None:
    here, worker = site.engine(), Worker(site.engine(lease_ttl_s=60), drain_s=0.1)
    task = asyncio.create_task(worker.run())
    run_id = await here.enqueue("slow")
    await asyncio.wait_for(site.reached.wait(), 15)
    worker.stop()
    await asyncio.wait_for(task, 15)
    meta = await here.store.load_meta(run_id) or {}
    lease = await here.store.lease_of(run_id)  # type: ignore[attr-defined]
    assert (meta["status"], lease.is_held) == ("running", False)
    site.gate.set()
    async with site.worker():  # long before the lease of the first one would have expired
        await site.settled(run_id, "ok")
    assert site.paid == ["first", "second"]
    statuses = [entry.status for entry in await here.store.load(run_id)]
    assert "cancelled" not in statuses


async def test_a_run_is_cancelled_from_afar(site: Site) -> None:
    here = site.engine()
    async with site.worker():
        run_id = await here.enqueue("slow")
        await asyncio.wait_for(site.reached.wait(), 15)
        queue = ProcrastinateQueue(site.dsn)
        assert await queue.cancel(run_id) == 1
        await site.settled(run_id, "cancelled")
        assert await queue.cancel("nobody") == 0
        await queue.close()
    waiting = site.engine()
    await waiting.enqueue("add", {"a": 1, "b": 1}, run_id="never")
    queue = ProcrastinateQueue(site.dsn)
    assert await queue.cancel("never") == 1
    await queue.close()
    await asyncio.wait_for(Worker(site.engine()).run(until_idle=True), 20)
    assert await here.store.load_meta("never") is None


async def test_sealed_jobs_carry_nothing_that_can_be_read(site: Site) -> None:
    keys = LocalKeys({"k": b"k" * 32})

    def sealed() -> Engine:
        store = SealedStore(PostgresStore(site.dsn, max_connections=2), keys)
        return site.engine(journal=store, queue=ProcrastinateQueue(site.dsn, keys=keys))

    here = sealed()
    await here.enqueue("add", {"a": "secret-", "b": "arguments"}, run_id="r")
    async with await psycopg.AsyncConnection.connect(site.dsn) as connection:
        rows = await (await connection.execute("SELECT args::text FROM procrastinate_jobs")).fetchall()
    assert len(rows) == 1
    assert "secret" not in rows[0][0]
    unable = Worker(site.engine())  # it has no keys: the job fails, and says so
    await asyncio.wait_for(unable.run(until_idle=True), 20)
    assert (unable.stats.failed, site.paid) == (1, [])
    await here.enqueue("add", {"a": "secret-", "b": "arguments"}, run_id="r")
    await asyncio.wait_for(Worker(sealed()).run(until_idle=True), 20)
    assert site.paid == ["secret-arguments"]
    assert (await here.resume("r", args={"a": "secret-", "b": "arguments"}).result()).status == "ok"


async def test_higher_priorities_go_first(site: Site) -> None:
    here = site.engine()
    for number, priority in ((1, 0), (2, 5), (3, 10)):
        await here.enqueue("add", {"a": number, "b": 0}, priority=priority)
    await asyncio.wait_for(Worker(site.engine(), concurrency=1).run(until_idle=True), 20)
    assert site.paid == [3, 2, 1]


async def test_an_engine_asks_its_limiter_for_every_model_call(site: Site) -> None:
    from rulvar.testing import FakeAdapter
    from rulvar.testing.engine import fake_routing

    asked: list[str] = []

    class Limiter:
        @contextlib.asynccontextmanager
        async def slot(self, adapter_id: str) -> AsyncIterator[None]:
            asked.append(adapter_id)
            yield

        async def close(self) -> None:
            asked.append("closed")

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("hello")

    async with Engine(adapters=[FakeAdapter()], routing=fake_routing(), limiter=Limiter()) as engine:
        await engine.run(define_workflow("w", body)).result()
    assert asked == ["fake", "closed"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"drain_s": -1}, "drain_s"),
        ({"drain_s": float("nan")}, "drain_s"),
        ({"queue": "postgresql://x"}, "queue"),
    ],
)
def test_options_of_a_worker_are_checked(options: dict[str, Any], field: str) -> None:
    engine = Engine(queue=ProcrastinateQueue("postgresql://x"))
    with pytest.raises(ConfigError, match=field):
        Worker(engine, **options)
    with pytest.raises(ConfigError, match="queue"):
        Worker(Engine())
