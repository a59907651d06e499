"""Connections to PostgreSQL: a few per event loop, tried again while the server is away, errors typed.

Nothing runs in the background, so a program that forgets to close its store still ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rulvar.errors import ConfigError, RulvarError, StoreError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PostgresPool", "checked_dsn", "use_read_committed"]

T = TypeVar("T")
Work = Callable[["AsyncConnection[Any]", int], Awaitable[T]]
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_VANISHED: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_WRONG_ADDRESS = re.compile(
    r'(database|role) "[^"]*" does not exist|authentication failed|no password supplied|no pg_hba\.conf entry'
)
"""What a server says to a connection that will never be let in; such errors carry no code."""


class PostgresPool:
    """Runs work on connections in autocommit mode, at most so many at once.

    Args:
        dsn: a libpq connection string or URI.
        prepare: makes what the work needs (tables); run on one connection before anything else.
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
        prepare: Callable[[AsyncConnection[Any]], Awaitable[None]],
        max_connections: int,
        patience_s: float,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(max_connections, int) or isinstance(max_connections, bool) or max_connections < 1:
            raise ConfigError(
                f"max_connections={max_connections!r}: expected an integer from 1 up",
                data={"field": "max_connections"},
            )
        self._dsn = checked_dsn(dsn)
        self._prepare = prepare
        self._max = max_connections
        self._patience_s = patience_s
        self._options = {"connect_timeout": max(2, round(patience_s)), **(options or {})}
        self._by_loop: dict[asyncio.AbstractEventLoop, _Connections] = {}

    async def run(self, work: Work[T]) -> T:
        """Run work on a connection, again when the connection broke; it is told which attempt it is.

        A caller that is cancelled does not wait for the work, which is done to its end all the same.

        Raises:
            StoreError: the database refused, or could not be reached for ``patience_s``.
        """
        mine = self._mine()
        mine.is_open = True
        task = asyncio.get_running_loop().create_task(self._run(work, mine))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_forget)
            raise

    async def ready(self) -> None:
        """Return once what the work needs is there."""

        async def nothing(connection: AsyncConnection[Any], attempt: int) -> None:
            return None

        await self.run(nothing)

    async def close(self) -> None:
        """Close the connections of this event loop; the next use opens others."""
        mine = self._mine()
        mine.is_open = False  # a connection that is under way is closed when it comes back
        await mine.close_idle()

    # -- attempts ------------------------------------------------------------------------

    def _mine(self) -> _Connections:
        """Return what this event loop has; what loops that are over have left is dropped."""
        loop = asyncio.get_running_loop()
        mine = self._by_loop.get(loop)
        if mine is None:
            for other in [other for other in list(self._by_loop) if other.is_closed()]:
                if (left := self._by_loop.pop(other, None)) is not None:
                    left.drop()
            mine = self._by_loop[loop] = _Connections(self._max)
        return mine

    async def _run(self, work: Work[T], mine: _Connections) -> T:
        import psycopg

        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        attempt, pause = 0, _FIRST_PAUSE_S
        while True:
            try:
                async with mine.slots:
                    return await self._attempt(work, attempt, mine)
            except (psycopg.Error, OSError) as error:
                if not _is_passing(error) or loop.time() + pause > deadline:
                    raise _store_error(error) from error
            await mine.close_idle()  # what broke one connection has most likely broken the others
            attempt += 1
            # spread out: every worker of a restarted server comes back at once
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _attempt(self, work: Work[T], attempt: int, mine: _Connections) -> T:
        connection = mine.idle.pop() if mine.idle else await self._connect(mine)
        try:
            if not mine.is_prepared:
                async with mine.preparing:
                    if not mine.is_prepared:
                        await self._prepare(connection)
                        mine.is_prepared = True
            return await work(connection, attempt)
        finally:
            await mine.give_back(connection)

    async def _connect(self, mine: _Connections) -> AsyncConnection[Any]:
        import psycopg

        connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, **self._options)
        mine.open.add(connection)
        try:
            await use_read_committed(connection)
            # a statement that is prepared while a table is small must not scan it once it is large
            await connection.execute("SET enable_seqscan = off")
        except BaseException:
            await mine.give_back(connection)
            raise
        return connection


