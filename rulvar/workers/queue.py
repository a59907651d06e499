"""The queue of runs: procrastinate jobs in PostgreSQL.

One job drives one execution segment of a run. Jobs of one run carry its id as their lock, so the queue
never hands out two of them at a time; the store's lease holds even where the queue does not.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.keys import KeyProvider
from rulvar.contracts.ports.queue import Submission
from rulvar.errors import ConfigError, RulvarError, StoreError
from rulvar.stores.postgres_pool import PostgresPool, checked_dsn, use_read_committed
from rulvar.stores.sealed import Seal
from rulvar.workers.transaction import check_connection, refusal, savepoint

if TYPE_CHECKING:
    from procrastinate import App
    from psycopg import AsyncConnection

__all__ = ["TASK", "ProcrastinateQueue", "cause_of", "is_outrun", "is_passing"]

TASK = "rulvar.run"
_SERVING_CONNECTIONS = 4
_MOST_PRIORITY = 2**31 - 1
_SCHEMA_LOCK = 0x72756C766172  # "rulvar"


class ProcrastinateQueue:
    """Hands runs to workers through PostgreSQL.

    Args:
        dsn: a libpq connection string or URI; the store's database, or another one.
        name: workers serve one queue; several of them may share a database.
        max_connections: how many connections this queue may have open to submit runs; a worker has
            others of its own.
        patience_s: for how long a call is tried again while the server is away, before StoreError.
        keys: seals what jobs carry (arguments, answers); run ids stay readable.

    Raises:
        ConfigError: an option is wrong, or the extra ``postgres`` is not installed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        name: str = "rulvar",
        max_connections: int = 4,
        patience_s: float = 10.0,
        keys: KeyProvider | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError("name: expected a non-empty string", data={"field": "name"})
        _require_procrastinate()
        self.dsn = checked_dsn(dsn)
        self.name = name
        self._seal = None if keys is None else Seal(keys)
        self._patience_s = patience_s
        self._pool = PostgresPool(
            dsn, prepare=_make_tables, max_connections=max_connections, patience_s=patience_s
        )

    async def submit(self, submission: Submission, *, connection: Any = None, priority: int = 0) -> None:
        """Have a run started; see ``RunQueue.submit``."""
        if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > _MOST_PRIORITY:
            raise ConfigError(
                f"priority={priority!r}: expected an integer from -{_MOST_PRIORITY} to {_MOST_PRIORITY}",
                data={"field": "priority"},
            )
        payload = {"run_id": submission.run_id, "submission": submission.to_wire()}
        await self._defer(payload, connection, priority=priority)

    async def wake(self, run_id: str, *, connection: Any = None) -> None:
        """Have a run resumed; one that is to be resumed already is resumed once."""
        payload = {"run_id": check_run_id(run_id), "again": True}
        await self._defer(payload, connection, queueing_lock=f"wake {run_id}")

    async def adopt(self, run_id: str) -> None:
        """Have a run resumed whose owner is gone, unless it has ended or is to be resumed already."""
        await self._defer({"run_id": check_run_id(run_id)}, None, queueing_lock=f"wake {run_id}")

    async def answer(self, run_id: str, key: str, value: Any) -> None:
        """Have a wait answered as soon as nobody drives the run."""
        payload = {"run_id": check_run_id(run_id), "answer": {"key": key, "value": value}}
        await self._defer(payload, None)

    @contextlib.asynccontextmanager
    async def answering(self, run_id: str, key: str, value: Any) -> AsyncIterator[None]:
        """Stand by while an answer is journaled and its run woken: if the process dies meanwhile, a worker does it.

        What stands by is a job that is due when the answer must long have been journaled; it is taken back at
        the end. One that could not be taken back finds the wait answered, and resumes the run once in vain.
        """
        payload = {"run_id": check_run_id(run_id), "answer": {"key": key, "value": value}}
        due = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2 * self._patience_s)
        # not behind the run's lock: it must not keep the run from being woken
        job = await self._defer(payload, None, lock=None, schedule_at=due)

        async def take_back(on: Any, attempt: int) -> None:
            await on.execute("DELETE FROM procrastinate_jobs WHERE id = %s AND status = 'todo'", (job,))

        try:
            yield
        finally:
            with contextlib.suppress(StoreError):
                await self._pool.run(take_back)

    async def cancel(self, run_id: str) -> int:
        """Cancel a run wherever it is, and return how many jobs of it there were.

        One that waits in the queue is not started; one that a worker drives is cancelled there. A run
        that is suspended has no job: it stays as it is until it is resumed.
        """
        check_run_id(run_id)
        found = 0
        async with self.serving() as app:
            for job in await app.job_manager.list_jobs_async(queue=self.name, lock=run_id):
                if job.status in ("todo", "doing") and job.id is not None:
                    found += bool(await app.job_manager.cancel_job_by_id_async(job.id, abort=True))
        return found

    async def waiting(self) -> list[str]:
        """Return the ids of runs that wait for a worker, each once, in the order in which they came.

        A run that was never begun is known to the queue only: ``rulvar runs ls`` does not show it yet.
        """
        async with self.serving() as app:
            jobs = await app.job_manager.list_jobs_async(queue=self.name, task=TASK, status="todo")
        return list(dict.fromkeys(job.lock for job in jobs if job.lock is not None))

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        await self._pool.close()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[App]:
        """Open the procrastinate app for as long as jobs are served.

        Raises:
            StoreError: the database cannot be reached.
        """
        from procrastinate.exceptions import ConnectorException

        await self._pool.ready()
        app = self._new_app()
        try:
            await app.open_async()
        except ConnectorException as error:
            raise _unavailable(error) from error
        try:
            yield app
        finally:
            await app.close_async()

    def _new_app(self) -> App:
        from procrastinate import App, PsycopgConnector

        connector = PsycopgConnector(
            conninfo=self.dsn, min_size=1, max_size=_SERVING_CONNECTIONS, configure=use_read_committed
        )
        return App(connector=connector)

    async def _defer(
        self,
        payload: Mapping[str, Any],
        connection: Any,
        **how: Any,
    ) -> int | None:
        """Defer a job, and return its id; None when one of its queueing lock waits there already."""
        import psycopg

        if connection is not None:
            check_connection(connection)
        payload = await self._sealed(payload)

        async def defer(on: Any, attempt: int) -> int | None:
            return await self._defer_on(on, payload, **{"lock": str(payload["run_id"]), **how})

        if connection is None:
            return await self._pool.run(defer)
        await self._pool.ready()
        try:
            return await defer(connection, 0)
        except psycopg.Error as error:
            raise refusal(error) from error

    async def _defer_on(self, connection: Any, payload: Mapping[str, Any], **how: Any) -> int | None:
        import psycopg
        from procrastinate.exceptions import AlreadyEnqueued, ConnectorException

        # never opened: jobs are deferred on connections of the pool, or the caller's
        deferrer = self._new_app().configure_task(TASK, queue=self.name, connection=connection, **how)
        try:
            async with savepoint(connection):
                return await deferrer.defer_async(**payload)
        except AlreadyEnqueued:
            return None
        except ConnectorException as error:
            if isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from None  # the pool knows which of them pass
            raise _unavailable(error) from error

    async def _sealed(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        run_id, data = str(payload["run_id"]), encode_json(payload)
        if self._seal is None:
            # as text: the database's own JSON has no NUL, no lone surrogate, and rewrites numbers
            return {"run_id": run_id, "job": data.decode("utf-8")}
        data = await self._seal.close(run_id, data, f"job {run_id}")
        return {"run_id": run_id, "sealed": base64.b64encode(data).decode("ascii")}

    async def opened(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a job carries.

        Raises:
            StoreError: it is sealed, and cannot be opened with the keys of this queue.
        """
        sealed = payload.get("sealed")
        if sealed is None:
            text = payload.get("job")
            return payload if text is None else _parsed(text, payload)
        place = f"job {payload['run_id']}"
        if self._seal is None:
            raise StoreError(f"{place} is sealed; give the queue its keys", data={"reason": "corrupt"})
        try:
            data = base64.b64decode(str(sealed), validate=True)
        except ValueError:
            raise StoreError(f"{place} is not base64", data={"reason": "corrupt"}) from None
        return _parsed(await self._seal.open(data, place), payload)


def _parsed(data: str | bytes, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        job = decode_json(data)
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"job {payload['run_id']} is not JSON: {error}", data={"reason": "corrupt"}
        ) from None
    if not isinstance(job, dict) or job.get("run_id") != payload["run_id"]:
        raise StoreError(f"job {payload['run_id']} is of another run", data={"reason": "corrupt"})
    return job


def is_passing(error: BaseException) -> bool:
    """Whether an error of the queue or a store may be gone when the same is tried again."""
    from procrastinate.exceptions import ConnectorException

    return isinstance(error, ConnectorException) or (isinstance(error, RulvarError) and error.retryable)


def is_outrun(error: BaseException) -> bool:
    """Whether the queue refused to change a job because it is no longer as it was."""
    return getattr(error.__cause__, "sqlstate", None) == "P0001"


def cause_of(error: BaseException) -> str:
    """Return what an error says on one line; what an error of procrastinate was made of says more."""
    return " ".join(str(error.__cause__ or error).split())


def _unavailable(error: Exception) -> StoreError:
    return StoreError(
        f"the queue: {cause_of(error)}; check that PostgreSQL runs and can be reached",
        data={"reason": "unavailable"},
        retryable=True,
    )


async def _make_tables(connection: AsyncConnection[Any]) -> None:
    from procrastinate.schema import SchemaManager

    if await _has_tables(connection):
        return
    async with connection.transaction():
        # several processes may meet here: the tables are made once
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        if not await _has_tables(connection):
            await connection.execute(SchemaManager.get_schema())


async def _has_tables(connection: AsyncConnection[Any]) -> bool:
    found = await connection.execute(
        "SELECT 1 FROM pg_class WHERE relname = 'procrastinate_jobs' AND pg_table_is_visible(oid)"
    )
    return await found.fetchone() is not None


def _require_procrastinate() -> None:
    try:
        import procrastinate
    except ImportError:
        raise ConfigError(
            "workers need the extra 'postgres': pip install 'rulvar[postgres]'", data={"extra": "postgres"}
        ) from None
    del procrastinate
