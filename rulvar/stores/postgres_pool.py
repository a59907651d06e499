"""Connections to PostgreSQL: pooled per event loop, tried again while the server is away, errors typed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rulvar.errors import ConfigError, RulvarError, StoreError
from rulvar.stores.postgres_schema import migrate

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

__all__ = ["PostgresPool"]

T = TypeVar("T")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


@dataclass(slots=True)
class _Opened:
    loop: asyncio.AbstractEventLoop
    pool: asyncio.Task[AsyncConnectionPool[Any]]


class PostgresPool:
    """Runs work on pooled connections.

    Args:
        dsn: a libpq connection string or URI.
        schema: the PostgreSQL schema that holds the tables; made and migrated when first used.
        max_connections: how many connections one event loop may have.
        patience_s: for how long work is tried again while the server cannot be reached.
        options: passed to every connection, for instance ``{"prepare_threshold": None}``.

    Raises:
        ConfigError: an option is wrong, or the extra is not installed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str,
        max_connections: int,
        patience_s: float,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(dsn, str) or not dsn:
            raise ConfigError("dsn: expected a PostgreSQL connection string", data={"field": "dsn"})
        if not _SCHEMA.fullmatch(schema):
            raise ConfigError(
                f"schema={schema!r}: use 1 to 63 characters of a-z 0-9 _, not starting with a digit",
                data={"field": "schema"},
            )
        _require_driver()
        self.schema = f'"{schema}"'
        self._dsn = dsn
        self._max = max_connections
        self._patience_s = patience_s
        self._options = dict(options or {})
        self._opened: _Opened | None = None

    async def run(self, work: Callable[[AsyncConnection[Any], int], Awaitable[T]]) -> T:
        """Run work on a connection, again when the connection broke; it is told which attempt it is.

        A caller that is cancelled does not wait for the work, which is done to its end all the same: a
        connection whose return to the pool is cancelled would be lost to it.

        Raises:
            StoreError: the database refused, or could not be reached for ``patience_s``.
        """
        task = asyncio.get_running_loop().create_task(self._run(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_forget)
            raise

    async def _run(self, work: Callable[[AsyncConnection[Any], int], Awaitable[T]]) -> T:
        import psycopg
        from psycopg_pool import PoolTimeout

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        attempt, pause = 0, _FIRST_PAUSE_S
        while True:
            left = max(0.1, deadline - loop.time())
            try:
                pool = await self._pool()
                async with pool.connection(timeout=left) as connection:
                    return await work(connection, attempt)
            except (psycopg.Error, PoolTimeout) as error:
                if not _is_passing(error) or loop.time() + pause > deadline:
                    raise _store_error(error) from error
            attempt += 1
            # spread out: every worker of a restarted server comes back at once
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        opened, self._opened = self._opened, None
        if opened is not None and opened.loop is asyncio.get_running_loop():
            with contextlib.suppress(Exception):
                await (await opened.pool).close()

    async def _pool(self) -> AsyncConnectionPool[Any]:
        loop = asyncio.get_running_loop()
        opened = self._opened
        if opened is None or opened.loop is not loop or (opened.pool.done() and opened.pool.exception()):
            opened = self._opened = _Opened(loop, loop.create_task(self._open()))
        return await asyncio.shield(opened.pool)

    async def _open(self) -> AsyncConnectionPool[Any]:
        import psycopg
        from psycopg_pool import AsyncConnectionPool

        kwargs = {"autocommit": True, **self._options}
        async with await psycopg.AsyncConnection.connect(self._dsn, **kwargs) as connection:
            await migrate(connection, self.schema)
        pool = AsyncConnectionPool(
            self._dsn,
            kwargs=kwargs,
            min_size=1,
            max_size=max(1, self._max),
            open=False,
            configure=_configure,
            name="rulvar",
            reconnect_timeout=2,
        )
        await pool.open()
        return pool


async def _configure(connection: AsyncConnection[Any]) -> None:
    # a statement that is prepared while a table is small must not scan it once it is large
    await connection.execute("SET enable_seqscan = off")


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # nobody waits for it any more


def _require_driver() -> None:
    try:
        import psycopg
        import psycopg_pool
    except ImportError:
        raise ConfigError(
            "PostgreSQL needs the extra 'postgres': pip install 'rulvar[postgres]'",
            data={"extra": "postgres"},
        ) from None
    del psycopg, psycopg_pool


def _is_passing(error: Exception) -> bool:
    """Whether trying again may help: the connection broke, the server restarts, or two transactions met."""
    import psycopg
    from psycopg_pool import PoolTimeout

    state = getattr(error, "sqlstate", None)
    if isinstance(error, PoolTimeout):
        return True
    if state is None:  # no answer from the server
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state[:2] in ("08", "40") or state in ("57P01", "57P02", "57P03", "53300", "55P03")


_REASONS = {"53100": "full", "25006": "read_only", "42501": "read_only"}
_ADVICE = {
    "full": "free some space on the database server, then resume the run",
    "read_only": "give this user the right to write, or connect to the primary server",
    "unavailable": "check that the server runs and can be reached, then resume the run",
    "io": "check the database server, then resume the run",
}


def _store_error(error: Exception) -> RulvarError:
    state = getattr(error, "sqlstate", None)
    reason = "unavailable" if _is_passing(error) else _REASONS.get(state or "", "io")
    text = " ".join(str(error).split()) or type(error).__name__
    data = {"reason": reason, **({"sqlstate": state} if state else {})}
    return StoreError(
        f"PostgreSQL: {text}; {_ADVICE[reason]}", data=data, retryable=reason in ("unavailable", "full")
    )
