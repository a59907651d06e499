"""Runs submitted in the caller's transaction: the job is the caller's to commit, and so is everything else in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row

from rulvar import Ctx, Engine, PostgresStore, define_workflow
from rulvar.errors import ConfigError, StoreError
from rulvar.workers import ProcrastinateQueue


async def body(ctx: Ctx, args: Any) -> Any:
    return args


@pytest.fixture
async def engine(database: str) -> AsyncIterator[Engine]:
    made = Engine(
        journal=PostgresStore(database),
        queue=ProcrastinateQueue(database),
        workflows=[define_workflow("w", body)],
    )
    async with made:
        await made.queue.wake("first")  # type: ignore[union-attr]
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await connection.execute("CREATE TABLE orders (id int)")
        yield made


async def waiting(engine: Engine) -> set[str]:
    return set(await engine.queue.waiting()) - {"first"}  # type: ignore[union-attr]


async def orders(database: str) -> list[int]:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        rows = await (await connection.execute("SELECT id FROM orders ORDER BY id")).fetchall()
    return [number for (number,) in rows]


@pytest.mark.parametrize("rows", [dict_row, namedtuple_row])
@pytest.mark.parametrize("commits", [True, False])
async def test_the_run_is_there_if_the_caller_commits(
    engine: Engine, database: str, rows: Any, commits: bool
) -> None:
    async with await psycopg.AsyncConnection.connect(database, row_factory=rows) as connection:
        await engine.enqueue("w", run_id="before", connection=connection)  # as the first of the transaction
        await connection.execute("INSERT INTO orders VALUES (1)")
        await engine.enqueue("w", run_id="after", connection=connection)
        assert await waiting(engine) == set()
        await (connection.commit() if commits else connection.rollback())
    assert await waiting(engine) == ({"before", "after"} if commits else set())
    assert await orders(database) == ([1] if commits else [])


async def test_blocks_within_the_callers_transaction_are_the_callers_too(
    engine: Engine, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        async with connection.transaction():
            await engine.enqueue("w", run_id="outer", connection=connection)
            with pytest.raises(RuntimeError):
                async with connection.transaction():
                    await engine.enqueue("w", run_id="inner", connection=connection)
                    raise RuntimeError
        await engine.enqueue("w", run_id="alone", connection=connection)
    assert await waiting(engine) == {"outer", "alone"}


async def test_a_run_that_is_to_be_woken_already_leaves_the_transaction_as_it_was(
    engine: Engine, database: str
) -> None:
    assert engine.queue is not None
    await engine.queue.wake("r")
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("INSERT INTO orders VALUES (1)")
        for _ in range(2):
            await engine.queue.wake("r", connection=connection)
        await connection.execute("INSERT INTO orders VALUES (2)")
    assert await orders(database) == [1, 2]
    assert await waiting(engine) == {"r"}


async def test_a_connection_that_cannot_carry_a_job_is_refused_and_its_transaction_goes_on(
    engine: Engine, database: str, postgres: Any
) -> None:
    closed = await psycopg.AsyncConnection.connect(database)
    await closed.close()
    with psycopg.connect(database) as blocking:
        for connection in (closed, blocking, object()):
            with pytest.raises(ConfigError, match="connection"):
                await engine.enqueue("w", connection=connection)
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("SET search_path = elsewhere; INSERT INTO public.orders VALUES (1)")
        with pytest.raises(ConfigError, match="search path"):
            await engine.enqueue("w", connection=connection)
        await connection.execute("INSERT INTO public.orders VALUES (2)")
    assert await orders(database) == [1, 2]
    async with await psycopg.AsyncConnection.connect(database) as connection:
        with pytest.raises(psycopg.errors.SyntaxError):
            await connection.execute("bogus")
        with pytest.raises(StoreError, match="roll its transaction back"):
            await engine.enqueue("w", connection=connection)
        await connection.rollback()
        await engine.enqueue("w", run_id="again", connection=connection)
    assert await waiting(engine) == {"again"}
