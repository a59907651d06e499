"""Every store that comes with rulvar passes the suite that third-party stores run."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from rulvar.stores import InMemoryStore, JsonlFileStore, LocalKeys, PostgresStore, SealedStore, SqliteStore
from rulvar.testing.conformance.store import StoreConformance

KEYS = {"first": b"1" * 32, "second": b"2" * 32}


class OnDisk(StoreConformance):
    """A store in the folder of the test; opened again, it is another process's."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.place = tmp_path

    def reopen(self, store: Any) -> Any:
        return self.make_store()


class TestMemory(StoreConformance):
    def make_store(self) -> Any:
        return InMemoryStore()


class TestFiles(OnDisk):
    def make_store(self) -> Any:
        return JsonlFileStore(self.place / "runs")


class TestFilesWithFsync(TestFiles):
    def make_store(self) -> Any:
        return JsonlFileStore(self.place / "runs", durability="fsync")


class TestFilesWithGroupCommit(TestFiles):
    def make_store(self) -> Any:
        return JsonlFileStore(self.place / "runs", durability="group")


class TestSqlite(OnDisk):
    def make_store(self) -> Any:
        return SqliteStore(self.place / "runs.db")


class TestSqliteWithoutFsync(OnDisk):
    def make_store(self) -> Any:
        return SqliteStore(self.place / "runs.db", durability="process")


class TestPostgres(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self.dsn = postgres.dsn
        self.schema = f"s{uuid.uuid4().hex}"

    def make_store(self) -> Any:
        return PostgresStore(self.dsn, schema=self.schema)

    def reopen(self, store: Any) -> Any:
        return self.make_store()


class TestSealedSqlite(OnDisk):
    def make_store(self) -> Any:
        return SealedStore(SqliteStore(self.place / "runs.db", durability="process"), LocalKeys(KEYS))


class TestSealedFiles(OnDisk):
    def make_store(self) -> Any:
        return SealedStore(JsonlFileStore(self.place / "runs"), LocalKeys(KEYS))
