"""A PostgresStore meets databases as they are: older schemas, other people's tables, other encodings, wrong addresses."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from rulvar import PostgresStore
from rulvar.contracts.entries import decode_entry
from rulvar.errors import ConfigError, JournalOrderViolation, StoreError
from rulvar.stores import LocalKeys, SealedStore, SqliteStore
from rulvar.testing.conformance.store_suite import entry
from rulvar.workers import CallLimit, PostgresLimiter, ProcrastinateQueue

VERSION_1 = """
    CREATE SCHEMA {s};
    CREATE TABLE {s}.schema_version (version int NOT NULL);
    INSERT INTO {s}.schema_version VALUES (1);
    CREATE TABLE {s}.entries (run_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, line bytea NOT NULL,
        PRIMARY KEY (run_id, seq));
    CREATE TABLE {s}.metas (run_id text COLLATE "C" PRIMARY KEY, status text NOT NULL, meta bytea NOT NULL);
    CREATE INDEX metas_running ON {s}.metas (run_id) WHERE status = 'running';
    CREATE TABLE {s}.blobs (run_id text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (run_id, name));
    CREATE TABLE {s}.leases (run_id text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL, owner text NOT NULL,
        token uuid NOT NULL, expires timestamptz NOT NULL, held boolean NOT NULL) WITH (fillfactor = 50);
    INSERT INTO {s}.entries VALUES ('old', 0, '{{"seq":0,"kind":"step","status":"ok","scope":"","key":"k","ordinal":0}}');
    INSERT INTO {s}.metas VALUES ('old', 'ok', '{{"runId":"old","status":"ok"}}');
    INSERT INTO {s}.leases VALUES ('old', 7, 'them', gen_random_uuid(), now(), false);
