"""The queue of runs: procrastinate jobs in PostgreSQL.

One job drives one execution segment of a run. Jobs of one run carry its id as their lock, so the queue
never hands out two of them at a time; the store's lease holds even where the queue does not.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.keys import KeyProvider
from rulvar.contracts.ports.queue import Submission
from rulvar.errors import ConfigError, RulvarError, StoreError
from rulvar.stores.sealed import Seal

if TYPE_CHECKING:
    from procrastinate import App

__all__ = ["TASK", "ProcrastinateQueue", "is_passing"]

TASK = "rulvar.run"
_SCHEMA_LOCK = 0x72756C766172  # "rulvar"


class ProcrastinateQueue:
    """Hands runs to workers through PostgreSQL.

    Args:
        dsn: a libpq connection string or URI; the store's database, or another one.
        name: workers serve one queue; several of them may share a database.
        max_connections: how many connections this queue may have open.
        keys: seals what jobs carry (arguments, answers); run ids stay readable.

    Raises:
        ConfigError: an option is wrong, or the extra ``postgres`` is not installed.
    """

    def __init__(
        self, dsn: str, *, name: str = "rulvar", max_connections: int = 4, keys: KeyProvider | None = None
    ) -> None:
        if not isinstance(dsn, str) or not dsn:
            raise ConfigError("dsn: expected a PostgreSQL connection string", data={"field": "dsn"})
        if not isinstance(name, str) or not name:
            raise ConfigError("name: expected a non-empty string", data={"field": "name"})
        self.dsn = dsn
        self.name = name
        self._max = max_connections
        self._seal = None if keys is None else Seal(keys)
        self._app: App | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        _require_driver()

    async def submit(self, submission: Submission, *, connection: Any = None, priority: int = 0) -> None:
        """Have a run started; see ``RunQueue.submit``."""
        payload = {"run_id": submission.run_id, "submission": submission.to_wire()}
        await self._defer(payload, connection, priority=priority)

    async def wake(self, run_id: str, *, connection: Any = None) -> None:
        """Have a run resumed; one that is to be resumed already is resumed once."""
        from procrastinate.exceptions import AlreadyEnqueued

        check_run_id(run_id)
        with contextlib.suppress(AlreadyEnqueued):
            await self._defer({"run_id": run_id, "again": True}, connection, queueing_lock=f"wake {run_id}")

    async def adopt(self, run_id: str) -> None:
        """Have a run resumed whose owner is gone, unless it has ended or is to be resumed already."""
        from procrastinate.exceptions import AlreadyEnqueued

        with contextlib.suppress(AlreadyEnqueued):
            await self._defer({"run_id": check_run_id(run_id)}, None, queueing_lock=f"wake {run_id}")

    async def answer(self, run_id: str, key: str, value: Any) -> None:
        """Have a wait answered as soon as nobody drives the run."""
        await self._defer({"run_id": check_run_id(run_id), "answer": {"key": key, "value": value}}, None)

    async def cancel(self, run_id: str) -> int:
        """Cancel a run wherever it is, and return how many jobs of it there were.

        One that waits in the queue is not started; one that a worker drives is cancelled there. A run
        that is suspended has no job: it stays as it is until it is resumed.
        """
        app = await self.app()
        found = 0
        for job in await app.job_manager.list_jobs_async(queue=self.name, lock=check_run_id(run_id)):
            if job.status in ("todo", "doing") and job.id is not None:
                found += bool(await app.job_manager.cancel_job_by_id_async(job.id, abort=True))
        return found

    async def close(self) -> None:
        """Close the connections; the next use opens others."""
        app, self._app = self._app, None
        if app is not None and self._loop is asyncio.get_running_loop():
            await app.close_async()

    async def app(self) -> App:
        """Return the open procrastinate app, whose tables exist."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._app, self._loop, self._opening = None, loop, asyncio.Lock()
        async with self._opening:
            if self._app is None:
                self._app = await self._open()
            return self._app

    async def _open(self) -> App:
        from procrastinate import App, PsycopgConnector
        from procrastinate.exceptions import ConnectorException

        app = App(connector=PsycopgConnector(conninfo=self.dsn, min_size=1, max_size=self._max))
        try:
            await app.open_async()
            if not await app.check_connection_async():
                await self._make_tables(app)
        except ConnectorException as error:
            with contextlib.suppress(Exception):
                await app.close_async()
            raise _unavailable(error) from error
        return app

    async def _make_tables(self, app: App) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            # several processes may meet here: the tables are made once
            await connection.execute("SELECT pg_advisory_lock(%s)", (_SCHEMA_LOCK,))
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()

    async def _defer(
        self,
        payload: Mapping[str, Any],
        connection: Any,
        *,
        priority: int = 0,
        queueing_lock: str | None = None,
    ) -> None:
        from procrastinate.exceptions import AlreadyEnqueued, ConnectorException

        app = await self.app()
        payload = await self._sealed(payload)
        deferrer = app.configure_task(
            TASK,
            queue=self.name,
            lock=str(payload["run_id"]),
            queueing_lock=queueing_lock,
            priority=priority,
            connection=connection,
        )
        try:
            await deferrer.defer_async(**payload)
        except AlreadyEnqueued:
            raise
        except ConnectorException as error:
            raise _unavailable(error) from error

    async def _sealed(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._seal is None:
            return payload
        run_id = str(payload["run_id"])
        data = await self._seal.close(run_id, orjson.dumps(payload), f"job {run_id}")
        return {"run_id": run_id, "sealed": base64.b64encode(data).decode("ascii")}

    async def opened(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a job carries.

        Raises:
            StoreError: it is sealed, and cannot be opened with the keys of this queue.
        """
        sealed = payload.get("sealed")
        if sealed is None:
            return payload
        place = f"job {payload['run_id']}"
        if self._seal is None:
            raise StoreError(f"{place} is sealed; give the queue its keys", data={"reason": "corrupt"})
        try:
            data = base64.b64decode(str(sealed), validate=True)
        except ValueError:
            raise StoreError(f"{place} is not base64", data={"reason": "corrupt"}) from None
        opened: Mapping[str, Any] = orjson.loads(await self._seal.open(data, place))
        return opened


def is_passing(error: BaseException) -> bool:
    """Whether an error of the queue or a store may be gone when the same is tried again."""
    from procrastinate.exceptions import ConnectorException

    return isinstance(error, ConnectorException) or (isinstance(error, RulvarError) and error.retryable)


def _unavailable(error: Exception) -> StoreError:
    text = " ".join(str(error.__cause__ or error).split())
    return StoreError(
        f"the queue: {text}; check that PostgreSQL runs and can be reached",
        data={"reason": "unavailable"},
        retryable=True,
    )


def _require_driver() -> None:
    try:
        import procrastinate
        import psycopg
    except ImportError:
        raise ConfigError(
            "workers need the extra 'postgres': pip install 'rulvar[postgres]'", data={"extra": "postgres"}
        ) from None
    del procrastinate, psycopg
