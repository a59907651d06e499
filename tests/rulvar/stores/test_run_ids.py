"""Stores that keep runs for long tell of which runs anything is stored, a meta row or not."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.entries import as_entries
from rulvar.stores import JsonlFileStore, PostgresStore, SqliteStore

ENTRIES = as_entries(
    {"seq": seq, "hashVersion": 2, "scope": "", "key": "k", "ordinal": 0, "kind": "step", "status": "running"}
    for seq in range(3)
)


@pytest.fixture(params=["files", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    made: Any
    if request.param == "files":
        made = JsonlFileStore(tmp_path / "runs")
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "runs.db")
    else:
        server = request.getfixturevalue("postgres")
        made = PostgresStore(server.dsn, schema=f"s{uuid.uuid4().hex}")
    yield made
    closing = made.close()
    if closing is not None:
        await closing


async def test_a_run_is_named_once_whatever_is_stored_of_it(store: Any) -> None:
    assert await store.run_ids() == []
    for run_id in ("b", "a", "B", "c-1"):
        await store.append(run_id, ENTRIES)
    for run_id in ("a", "meta.only"):
        await store.save_meta(run_id, {"runId": run_id, "status": "ok"})
    assert await store.run_ids() == ["B", "a", "b", "c-1", "meta.only"]
    await store.delete("b")
    assert await store.run_ids() == ["B", "a", "c-1", "meta.only"]


async def test_files_that_are_of_no_run_are_passed_over(tmp_path: Path) -> None:
    for name in ("r1.jsonl", "a b.jsonl", "r2.meta.json", "notes.txt", "x.json"):
        (tmp_path / name).touch()
    assert await JsonlFileStore(tmp_path).run_ids() == ["r1", "r2"]
