"""Limits of model calls that hold over all workers: how many at once, and how many a minute, per adapter.

Both are kept in PostgreSQL. A rate is a schedule: every call takes the next free moment and waits for it.
A place among the calls that are under way is held for a while and renewed; a worker that dies gives its
places back when that time is over. The calls of one process stand in line, and only the first of them asks:
however many wait, or go away again, the schedule is never longer than there are processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.errors import ConfigError, RulvarError, StoreError
from rulvar.stores.postgres_pool import PostgresPool
from rulvar.stores.postgres_schema import migrate, quoted_schema

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["CallLimit", "PostgresLimiter"]

_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.1
_SCHEDULE = (
    "INSERT INTO {s}.limits AS old (name, free_at) "
    "VALUES (%(name)s, clock_timestamp() + %(gap)s * interval '1 second') "
    "ON CONFLICT (name) DO UPDATE SET "
    "free_at = greatest(old.free_at, clock_timestamp() - %(burst)s * interval '1 second') "
    "+ %(gap)s * interval '1 second' "
    "RETURNING extract(epoch FROM free_at - clock_timestamp())::float8"
)
_OTHERS = "(SELECT count(*) FROM {s}.slots WHERE name = %(name)s AND token <> %(token)s"
"""Its own place may be taken already: when the answer of an attempt was lost."""
_IS_FREE = f"SELECT 1 WHERE {_OTHERS} AND expires > clock_timestamp()) < %(most)s"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('rulvar slots'), hashtext(%(name)s))"
_EXPIRE = "DELETE FROM {s}.slots WHERE name = %(name)s AND expires <= clock_timestamp()"
_TAKE = (
    "INSERT INTO {s}.slots (name, token, expires) "
    "SELECT %(name)s, %(token)s, clock_timestamp() + %(hold)s * interval '1 second' "
    f"WHERE {_OTHERS}) < %(most)s ON CONFLICT (name, token) DO UPDATE SET expires = excluded.expires"
)
_KEEP = (
    "UPDATE {s}.slots SET expires = clock_timestamp() + %(hold)s * interval '1 second' "
    "WHERE name = %(name)s AND token = %(token)s"
)
_GIVE_BACK = "DELETE FROM {s}.slots WHERE name = %(name)s AND token = %(token)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """What a provider allows.

    Attributes:
        at_once: how many calls may be under way; None is no bound.
        per_minute: how many calls may start in a minute; None is no bound.
        burst: how many of them may start at the same moment after a pause.
    """

    at_once: int | None = None
    per_minute: float | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        for field, count in (("at_once", self.at_once), ("burst", self.burst)):
            if field == "at_once" and count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ConfigError(f"{field}={count!r}: expected an integer from 1 up", data={"field": field})
        rate = self.per_minute
        if rate is not None and not _is_above_zero(rate):
            raise ConfigError(f"per_minute={rate!r}: expected a number above 0", data={"field": "per_minute"})


def _is_above_zero(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")  # type: ignore[operator]


class PostgresLimiter:
    """Bounds model calls over every process that uses the same database.

    Args:
        dsn: a libpq connection string or URI.
        limits: adapter id to its limit; an adapter that is not named is not bounded.
        schema: the store's schema, which holds the tables.
        hold_s: after how many seconds of silence a process's places are free again. One that is alive
            renews them at a third of that; one that is stopped or cut off for longer may still have its
            calls under way when others have taken their places.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(
        self, dsn: str, limits: Mapping[str, CallLimit], *, schema: str = "rulvar", hold_s: float = 30.0
    ) -> None:
        if not _is_above_zero(hold_s):
            raise ConfigError(
                f"hold_s={hold_s!r}: expected a number of seconds above 0", data={"field": "hold_s"}
            )
        for name, limit in limits.items():
            if not isinstance(limit, CallLimit):
                raise ConfigError(
                    f"limits[{name!r}]: expected a CallLimit, got {type(limit).__name__}",
                    data={"field": "limits"},
                )
        self.limits = dict(limits)
        self.hold_s = float(hold_s)
        self._schema = quoted_schema(schema)
        self._lines: dict[str, asyncio.Lock] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._going_back: set[asyncio.Task[None]] = set()
        self._pool = PostgresPool(
            dsn,
            prepare=lambda connection: migrate(connection, self._schema),
            max_connections=4,
            patience_s=10.0,
        )

    @contextlib.asynccontextmanager
    async def slot(self, adapter_id: str) -> AsyncIterator[None]:
        """Wait until a call may be made, and hold its place while it is.

        Raises:
            StoreError: the database refused, or could not be reached.
        """
        limit = self.limits.get(adapter_id)
        if limit is None:
            yield
            return
        async with contextlib.AsyncExitStack() as place:
            async with self._line(adapter_id):
                if limit.at_once is not None:
                    await place.enter_async_context(self._place(adapter_id, limit.at_once))
                if limit.per_minute is not None:
                    await asyncio.sleep(await self._wait_of(adapter_id, limit.per_minute, limit.burst))
            yield

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        if self._loop is asyncio.get_running_loop() and self._going_back:
            await asyncio.wait(self._going_back)
        await self._pool.close()

    def _line(self, adapter_id: str) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # locks and tasks belong to the event loop in which they were made
            self._loop, self._lines, self._going_back = loop, {}, set()
        return self._lines.setdefault(adapter_id, asyncio.Lock())

    async def _wait_of(self, adapter_id: str, per_minute: float, burst: int) -> float:
        gap = 60.0 / per_minute
        # free_at is the end of the moment that was taken; a pause saves up to `burst` of them
        values = {"name": adapter_id, "gap": gap, "burst": gap * (burst - 1)}
        row = await self._one(_SCHEDULE, values)
        return max(0.0, float(row[0]) - gap)

    @contextlib.asynccontextmanager
    async def _place(self, adapter_id: str, at_once: int) -> AsyncIterator[None]:
        values = {"name": adapter_id, "token": uuid.uuid4(), "hold": self.hold_s, "most": at_once}
        pause = _FIRST_LOOK_S
        while not await self._take(values):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_LOOK_S)
        keeping = asyncio.create_task(self._keep(values))
        try:
            yield
        finally:
            keeping.cancel()
            # whatever happens to the call, its place must not stay taken until it expires
            await asyncio.shield(self._give_back(values))

    async def _take(self, values: Mapping[str, Any]) -> bool:
        async def work(connection: AsyncConnection[Any], attempt: int) -> bool:
            if (await connection.execute(self._sql(_IS_FREE), values)).rowcount == 0:
                return False
            async with connection.transaction():
                await connection.execute(_LOCK, values)
                await connection.execute(self._sql(_EXPIRE), values)
                return (await connection.execute(self._sql(_TAKE), values)).rowcount == 1

        taking = asyncio.ensure_future(self._pool.run(work))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            returning = asyncio.create_task(self._return(taking, values))
            self._going_back.add(returning)
            returning.add_done_callback(self._going_back.discard)
            raise

    async def _return(self, taking: asyncio.Future[bool], values: Mapping[str, Any]) -> None:
        """Give a place back that is being taken for a call that was cancelled."""
        with contextlib.suppress(RulvarError):
            if await taking:
                await self._give_back(values)

    async def _keep(self, values: Mapping[str, Any]) -> None:
        while True:
            await asyncio.sleep(self.hold_s / 3)
            with contextlib.suppress(StoreError):
                await self._do(_KEEP, values)

    async def _give_back(self, values: Mapping[str, Any]) -> None:
        with contextlib.suppress(StoreError):  # it expires
            await self._do(_GIVE_BACK, values)

    async def _do(self, query: str, values: Mapping[str, Any]) -> None:
        async def work(connection: AsyncConnection[Any], attempt: int) -> None:
            await connection.execute(self._sql(query), values)

        await self._pool.run(work)

    async def _one(self, query: str, values: Mapping[str, Any]) -> Any:
        async def work(connection: AsyncConnection[Any], attempt: int) -> Any:
            return await (await connection.execute(self._sql(query), values)).fetchone()

        return await self._pool.run(work)

    def _sql(self, query: str) -> str:
        return query.format(s=self._schema)