"""
"""The schema of the first release that had one, with a run in it: it never changes."""


@pytest.fixture
async def admin(postgres: PostgresServer) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    return f"s{uuid.uuid4().hex}"


async def test_a_schema_of_the_first_release_is_brought_up_to_date_by_many_at_once(
    admin: Any, postgres: PostgresServer, name: str
) -> None:
    await admin.execute(VERSION_1.format(s=name).encode())
    stores = [PostgresStore(postgres.dsn, schema=name, max_connections=1) for _ in range(8)]
    await asyncio.gather(*(store.append(f"r{n}", [entry(0)]) for n, store in enumerate(stores)))
    store = stores[0]
    assert [item.seq for item in await store.load("old")] == [0]
    assert [meta["runId"] for meta in await store.list_runs()] == ["old"]
    assert (await store.acquire_lease("old", "us", 9)).epoch == 8  # epochs go on
    limiter = PostgresLimiter(postgres.dsn, {"m": CallLimit(at_once=1, per_minute=600)}, schema=name)
    async with limiter.slot("m"):
        pass
    await limiter.close()
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    "tables",
    [
        "CREATE TABLE {s}.entries (x int)",
        "CREATE VIEW {s}.metas AS SELECT 1 AS x",
        "CREATE TABLE {s}.schema_version (name text); INSERT INTO {s}.schema_version VALUES ('x')",
        "CREATE TABLE {s}.schema_version (version text); INSERT INTO {s}.schema_version VALUES ('v7')",
        "CREATE TABLE {s}.schema_version (version int, who text NOT NULL)",
    ],
)
async def test_a_schema_with_other_peoples_tables_is_refused_and_left_alone(
    admin: Any, postgres: PostgresServer, name: str, tables: str
) -> None:
    await admin.execute(f"CREATE SCHEMA {name}; {tables.format(s=name)}".encode())
    query = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = %s"
    before = await (await admin.execute(query, (name,))).fetchall()
    store = PostgresStore(postgres.dsn, schema=name)
    for _ in range(2):
        with pytest.raises(ConfigError, match="choose another one"):
            await store.append("r", [entry(0)])
    assert await (await admin.execute(query, (name,))).fetchall() == before
    await store.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("/postgres", "/nothere"), 'database "nothere" does not exist'),
        (("tests@", "nobody@"), 'role "nobody" does not exist'),
    ],
)
async def test_an_address_that_never_will_be_right_is_said_at_once(
    postgres: PostgresServer, change: tuple[str, str], says: str
) -> None:
    dsn = postgres.dsn.replace(*change)
    begin = time.monotonic()
    for doing in (PostgresStore(dsn).load("r"), ProcrastinateQueue(dsn).wake("r")):
        with pytest.raises(StoreError, match=says) as caught:
            await doing
        assert not caught.value.retryable
        assert "check the connection string" in caught.value.message
    assert time.monotonic() - begin < 8  # not for as long as it waits for a server


@pytest.mark.parametrize(
    "dsn", ["secret", "postgresql://u:secret%zz@h/x", "postgresql://u:secret@h/x?bogus=1", "", 5, None]
)
def test_what_is_no_connection_string_is_refused_at_once_and_never_shown(dsn: Any) -> None:
    for made in (PostgresStore, ProcrastinateQueue, lambda dsn: PostgresLimiter(dsn, {})):
        with pytest.raises(ConfigError, match="dsn") as caught:
            made(dsn)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_a_server_that_vanishes_without_a_word_is_noticed(postgres: PostgresServer) -> None:
    async def parameters(connection: Any, attempt: int) -> dict[str, str]:
        return dict(connection.info.get_parameters())

    for dsn, patience in ((postgres.dsn, "30000"), (f"{postgres.dsn}?tcp_user_timeout=5000", "5000")):
        store = PostgresStore(dsn)
        found = await store.pool.run(parameters)
        assert (found["tcp_user_timeout"], found["keepalives_idle"]) == (patience, "10")
        await store.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
async def test_a_database_of_any_encoding_keeps_runs_as_they_are(
    admin: Any, postgres: PostgresServer, name: str, encoding: str
) -> None:
    await admin.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'".encode()
    )
    dsn = postgres.dsn.replace("/postgres", f"/{name}")
    store = PostgresStore(dsn)
    lease = await store.acquire_lease("r", "café:1", 9)
    meta = {"runId": "r", "status": "ok", "name": "日本 \ud800 \0 €"}
    await store.append("r", [entry(0)], lease=lease)
    await store.save_meta("r", meta, lease=lease)
    await store.transcripts.put("r/t", b"\0\xff", lease=lease)
    assert await store.load_meta("r") == meta
    assert await store.list_runs() == [meta]
    assert await store.run_ids() == ["r"]
    assert await store.transcripts.refs("r") == ["r/t"]
    held = await store.lease_of("r")
    assert held is not None
    assert held.owner == "café:1"
    await store.close()
    if encoding != "LATIN1":  # procrastinate's own tables need a dash that Latin-1 does not have
        queue = ProcrastinateQueue(dsn)
        await queue.answer("r", "key", "日本 \ud800 \0 €")
        assert await queue.cancel("r") == 1
        await queue.close()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("kind", ["postgres", "sqlite", "sealed"])
async def test_texts_and_numbers_that_a_column_cannot_hold_are_no_crash(
    postgres: PostgresServer, name: str, kind: str, tmp_path: Any
) -> None:
    store: Any = SqliteStore(tmp_path / "runs.db")
    if kind == "postgres":
        store = PostgresStore(postgres.dsn, schema=name)
    elif kind == "sealed":
        store = SealedStore(store, LocalKeys({"k": b"k" * 32}))
    for number, text in enumerate(("a\0b", "a\ud800b", "日本")):
        run_id = f"r{number}"
        await store.save_meta(run_id, {"runId": run_id, "status": text})
        assert (await store.load_meta(run_id))["status"] == text
        lease = await store.acquire_lease(run_id, text, 9)
        assert (await store.lease_of(run_id)).is_held
        await store.release_lease(lease)
    with pytest.raises(JournalOrderViolation, match=str(2**63)):
        await store.append("r", [entry(0), entry(2**63)])
    await store.append("r", [entry(2**63 - 1)])
    assert [item.seq for item in await store.load("r")] == [2**63 - 1]
    await store.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_database_that_isolates_more_than_is_asked_of_it_is_no_other_one(
    admin: Any, postgres: PostgresServer, name: str, isolation: str
) -> None:
    await admin.execute(f"CREATE DATABASE {name}".encode())
    await admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'".encode())
    dsn = postgres.dsn.replace("/postgres", f"/{name}")
    stores = [PostgresStore(dsn, max_connections=2) for _ in range(3)]

    async def write(number: int) -> int:
        stored = 0
        for seq in range(40):
            try:
                line = f'{{"seq":{seq},"kind":"step","status":"ok","by":{number}}}'.encode()
                await stores[number].append("r", [decode_entry(line)])
                stored += 1
            except JournalOrderViolation:
                pass
        return stored

    assert sum(await asyncio.gather(*map(write, range(3)))) == 40
    assert [item.seq for item in await stores[0].load("r")] == list(range(40))
    for store in stores:
        await store.close()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
