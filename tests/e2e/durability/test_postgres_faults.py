"""A PostgreSQL server that restarts, crashes, stays away or cuts connections while runs are under way."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.errors import ConfigError, LeaseHeldError, StoreError
from rulvar.testing.conformance.store_suite import entry


@pytest.fixture
async def make_store(postgres: PostgresServer) -> AsyncIterator[Any]:
    stores: list[PostgresStore] = []
    schema = f"s{uuid.uuid4().hex}"

    def make(**options: Any) -> PostgresStore:
        stores.append(PostgresStore(postgres.dsn, schema=schema, **options))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


def counted(paid: list[int], steps: int = 40) -> Any:
    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(steps):
            await ctx.step("step", lambda n=number: paid.append(n), deps=[number])
            await asyncio.sleep(0.01)
        return steps

    return define_workflow("w", body)


async def under_way(paid: list[int]) -> None:
    while len(paid) < 3:
        await asyncio.sleep(0.01)


async def stored_of(store: PostgresStore) -> list[str]:
    return [item.status for item in await store.load("r") if item.kind == "step"]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_run_goes_on_when_the_server_restarts(
    make_store: Any, postgres: PostgresServer, mode: str
) -> None:
    paid: list[int] = []
    store = make_store(patience_s=20)
    handle = Engine(journal=store).run(counted(paid), run_id="r")
    await under_way(paid)
    await asyncio.to_thread(postgres.restart, mode, 0.3)
    outcome = await asyncio.wait_for(handle.result(), 30)
    assert (outcome.status, outcome.value) == ("ok", 40), outcome.error
    assert paid == list(range(40))
    assert await stored_of(store) == ["running", "ok"] * 40


async def test_a_run_goes_on_when_its_connections_are_cut(make_store: Any, postgres: PostgresServer) -> None:
    paid: list[int] = []
    store = make_store(patience_s=20)
    handle = Engine(journal=store).run(counted(paid), run_id="r")
    await under_way(paid)
    async with await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True) as connection:
        for _ in range(5):
            await asyncio.sleep(0.05)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
    outcome = await asyncio.wait_for(handle.result(), 30)
    assert (outcome.status, outcome.value) == ("ok", 40), outcome.error
    assert paid == list(range(40))
    entries = await store.load("r")
    assert [item.seq for item in entries] == list(range(len(entries)))


async def test_a_server_that_stays_away_is_a_typed_error_and_the_run_resumes(
    make_store: Any, postgres: PostgresServer
) -> None:
    paid: list[int] = []
    store = make_store(patience_s=0.5)
    handle = Engine(journal=store, lease_ttl_s=1).run(counted(paid), run_id="r")
    await under_way(paid)
    await asyncio.to_thread(postgres.stop, "immediate")
    try:
        outcome = await asyncio.wait_for(handle.result(), 20)
    finally:
        await asyncio.to_thread(postgres.start)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code, outcome.error.retryable) == ("error", "settlement", True)
    assert (outcome.error.data or {})["cause"]["data"]["reason"] == "unavailable"
    finished = list(paid)
    patient = make_store()
    stored = (await stored_of(patient)).count("ok")
    assert len(finished) - 1 <= stored <= len(finished)
    resumed = await resume_when_free(Engine(journal=patient), counted(paid))
    assert (resumed.status, resumed.value) == ("ok", 40)
    assert paid[len(finished) :] == list(range(stored, 40))


async def resume_when_free(engine: Engine, workflow: Any) -> Any:
    for _ in range(100):
        try:
            return await engine.resume("r", workflow).result()
        except LeaseHeldError:
            await asyncio.sleep(0.05)
    raise AssertionError("the lease of a run that ended in trouble never expired")


@pytest.fixture
def small_database(postgres: PostgresServer) -> Iterator[str]:
    """A database on a disk that is nearly full: its connection string."""
    folder, name = Path(tempfile.mkdtemp(prefix="rulvar-small-")), f"d{uuid.uuid4().hex}"
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        folder.rmdir()
        pytest.skip("mounting a small tmpfs needs root and the right to mount")
    dsn = postgres.dsn.replace("/postgres", f"/{name}")
    shutil.chown(folder, postgres.user)
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'".encode())
        connection.execute(f"CREATE DATABASE {name} TABLESPACE {name}".encode())
        yield dsn
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        connection.execute(f"DROP TABLESPACE {name}".encode())
    subprocess.run(["umount", "-l", str(folder)], check=False)
    folder.rmdir()


async def test_a_server_whose_disk_is_full_is_a_typed_error_and_the_run_resumes(small_database: str) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(200):
            await ctx.step("step", lambda n=number: paid.append(n) or os.urandom(50_000).hex(), deps=[number])
            if len(paid) > limit:
                break
        return "done"

    paid: list[int] = []
    limit, workflow = 199, define_workflow("w", body)
    async with await psycopg.AsyncConnection.connect(small_database, autocommit=True) as connection:
        await connection.execute(
            "CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)"
        )
        async with Engine(journal=PostgresStore(small_database), lease_ttl_s=1) as engine:
            outcome = await engine.run(workflow, run_id="r").result()
            assert outcome.error is not None
            assert (outcome.status, outcome.error.code) == ("error", "settlement"), outcome.error
            cause = (outcome.error.data or {})["cause"]
            assert (cause["code"], cause["data"]["reason"]) == ("store", "full"), cause
            made = list(paid)
            done = sum(item.status == "ok" for item in await engine.store.load("r"))
            assert 0 < len(made) - 1 <= done <= len(made)
            await connection.execute("DROP TABLE filler")
            limit = len(made)  # two steps more fit
            resumed = await resume_when_free(engine, workflow)
            assert (resumed.status, resumed.value) == ("ok", "done"), resumed.error
    assert paid[len(made) :] == list(range(done, done + len(paid) - len(made)))


async def test_a_server_without_a_free_connection_is_waited_for_and_then_named(
    make_store: Any, postgres: PostgresServer
) -> None:
    patient, hasty = make_store(patience_s=20, max_connections=2), make_store(patience_s=0.3)
    await patient.append("r", [entry(0)])  # has a connection, and goes on with it
    others: list[Any] = []
    try:
        with pytest.raises(psycopg.OperationalError):
            while True:
                others.append(await psycopg.AsyncConnection.connect(postgres.dsn))
        await patient.append("r", [entry(1)])
        with pytest.raises(StoreError, match="too many clients") as caught:
            await hasty.load("r")
        assert (caught.value.data["reason"], caught.value.retryable) == ("unavailable", True)
        waiting = [asyncio.ensure_future(patient.load("r")) for _ in range(10)]
        await asyncio.sleep(0.1)
    finally:
        for other in others:
            await other.close()
    for loaded in await asyncio.gather(*waiting):
        assert [item.seq for item in loaded] == [0, 1]


async def test_many_runs_share_one_connection(make_store: Any) -> None:
    async with Engine(journal=make_store(max_connections=1)) as engine:
        handles = [engine.run(counted([], 3), run_id=f"r{number}") for number in range(20)]
        outcomes = await asyncio.wait_for(asyncio.gather(*(handle.result() for handle in handles)), 30)
    assert {outcome.status for outcome in outcomes} == {"ok"}


async def test_an_append_whose_answer_was_lost_is_stored_once(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    lease = await store.acquire_lease("r", "me", 30)
    await store.append("r", [entry(0)], lease=lease)
    real, lost = psycopg.AsyncConnection.execute, []

    async def losing(self: Any, query: Any, *args: Any, **kw: Any) -> Any:
        result = await real(self, query, *args, **kw)
        if "INSERT INTO" in str(query) and not lost:
            lost.append(query)
            raise psycopg.OperationalError("the connection is lost")
        return result

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", losing)
    await store.append("r", [entry(1), entry(2)], lease=lease)
    assert lost
    lost.clear()
    again = await store.acquire_lease("other", "me", 30)  # a lease is not lost to oneself either
    assert again.owner == "me"
    assert [item.seq for item in await store.load("r")] == [0, 1, 2]


async def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/none", patience_s=0.2)
    with pytest.raises(StoreError, match="server runs") as caught:
        await store.load("r")
    assert caught.value.data["reason"] == "unavailable"
    assert caught.value.retryable
    await store.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dsn": ""}, "dsn"),
        ({"schema": "a b"}, "schema"),
        ({"schema": 'x"; drop'}, "schema"),
        ({"schema": ""}, "schema"),
    ],
)
def test_options_are_checked_at_construction(options: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        PostgresStore(**{"dsn": "postgresql://x", **options})


async def test_a_schema_of_a_newer_release_is_refused(make_store: Any, postgres: PostgresServer) -> None:
    store = make_store()
    await store.append("r", [entry(0)])
    async with await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True) as connection:
        await connection.execute(f"UPDATE {store.schema}.schema_version SET version = 99")
    with pytest.raises(ConfigError, match="version 99"):
        await make_store().load("r")
