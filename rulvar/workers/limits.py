"""Limits of model calls that hold over all workers: how many at once, and how many a minute, per adapter.

Both are kept in PostgreSQL. A rate is a schedule: every call takes the next free moment and waits for it.
A place among the calls that are under way is held for a while and renewed; a worker that dies gives its
places back when that time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.errors import ConfigError, StoreError
from rulvar.stores.postgres_pool import PostgresPool
from rulvar.stores.postgres_schema import migrate, quoted_schema

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["CallLimit", "PostgresLimiter"]

_HOLD_S = 30.0
_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.5
_SCHEDULE = (
    "INSERT INTO {s}.limits AS old (name, free_at) "
    "VALUES (%(name)s, clock_timestamp() + %(gap)s * interval '1 second') "
    "ON CONFLICT (name) DO UPDATE SET "
    "free_at = greatest(old.free_at, clock_timestamp() - %(burst)s * interval '1 second') "
    "+ %(gap)s * interval '1 second' "
    "RETURNING extract(epoch FROM free_at - clock_timestamp())::float8"
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('rulvar slots'), hashtext(%(name)s))"
_EXPIRE = "DELETE FROM {s}.slots WHERE name = %(name)s AND expires <= clock_timestamp()"
_TAKE = (
    "INSERT INTO {s}.slots (name, token, expires) "
    "SELECT %(name)s, %(token)s, clock_timestamp() + %(hold)s * interval '1 second' "
    "WHERE (SELECT count(*) FROM {s}.slots WHERE name = %(name)s) < %(most)s"
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
        for field, value in (
            ("at_once", self.at_once),
            ("per_minute", self.per_minute),
            ("burst", self.burst),
        ):
            if value is None and field != "burst":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ConfigError(f"{field}={value!r}: expected a number above 0", data={"field": field})


class PostgresLimiter:
    """Bounds model calls over every process that uses the same database.

    Args:
        dsn: a libpq connection string or URI.
        limits: adapter id to its limit; an adapter that is not named is not bounded.
        schema: the store's schema, which holds the tables.
    """

    def __init__(self, dsn: str, limits: Mapping[str, CallLimit], *, schema: str = "rulvar") -> None:
        self.limits = dict(limits)
        self._schema = quoted_schema(schema)
        self._pool = PostgresPool(
            dsn,
            prepare=lambda connection: migrate(connection, self._schema),
            max_connections=4,
            patience_s=10.0,
        )

    @contextlib.asynccontextmanager
    async def slot(self, adapter_id: str) -> AsyncIterator[None]:
        """Wait until a call may be made, and hold its place while it is."""
        limit = self.limits.get(adapter_id)
        if limit is None:
            yield
            return
        async with self._place(adapter_id, limit):
            if limit.per_minute is not None:
                await asyncio.sleep(await self._wait_of(adapter_id, limit))
            yield

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        await self._pool.close()

    async def _wait_of(self, adapter_id: str, limit: CallLimit) -> float:
        assert limit.per_minute is not None
        gap = 60.0 / limit.per_minute
        # free_at is the end of the moment that was taken; a pause saves up to `burst` of them
        values = {"name": adapter_id, "gap": gap, "burst": gap * (limit.burst - 1)}
        row = await self._one(_SCHEDULE, values)
        return max(0.0, float(row[0]) - gap)

    @contextlib.asynccontextmanager
    async def _place(self, adapter_id: str, limit: CallLimit) -> AsyncIterator[None]:
        if limit.at_once is None:
            yield
            return
        values = {"name": adapter_id, "token": uuid.uuid4(), "hold": _HOLD_S, "most": limit.at_once}
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
            async with connection.transaction():
                await connection.execute(_LOCK, values)
                await connection.execute(self._sql(_EXPIRE), values)
                return (await connection.execute(self._sql(_TAKE), values)).rowcount == 1

        return await self._pool.run(work)

    async def _keep(self, values: Mapping[str, Any]) -> None:
        while True:
            await asyncio.sleep(_HOLD_S / 3)
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
