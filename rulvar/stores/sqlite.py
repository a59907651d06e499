"""One SQLite file for any number of runs: journals, meta rows, transcripts and leases.

Any number of processes of one machine may share the file. It is written ahead (WAL), so readers never
wait; writers wait for each other for at most ``busy_timeout_s``.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.lease import Lease, LeaseState
from rulvar.contracts.ports.store import RunMeta
from rulvar.contracts.ports.transcripts import split_ref
from rulvar.errors import ConfigError
from rulvar.stores.journal_lines import decode_row
from rulvar.stores.listing import RUN_IDS
from rulvar.stores.machine import boot_id, machine_seconds, process_identity, process_is_gone
from rulvar.stores.meta_row import decode_meta, encode_meta
from rulvar.stores.refusals import lease_held, order_violated, superseded
from rulvar.stores.sqlite_connection import WatchedConnection, still_uri
from rulvar.stores.sqlite_schema import migrate
from rulvar.stores.sqlite_thread import SqliteThread

__all__ = ["SqliteStore", "SqliteTranscripts"]

Durability = Literal["process", "fsync"]


class SqliteStore:
    """Keeps runs in one SQLite file.

    Args:
        path: the file; it and its folder are made when first used.
        durability: ``"fsync"`` waits until a commit is on disk; ``"process"`` leaves that to the
            system: what was stored survives a killed process, but the last moments before a power
            cut may be lost (the file stays whole).
        busy_timeout_s: how long to wait for another process's transaction before StoreError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "fsync",
        busy_timeout_s: float = 10.0,
    ) -> None:
        if durability not in ("process", "fsync"):
            raise ConfigError(
                f"durability={durability!r}: expected 'process' or 'fsync'", data={"field": "durability"}
            )
        self.path = Path(path)
        self.durability = durability
        self.busy_timeout_s = busy_timeout_s
        at_once = durability == "process" and str(path) != ":memory:"
        self._thread = SqliteThread(str(self.path), self._connect, commits_at_once=at_once)
        self.transcripts = SqliteTranscripts(self._thread)
        """Where an engine over this store keeps transcripts unless told otherwise."""

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries in order."""
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> list[JournalEntry]:
            rows = connection.execute(
                "SELECT line, seq FROM rulvar_entries WHERE run_id = ? ORDER BY seq", (run_id,)
            ).fetchall()  # an error below must not keep the statement, and with it the file, open
            return [decode_row(line, run_id, seq) for line, seq in rows]

        return await self._thread.read(work)

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """Store entries in one transaction.

        Raises:
            JournalOrderViolation: a seq is not after the stored tail.
            SupersededError, LeaseHeldError: somebody else holds the run.
            StoreError: the database refused.
        """
        check_run_id(run_id)
        rows = [(run_id, entry.seq, entry.line) for entry in entries]

        def work(connection: sqlite3.Connection) -> None:
            _admit(connection, run_id, lease)
            (tail,) = connection.execute(
                "SELECT coalesce(max(seq), -1) FROM rulvar_entries WHERE run_id = ?", (run_id,)
            ).fetchone()
            for _, seq, _ in rows:
                if seq <= tail:
                    raise order_violated(run_id, seq, tail)
                tail = seq
            connection.executemany("INSERT INTO rulvar_entries VALUES (?, ?, ?)", rows)

        if rows:
            await self._thread.write(work)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row."""
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> RunMeta | None:
            row = connection.execute("SELECT meta FROM rulvar_metas WHERE run_id = ?", (run_id,)).fetchone()
            return None if row is None else decode_meta(row[0], f"{self.path}, run {run_id}")

        return await self._thread.read(work)

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """Replace a run's meta row."""
        check_run_id(run_id)
        data, status = encode_meta(meta), str(meta.get("status", ""))

        def work(connection: sqlite3.Connection) -> None:
            _admit(connection, run_id, lease)
            connection.execute(
                "INSERT INTO rulvar_metas VALUES (?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET "
                "status = excluded.status, meta = excluded.meta",
                (run_id, status, data),
            )

        await self._thread.write(work)

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""

        def work(connection: sqlite3.Connection) -> list[RunMeta]:
            rows = connection.execute("SELECT run_id, meta FROM rulvar_metas ORDER BY run_id").fetchall()
            return [decode_meta(meta, f"{self.path}, run {run_id}") for run_id, meta in rows]

        return await self._thread.read(work)

    async def run_ids(self) -> list[str]:
        """Return the id of every run of which anything is stored, in order."""

        def work(connection: sqlite3.Connection) -> list[str]:
            return [
                run_id
                for (run_id,) in connection.execute(
                    RUN_IDS.format(metas="rulvar_metas", entries="rulvar_entries")
                ).fetchall()
            ]

        return await self._thread.read(work)

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget a run, its transcripts included, in one transaction; its epochs go on counting."""
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> None:
            _admit(connection, run_id, lease)
            for table in ("rulvar_entries", "rulvar_metas", "rulvar_blobs"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

        await self._thread.write(work)

    # -- leases --------------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
        """Take a run that nobody holds; a holder whose process has ended holds nothing.

        Raises:
            LeaseHeldError: somebody holds it.
        """
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> Lease:
            held = _holder(connection, run_id)
            if held is not None and held.is_held:
                raise lease_held(run_id, held.owner, held.expires_in_s)
            epoch = 1 if held is None else held.epoch + 1
            row = (run_id, epoch, owner, process_identity(), boot_id(), machine_seconds() + ttl_s)
            connection.execute("INSERT OR REPLACE INTO rulvar_leases VALUES (?, ?, ?, ?, ?, ?, 1)", row)
            return Lease(run_id=run_id, owner=owner, epoch=epoch, ttl_s=ttl_s)

        return await self._thread.write(work)

    async def renew_lease(self, lease: Lease) -> None:
        """Hold a run for longer; raises SupersededError when it has been lost."""

        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(
                "UPDATE rulvar_leases SET expires = ? WHERE run_id = ? AND epoch = ? AND held",
                (machine_seconds() + lease.ttl_s, lease.run_id, lease.epoch),
            )
            if done.rowcount == 0:
                raise superseded(lease)

        await self._thread.write(work)

    async def release_lease(self, lease: Lease) -> None:
        """Let a run go."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE rulvar_leases SET held = 0 WHERE run_id = ? AND epoch = ?",
                (lease.run_id, lease.epoch),
            )

        await self._thread.write(work)

    async def lease_of(self, run_id: str) -> LeaseState | None:
        """Return who holds a run, or held it last."""
        check_run_id(run_id)
        return await self._thread.read(lambda connection: _holder(connection, run_id))

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        await self._thread.close()

    def _connect(self, waits: bool) -> WatchedConnection:
        name = str(self.path)
        if name != ":memory:":
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise sqlite3.OperationalError(f"cannot make the folder: {error}") from None
        timeout = self.busy_timeout_s if waits else 0.0
        still = None if name == ":memory:" else still_uri(self.path)
        connection = sqlite3.connect(
            still or name,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=WatchedConnection,
            uri=still is not None,
        )
        try:
            if still is None:
                if not waits:
                    connection.execute("PRAGMA wal_autocheckpoint = 0")
                _use_wal(connection, timeout)
                connection.execute(
                    f"PRAGMA synchronous = {'FULL' if self.durability == 'fsync' else 'NORMAL'}"
                )
            migrate(connection, name)
            if still is None and name != ":memory:":
                connection.watch(name)
        except BaseException:
            connection.close()
            raise
        return connection


