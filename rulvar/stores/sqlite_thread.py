"""One thread that owns a SQLite connection, and commits together what is asked for at the same time.

The event loop never waits for the disk or for another process's lock. Work that arrives while a
transaction is under way is done in the next one, so many runs share one commit. Where a commit does not
wait for the disk, a single write is done at once in the event loop, on a connection that does not wait
for locks either; whenever that is refused, the thread takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from rulvar.errors import StoreError
from rulvar.stores.sqlite_connection import WatchedConnection

__all__ = ["SqliteThread"]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_BATCH = 256
_CHECKPOINT_EVERY = 500


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    writes: bool
    future: asyncio.Future[Any]


class SqliteThread:
    """Runs work on one connection, in the order in which it was asked for.

    Work that writes runs in a transaction that others may share: it must raise before it writes, or
    not at all. A database error fails the whole transaction, and everything in it.

    Args:
        name: the database, for error texts.
        connect: opens a connection that waits for locks, for the thread, or one that does not.
        commits_at_once: whether a commit does not wait for the disk.
    """

    def __init__(
        self, name: str, connect: Callable[[bool], WatchedConnection], *, commits_at_once: bool
    ) -> None:
        self._name = name
        self._connect = connect
        self._commits_at_once = commits_at_once
        self._quick: WatchedConnection | None = None
        self._quick_writes = 0
        self._connection: WatchedConnection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: deque[_Job] = deque()
        self._running = False
        self._guard = threading.Lock()

    async def read(self, work: Work[T]) -> T:
        """Run work that only reads, and return its result."""
        return await self._submit(work, writes=False)

    async def write(self, work: Work[T]) -> T:
        """Run work in a transaction, and return its result once that is committed.

        Raises:
            StoreError: the database refused; nothing of the transaction is stored.
        """
        if self._commits_at_once and (done := self._write_now(work)) is not None:
            return done[0]
        return await self._submit(work, writes=True)

    async def close(self) -> None:
        """Close the connections and end the thread; the next use opens them again."""
        if self._pool is None:
            return
        await self._submit(_close_all, writes=False)  # in its turn: a loop in another thread may be at work
        with self._guard:
            if self._pool is not None and not self._running:
                self._pool.shutdown(wait=False)
                self._pool = None

    def _write_now(self, work: Work[T]) -> tuple[T] | None:
        """Write in this thread, unless the other one is busy or somebody holds the lock: then return None."""
        with self._guard:
            if self._running or self._pool is None:  # the thread opens the file first, and makes the tables
                return None
            self._running = True
        try:
            return self._transact_now(work)
        finally:
            with self._guard:
                is_due = self._quick_writes >= _CHECKPOINT_EVERY
                self._running = is_due or bool(self._jobs)
                if self._running:
                    self._pool.submit(self._drain)

    def _transact_now(self, work: Work[T]) -> tuple[T] | None:
        try:
            if self._quick is None:
                self._quick = self._connect(False)
            quick = self._quick
            try:
                quick.begin()
            except StoreError:
                self._close_quick()
                return None
            try:
                result = work(quick)
            except _REFUSALS:
                raise
            except Exception:
                quick.execute("ROLLBACK")
                raise
            quick.execute("COMMIT")
        except _REFUSALS:
            self._close_quick()  # what is wrong, the thread finds out and says
            return None
        self._quick_writes += 1
        return (result,)

    def _close_quick(self) -> None:
        quick, self._quick = self._quick, None
        if quick is not None:
            with contextlib.suppress(sqlite3.Error):
                quick.close()

    def _submit(self, work: Work[T], *, writes: bool) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._guard:
            self._jobs.append(_Job(work, writes, future))
            if self._running:
                return future
            self._running = True
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="rulvar-sqlite")
            self._pool.submit(self._drain)
        return future

    # -- in the thread -------------------------------------------------------------------

    def _drain(self) -> None:
        while True:
            self._checkpoint()
            with self._guard:
                batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), _BATCH))]
                if not batch:
                    self._running = False
                    return
            work = [job for job in batch if job.work is not _close_all]
            for job, (result, error) in zip(work, self._transact(work) if work else (), strict=True):
                _deliver(job.future, result, error)
            if len(work) < len(batch):
                self._close_quick()
                self._disconnect()
            for job in batch:
                if job.work is _close_all:
                    _deliver(job.future, None, None)

    def _checkpoint(self) -> None:
        """Move the log into the database, which waits for the disk: the quick connection leaves it to us."""
        if self._quick_writes < _CHECKPOINT_EVERY:
            return
        self._quick_writes = 0
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):  # it is due again
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _transact(self, batch: list[_Job]) -> list[tuple[Any, BaseException | None]]:
        answers: list[tuple[Any, BaseException | None]] = []
        writes = any(job.writes for job in batch)
        try:
            if self._connection is None:
                self._connection = self._connect(True)
            connection = self._connection
            if writes:
                connection.begin()
            for job in batch:
                answers.append(_run(job, connection))
            if writes:
                connection.execute("COMMIT")
        except _REFUSALS as error:
            refused = _store_error(self._name, error)
            self._roll_back(refused)
            return [(None, refused)] * len(batch)
        except BaseException as error:  # whatever it is, those who wait must hear of it
            self._roll_back(error)
            return [(None, error)] * len(batch)
        return answers

    def _roll_back(self, error: BaseException) -> None:
        busy = isinstance(error, StoreError) and error.data.get("reason") == "busy"
        if self._connection is not None and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        if not busy:
            self._disconnect()  # a connection that has seen an I/O error is not trusted again

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _close_all(connection: sqlite3.Connection) -> None:
    """Stands among the work for closing the connections, which needs none."""


def _run(job: _Job, connection: sqlite3.Connection) -> tuple[Any, BaseException | None]:
    try:
        return job.work(connection), None
    except _REFUSALS:
        raise
    except Exception as error:
        return None, error


def _deliver(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    def settle() -> None:
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop that asked is gone
        future.get_loop().call_soon_threadsafe(settle)


_REFUSALS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite refuses with: its message quotes a damaged schema, which need not be text."""

_REASONS = {
    sqlite3.SQLITE_BUSY: ("busy", "another process keeps the database locked"),
    sqlite3.SQLITE_LOCKED: ("busy", "another connection keeps the table locked"),
    sqlite3.SQLITE_FULL: ("full", "free some space, then resume the run"),
    sqlite3.SQLITE_READONLY: ("read_only", "make the file and its folder writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("io", "check that the folder exists and may be written"),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "restore the file from a copy"),
    sqlite3.SQLITE_NOTADB: ("corrupt", "the file is no SQLite database"),
}


def _store_error(name: str, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    said = "the file is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    reason, advice = _REASONS.get(primary or -1, ("io", "check the disk, then resume the run"))
    return StoreError(
        f"{name}: {said}; {advice}",
        data={"reason": reason, "file": name, "sqlite": getattr(error, "sqlite_errorname", None)},
        retryable=reason in ("busy", "full"),
    )
