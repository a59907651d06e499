"""Every store that comes with rulvar passes the suite that third-party stores run."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, ClassVar

import pytest
from postgres_server import PostgresServer

from rulvar.stores import InMemoryStore, JsonlFileStore, LocalKeys, PostgresStore, SealedStore, SqliteStore
from rulvar.testing.conformance.store import StoreConformance


class TestMemory(StoreConformance):
    __test__ = True
    is_shared: ClassVar[bool] = False

    def open_store(self, place: Path) -> Any:
        return InMemoryStore()


class TestSqlite(StoreConformance):
    __test__ = True

    def open_store(self, place: Path) -> Any:
        return SqliteStore(place / "runs.db")


class TestSqliteWithoutFsync(StoreConformance):
    __test__ = True

    def open_store(self, place: Path) -> Any:
        return SqliteStore(place / "runs.db", durability="process")


class TestFiles(StoreConformance):
    __test__ = True
    leases_expire: ClassVar[bool] = False

    def open_store(self, place: Path) -> Any:
        return JsonlFileStore(place / "runs")


class TestFilesWithFsync(TestFiles):
    def open_store(self, place: Path) -> Any:
        return JsonlFileStore(place / "runs", durability="fsync")


class TestFilesWithGroupCommit(TestFiles):
    def open_store(self, place: Path) -> Any:
        return JsonlFileStore(place / "runs", durability="group")


class TestPostgres(StoreConformance):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self.dsn = postgres.dsn
        self.schema = f"s{uuid.uuid4().hex}"

    def open_store(self, place: Path) -> Any:
        return PostgresStore(self.dsn, schema=self.schema)


KEYS = {"first": b"1" * 32, "second": b"2" * 32}


class TestSealedSqlite(StoreConformance):
    __test__ = True

    def open_store(self, place: Path) -> Any:
        return SealedStore(SqliteStore(place / "runs.db", durability="process"), LocalKeys(KEYS))


class TestSealedFiles(StoreConformance):
    __test__ = True
    leases_expire: ClassVar[bool] = False

    def open_store(self, place: Path) -> Any:
        return SealedStore(JsonlFileStore(place / "runs"), LocalKeys(KEYS))
