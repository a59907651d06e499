"""Runs in PostgreSQL: any number of machines may share one database.

Every write is one statement that first locks the run's lease row, so a lease that was lost meanwhile is
seen by that very statement. Leases go by the server's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.lease import Lease, LeaseState
from rulvar.contracts.ports.store import RunMeta
from rulvar.contracts.ports.transcripts import split_ref
from rulvar.errors import RulvarError
from rulvar.stores.journal_lines import decode_row
from rulvar.stores.listing import RUN_IDS
from rulvar.stores.meta_row import column_text, decode_meta, encode_meta
from rulvar.stores.postgres_pool import PostgresPool
from rulvar.stores.postgres_schema import migrate, quoted_schema
from rulvar.stores.refusals import check_order, lease_held, order_violated, superseded

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["PostgresStore", "PostgresTranscripts"]

_HELD = "SELECT 1 FROM {s}.leases WHERE run_id = %(run)s AND epoch = %(epoch)s AND held FOR SHARE"
_FREE = (
    "SELECT 1 WHERE NOT EXISTS "
    "(SELECT 1 FROM {s}.leases WHERE run_id = %(run)s AND held AND expires > clock_timestamp())"
)
_APPEND = (
    "WITH fence AS MATERIALIZED ({fence}) INSERT INTO {s}.entries (run_id, seq, line) "
    "SELECT %(run)s, item.seq, item.line FROM fence, unnest(%(seqs)b::bigint[], %(lines)b::bytea[]) "
    "AS item (seq, line) WHERE NOT EXISTS "
    "(SELECT 1 FROM {s}.entries WHERE run_id = %(run)s AND seq >= %(first)s)"
)
_SAVE_META = (
    "WITH fence AS MATERIALIZED ({fence}) INSERT INTO {s}.metas (run_id, status, meta) "
    "SELECT %(run)s, %(status)s, %(meta)b FROM fence "
    "ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, meta = excluded.meta"
)
_PUT = (
    "WITH fence AS MATERIALIZED ({fence}) INSERT INTO {s}.blobs (run_id, name, data) "
    "SELECT %(run)s, %(name)s, %(data)b FROM fence "
    "ON CONFLICT (run_id, name) DO UPDATE SET data = excluded.data"
)
_DELETE = (
    "WITH fence AS MATERIALIZED ({fence}), "
    "a AS (DELETE FROM {s}.entries USING fence WHERE run_id = %(run)s), "
    "b AS (DELETE FROM {s}.metas USING fence WHERE run_id = %(run)s), "
    "c AS (DELETE FROM {s}.blobs USING fence WHERE run_id = %(run)s) SELECT 1 FROM fence"
)
_DELETE_BLOBS = (
    "WITH fence AS MATERIALIZED ({fence}), "
    "a AS (DELETE FROM {s}.blobs USING fence WHERE run_id = %(run)s) SELECT 1 FROM fence"
)
_MAKE_ROW = (
    "INSERT INTO {s}.leases (run_id, epoch, owner, token, expires, held) "
    "VALUES (%(run)s, 0, '', gen_random_uuid(), 'epoch', false) ON CONFLICT DO NOTHING"
)
_LOCK_ROW = "SELECT 1 FROM {s}.leases WHERE run_id = %(run)s FOR UPDATE"
_ACQUIRE = (
    "INSERT INTO {s}.leases AS old (run_id, epoch, owner, token, expires, held) "
    "VALUES (%(run)s, 1, %(owner)s, %(token)s, clock_timestamp() + %(ttl)s * interval '1 second', true) "
    "ON CONFLICT (run_id) DO UPDATE SET epoch = old.epoch + 1, owner = excluded.owner, "
    "token = excluded.token, expires = clock_timestamp() + %(ttl)s * interval '1 second', held = true "
    "WHERE NOT old.held OR old.expires <= clock_timestamp() OR old.token = excluded.token RETURNING epoch"
)
_RENEW = (
    "UPDATE {s}.leases SET expires = clock_timestamp() + %(ttl)s * interval '1 second' "
    "WHERE run_id = %(run)s AND epoch = %(epoch)s AND held"
)
_RELEASE = "UPDATE {s}.leases SET held = false WHERE run_id = %(run)s AND epoch = %(epoch)s AND held"
_HOLDER = (
    "SELECT owner, epoch, CASE WHEN held THEN extract(epoch FROM expires - clock_timestamp())::float8 ELSE 0 END "
    "FROM {s}.leases WHERE run_id = %(run)s"
)

_ORPHANED = (
    "SELECT m.run_id FROM {s}.metas m JOIN {s}.leases l USING (run_id) WHERE m.status = 'running' "
    "AND (NOT l.held OR l.expires <= clock_timestamp()) AND EXISTS "
    "(SELECT 1 FROM {s}.blobs b WHERE b.run_id = m.run_id AND b.name = 'submission') ORDER BY 1 LIMIT %(limit)s"
)


class PostgresStore:
    """Keeps runs in PostgreSQL.

    Args:
        dsn: a libpq connection string or URI.
        schema: the PostgreSQL schema that holds the tables; made and migrated when first used.
        max_connections: how many connections this store may have open.
        patience_s: for how long a call is tried again while the server is away, before StoreError.
        options: passed to every connection, for instance ``{"prepare_threshold": None}``.

    Raises:
        ConfigError: an option is wrong, or the extra ``postgres`` is not installed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "rulvar",
        max_connections: int = 8,
        patience_s: float = 10.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.schema = quoted_schema(schema)
        self.dsn = dsn
        self.pool = PostgresPool(
            dsn,
            prepare=lambda connection: migrate(connection, self.schema),
            max_connections=max_connections,
            patience_s=patience_s,
            options=options,
        )
        self.transcripts = PostgresTranscripts(self.pool, self.schema)
        """Where an engine over this store keeps transcripts unless told otherwise."""

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries in order."""
        query = "SELECT line, seq FROM {s}.entries WHERE run_id = %(run)s ORDER BY seq"
        return [
            decode_row(line, run_id, seq) for line, seq in await _rows(self.pool, self.schema, query, run_id)
        ]

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """Store entries in one statement.

        Raises:
            JournalOrderViolation: a seq is not after the stored tail.
            SupersededError, LeaseHeldError: somebody else holds the run.
            StoreError: the database refused or cannot be reached.
        """
        check_run_id(run_id)
        if not entries:
            return
        seqs = [entry.seq for entry in entries]
        check_order(run_id, seqs)
        lines = [entry.line for entry in entries]
        values = {"run": run_id, "seqs": seqs, "lines": lines, "first": seqs[0]}

        async def work(connection: AsyncConnection[Any], attempt: int) -> None:
            if await _write(connection, self.schema, _APPEND, values, lease) == len(entries):
                return
            tail = await self._tail(connection, run_id)
            if attempt and await self._holds(connection, run_id, seqs, lines):
                return  # the attempt whose answer was lost had stored them
            if tail >= seqs[0]:
                raise order_violated(run_id, seqs[0], tail)
            raise await _refusal(connection, self.schema, run_id, lease)

        await self.pool.run(work)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""
        rows = await _rows(
            self.pool, self.schema, "SELECT meta FROM {s}.metas WHERE run_id = %(run)s", run_id
        )
        return decode_meta(rows[0][0], f"run {run_id}", run_id) if rows else None

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """Replace a run's meta row."""
        values = {
            "run": check_run_id(run_id),
            "status": column_text(meta.get("status", "")),
            "meta": encode_meta(meta),
        }
        await _fenced(self.pool, self.schema, _SAVE_META, values, lease)

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""
        query = "SELECT run_id, meta FROM {s}.metas ORDER BY run_id"
        return [
            decode_meta(meta, f"run {run_id}", run_id)
            for run_id, meta in await _rows(self.pool, self.schema, query)
        ]

    async def run_ids(self) -> list[str]:
        """Return the id of every run of which anything is stored, in order."""
        query = RUN_IDS.format(metas="{s}.metas", entries="{s}.entries")
        return sorted(run_id for (run_id,) in await _rows(self.pool, self.schema, query))

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget a run, its transcripts included, in one statement; its epochs go on counting."""
        await _fenced(self.pool, self.schema, _DELETE, {"run": check_run_id(run_id)}, lease)

    # -- leases --------------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
        """Take a run that nobody holds; raises LeaseHeldError otherwise."""
        values = {
            "run": check_run_id(run_id),
            "owner": column_text(owner),
            "ttl": ttl_s,
            "token": uuid.uuid4(),
        }

        async def work(connection: AsyncConnection[Any], attempt: int) -> Lease:
            cursor = await connection.execute(_sql(_ACQUIRE, self.schema), values)
            row = await cursor.fetchone()
            if row is None:
                raise await _refusal(connection, self.schema, run_id, None)
            return Lease(run_id=run_id, owner=owner, epoch=row[0], ttl_s=ttl_s)

        return await self.pool.run(work)

    async def renew_lease(self, lease: Lease) -> None:
        """Hold a run for longer; raises SupersededError when it has been lost."""
        if await self._update(_RENEW, lease) == 0:
            raise superseded(lease)

    async def release_lease(self, lease: Lease) -> None:
        """Let a run go."""
        await self._update(_RELEASE, lease)

    async def lease_of(self, run_id: str) -> LeaseState | None:
        """Return who holds a run, or held it last."""
        rows = await _rows(self.pool, self.schema, _HOLDER, run_id)
        return _state(rows[0]) if rows and rows[0][1] else None

    async def orphaned_runs(self, limit: int = 100) -> list[str]:
        """Return submitted runs that are recorded as running and that nobody holds: their owner is gone."""
        return [run_id for (run_id,) in await _rows(self.pool, self.schema, _ORPHANED, limit=limit)]

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        await self.pool.close()

    async def _update(self, query: str, lease: Lease) -> int:
        values = {"run": lease.run_id, "epoch": lease.epoch, "ttl": lease.ttl_s}

        async def work(connection: AsyncConnection[Any], attempt: int) -> int:
            return (await connection.execute(_sql(query, self.schema), values)).rowcount

        return await self.pool.run(work)

    async def _tail(self, connection: AsyncConnection[Any], run_id: str) -> int:
        query = "SELECT coalesce(max(seq), -1) FROM {s}.entries WHERE run_id = %(run)s"
        row = await (await connection.execute(_sql(query, self.schema), {"run": run_id})).fetchone()
        return -1 if row is None else int(row[0])

    async def _holds(
        self, connection: AsyncConnection[Any], run_id: str, seqs: list[int], lines: list[bytes]
    ) -> bool:
        query = "SELECT line FROM {s}.entries WHERE run_id = %(run)s AND seq = ANY(%(seqs)s) ORDER BY seq"
        values = {"run": run_id, "seqs": seqs}
        rows = await (await connection.execute(_sql(query, self.schema), values, binary=True)).fetchall()
        return [row[0] for row in rows] == lines


class PostgresTranscripts:
    """Transcripts and checkpoints in the database of a PostgresStore."""

    def __init__(self, pool: PostgresPool, schema: str) -> None:
        self._pool = pool
        self._schema = schema

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """Store a blob, replacing one of the same reference."""
        run_id, name = split_ref(ref)
        await _fenced(self._pool, self._schema, _PUT, {"run": run_id, "name": name, "data": data}, lease)

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        run_id, name = split_ref(ref)
        query = "SELECT data FROM {s}.blobs WHERE run_id = %(run)s AND name = %(name)s"
        rows = await _rows(self._pool, self._schema, query, run_id, name=name)
        return rows[0][0] if rows else None

    async def refs(self, run_id: str) -> list[str]:
        """Return the references of a run's blobs, in order."""
        query = "SELECT name FROM {s}.blobs WHERE run_id = %(run)s ORDER BY name"
        return [f"{run_id}/{name}" for (name,) in await _rows(self._pool, self._schema, query, run_id)]

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget every blob of a run."""
        await _fenced(self._pool, self._schema, _DELETE_BLOBS, {"run": check_run_id(run_id)}, lease)


def _sql(query: str, schema: str, fence: str = "") -> str:
    return query.format(s=schema, fence=fence.format(s=schema))


async def _rows(
    pool: PostgresPool, schema: str, query: str, run_id: str | None = None, **values: Any
) -> list[Any]:
    if run_id is not None:
        values["run"] = check_run_id(run_id)

    async def work(connection: AsyncConnection[Any], attempt: int) -> list[Any]:
        cursor = await connection.execute(_sql(query, schema), values, binary=True)
        return await cursor.fetchall()

    return await pool.run(work)


async def _write(
    connection: AsyncConnection[Any], schema: str, query: str, values: Mapping[str, Any], lease: Lease | None
) -> int:
    """Run a write behind its fence, and return how many rows it touched: none when it was refused."""
    if lease is not None:
        full = {**values, "epoch": lease.epoch}
        return (await connection.execute(_sql(query, schema, _HELD), full)).rowcount
    async with connection.transaction():
        # writers without a lease, and whoever wants one, queue up at the row; the statement behind it
        # sees what they stored
        await connection.execute(_sql(_MAKE_ROW, schema), values)
        await connection.execute(_sql(_LOCK_ROW, schema), values)
        return (await connection.execute(_sql(query, schema, _FREE), values)).rowcount


async def _fenced(
    pool: PostgresPool, schema: str, query: str, values: Mapping[str, Any], lease: Lease | None
) -> None:
    async def work(connection: AsyncConnection[Any], attempt: int) -> None:
        if await _write(connection, schema, query, values, lease) == 0:
            raise await _refusal(connection, schema, values["run"], lease)

    await pool.run(work)


async def _refusal(
    connection: AsyncConnection[Any], schema: str, run_id: str, lease: Lease | None
) -> RulvarError:
    if lease is not None:
        return superseded(lease)
    row = await (await connection.execute(_sql(_HOLDER, schema), {"run": run_id})).fetchone()
    if row is None:
        return lease_held(run_id, None, None)
    state = _state(row)
    return lease_held(run_id, state.owner, state.expires_in_s)


def _state(row: Sequence[Any]) -> LeaseState:
    owner, epoch, left = row
    return LeaseState(owner=owner, epoch=epoch, expires_in_s=max(0.0, left))
