"""Stores are pointed at places that hold something else, and say so."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rulvar.errors import ConfigError, StoreError
from rulvar.stores import FileTranscriptStore, JsonlFileStore, SqliteStore
from rulvar.testing.conformance.store_suite import entry


@pytest.mark.parametrize("make", [JsonlFileStore, FileTranscriptStore, SqliteStore])
@pytest.mark.parametrize("path", ["a\0b", b"bytes"])
def test_what_is_no_path_is_refused_at_construction(make: Any, path: Any) -> None:
    with pytest.raises(ConfigError, match=r"path=|directory="):
        make(path)


async def test_a_file_where_a_folder_is_wanted_is_no_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = JsonlFileStore(tmp_path / "file")
    for doing in (store.list_runs, store.run_ids):
        with pytest.raises(StoreError, match="cannot be listed"):
            await doing()
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "transcripts" / "r").touch()
    with pytest.raises(StoreError, match="cannot be listed"):
        await JsonlFileStore(tmp_path).transcripts.refs("r")
    assert await JsonlFileStore(tmp_path / "nothing").list_runs() == []
    assert await JsonlFileStore(tmp_path / "nothing").run_ids() == []
    assert await FileTranscriptStore(tmp_path / "nothing").refs("r") == []


@pytest.mark.parametrize("durability", ["process", "fsync"])
@pytest.mark.parametrize(
    "tables",
    [
        "CREATE TABLE rulvar_entries (x)",
        "CREATE VIEW rulvar_metas AS SELECT 1 AS x",
        "CREATE TABLE rulvar_schema (version TEXT); INSERT INTO rulvar_schema VALUES ('x')",
        "CREATE TABLE rulvar_schema (version BLOB); INSERT INTO rulvar_schema VALUES (x'ff')",
        "CREATE TABLE rulvar_schema (version REAL); INSERT INTO rulvar_schema VALUES (0.5)",
        "CREATE TABLE rulvar_schema (version INTEGER); INSERT INTO rulvar_schema VALUES (-5)",
        "CREATE TABLE rulvar_schema (name TEXT); INSERT INTO rulvar_schema VALUES ('x')",
    ],
)
async def test_a_database_with_other_peoples_tables_is_refused_and_left_alone(
    tables: str, durability: Any, tmp_path: Path
) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(tables)
        before = connection.execute("SELECT sql FROM sqlite_master").fetchall()
    connection.close()
    store = SqliteStore(path, durability=durability)
    for doing in (store.append("r", [entry(0)]), store.load("r"), store.list_runs()):
        with pytest.raises(ConfigError, match="choose another file"):
            await doing
    await store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT sql FROM sqlite_master").fetchall() == before
    connection.close()