class _Connections:
    """The connections of one event loop: they, and locks, belong to the loop in which they were made."""

    def __init__(self, most: int) -> None:
        self.slots = asyncio.Semaphore(most)
        self.preparing = asyncio.Lock()
        self.is_prepared = False
        self.is_open = False
        self.idle: list[AsyncConnection[Any]] = []
        self.open: set[AsyncConnection[Any]] = set()

    async def give_back(self, connection: AsyncConnection[Any]) -> None:
        from psycopg.pq import TransactionStatus

        is_idle = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        if not is_idle or not self.is_open:
            with contextlib.suppress(Exception):
                await connection.close()
            self.open.discard(connection)
        else:
            self.idle.append(connection)

    async def close_idle(self) -> None:
        idle, self.idle = self.idle, []
        for connection in idle:
            with contextlib.suppress(Exception):
                await connection.close()
            self.open.discard(connection)

    def drop(self) -> None:
        """Close everything without an event loop: the one that had it is over."""
        for connection in self.open:
            connection.pgconn.finish()
        self.open.clear()
        self.idle.clear()


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # nobody waits for it any more


async def use_read_committed(connection: AsyncConnection[Any]) -> None:
    """Have statements see what was committed before they began, whatever the database's default is.

    Whoever waits for a row must see, behind it, what the one who had it has stored.
    """
    await connection.execute("SET default_transaction_isolation = 'read committed'")
    if not connection.autocommit:
        await connection.commit()


def checked_dsn(dsn: object) -> str:
    """Return a connection string that libpq takes, completed by what everything here relies on.

    That is the encoding; and that a peer that has vanished without a word (a machine that lost power, a network
    that drops everything) is noticed within half a minute, unless the string says otherwise.

    Raises:
        ConfigError: it is none, or psycopg is not installed. The text does not show it: it may hold a password.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        raise ConfigError(
            "PostgreSQL needs the extra 'postgres': pip install 'rulvar[postgres]'",
            data={"extra": "postgres"},
        ) from None
    try:
        if isinstance(dsn, str) and dsn:
            given = {name: value for name, value in conninfo_to_dict(dsn).items() if value is not None}
            return make_conninfo(**{**_VANISHED, **given, "client_encoding": "utf8"})
    except ProgrammingError:
        pass
    raise ConfigError(
        "dsn: expected a PostgreSQL connection string, as in postgresql://user:password@host/database "
        "(with %25 for a percent sign in it) or host=... dbname=...",
        data={"field": "dsn"},
    )


def _is_passing(error: Exception) -> bool:
    """Whether trying again may help: the connection broke, the server restarts, or two transactions met."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state is None:  # no answer from the server
        if _WRONG_ADDRESS.search(str(error)):
            return False
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, OSError))
    return state[:2] in ("08", "40") or state in ("57P01", "57P02", "57P03", "53300", "55P03")


_REASONS = {"53100": "full", "25006": "read_only", "42501": "read_only"}
_ADVICE = {
    "full": "free some space on the database server, then resume the run",
    "read_only": "give this user the right to write, or connect to the primary server",
    "unavailable": "check that the server runs and can be reached, then resume the run",
    "io": "check the database server, then resume the run",
    "address": "check the connection string: its user, password and database",
}


def _store_error(error: Exception) -> RulvarError:
    state = getattr(error, "sqlstate", None)
    reason = "unavailable" if _is_passing(error) else _REASONS.get(state or "", "io")
    text = " ".join(str(error).split()) or type(error).__name__
    data = {"reason": reason, **({"sqlstate": state} if state else {})}
    advice = "address" if state is None and _WRONG_ADDRESS.search(text) else reason
    return StoreError(
        f"PostgreSQL: {text}; {_ADVICE[advice]}", data=data, retryable=reason in ("unavailable", "full")
    )
