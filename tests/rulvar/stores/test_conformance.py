"""Every store that comes with rulvar passes the suite that third-party stores run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from rulvar.stores import InMemoryStore, JsonlFileStore
from rulvar.stores.sqlite import SqliteStore
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