def _use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch a database to WAL; SQLite itself does not wait while somebody else switches the same file."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(0.01)


class SqliteTranscripts:
    """Transcripts and checkpoints in the file of a SqliteStore."""

    def __init__(self, thread: SqliteThread) -> None:
        self._thread = thread

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """Store a blob, replacing one of the same reference."""
        run_id, name = split_ref(ref)

        def work(connection: sqlite3.Connection) -> None:
            _admit(connection, run_id, lease)
            connection.execute("INSERT OR REPLACE INTO rulvar_blobs VALUES (?, ?, ?)", (run_id, name, data))

        await self._thread.write(work)

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        place = split_ref(ref)

        def work(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(
                "SELECT data FROM rulvar_blobs WHERE run_id = ? AND name = ?", place
            ).fetchone()
            return None if row is None else bytes(row[0])

        return await self._thread.read(work)

    async def refs(self, run_id: str) -> list[str]:
        """Return the references of a run's blobs, in order."""
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "SELECT name FROM rulvar_blobs WHERE run_id = ? ORDER BY name", (run_id,)
            )
            return [f"{run_id}/{name}" for (name,) in rows]

        return await self._thread.read(work)

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Forget every blob of a run."""
        check_run_id(run_id)

        def work(connection: sqlite3.Connection) -> None:
            _admit(connection, run_id, lease)
            connection.execute("DELETE FROM rulvar_blobs WHERE run_id = ?", (run_id,))

        await self._thread.write(work)


def _admit(connection: sqlite3.Connection, run_id: str, lease: Lease | None) -> None:
    """Refuse a write of somebody who does not hold the run; without a lease, a run must be free."""
    if lease is None:
        held = _holder(connection, run_id)
        if held is not None and held.is_held:
            raise lease_held(run_id, held.owner, held.expires_in_s)
        return
    row = connection.execute(
        "SELECT 1 FROM rulvar_leases WHERE run_id = ? AND epoch = ? AND held", (run_id, lease.epoch)
    ).fetchone()
    if row is None:
        raise superseded(lease)


def _holder(connection: sqlite3.Connection, run_id: str) -> LeaseState | None:
    row = connection.execute(
        "SELECT epoch, owner, process, boot, expires, held FROM rulvar_leases WHERE run_id = ?", (run_id,)
    ).fetchone()
    if row is None:
        return None
    epoch, owner, process, boot, expires, held = row
    alive = held and boot == boot_id() and not process_is_gone(process)
    left = max(0.0, expires - machine_seconds()) if alive else 0.0
    return LeaseState(owner=owner, epoch=epoch, expires_in_s=left)
