"""Deleting and pruning: what is asked for goes, what somebody drives stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rulvar.errors import ConfigError, LeaseHeldError
from rulvar.stores import (
    FileTranscriptStore,
    InMemoryStore,
    JsonlFileStore,
    SqliteStore,
    delete_run,
    prune_runs,
)
from rulvar.testing.conformance.store_suite import close, entry


@pytest.fixture(params=["memory", "files", "sqlite"])
async def store(request: Any, tmp_path: Path) -> Any:
    made = {
        "memory": InMemoryStore,
        "files": lambda: JsonlFileStore(tmp_path / "runs"),
        "sqlite": lambda: SqliteStore(tmp_path / "runs.db", durability="process"),
    }[request.param]()
    yield made
    await close(made)


async def fill(store: Any, run_id: str, status: str = "ok", days: float = 0) -> None:
    when = datetime.now(UTC) - timedelta(days=days)
    await store.append(run_id, [entry(0)])
    await store.save_meta(
        run_id,
        {"runId": run_id, "status": status, "updatedAt": when.isoformat(timespec="milliseconds")},
    )
    await store.transcripts.put(f"{run_id}/t0", b"x")


async def ids(store: Any) -> list[str]:
    return [meta["runId"] for meta in await store.list_runs()]


async def test_a_deleted_run_is_gone_everywhere(store: Any, tmp_path: Path) -> None:
    apart = FileTranscriptStore(tmp_path / "apart")
    await fill(store, "a")
    await fill(store, "b")
    await apart.put("a/t0", b"x")
    assert await delete_run(store, "a", transcripts=apart)
    assert await ids(store) == ["b"]
    assert await store.load("a") == []
    assert await store.transcripts.get("a/t0") is None
    assert await apart.get("a/t0") is None
    assert not await delete_run(store, "a")
    with pytest.raises(ConfigError):
        await delete_run(store, "../a")


async def test_a_run_that_is_driven_is_neither_deleted_nor_pruned(store: Any) -> None:
    await fill(store, "a", days=9)
    lease = await store.acquire_lease("a", "driver", 60)
    with pytest.raises(LeaseHeldError):
        await delete_run(store, "a")
    pruned = await prune_runs(store, older_than=timedelta(days=1))
    assert (pruned.deleted, pruned.held) == ((), ("a",))
    await store.append("a", [entry(1)], lease=lease)
    await store.release_lease(lease)
    assert (await prune_runs(store, older_than=timedelta(days=1))).deleted == ("a",)


async def test_pruning_takes_old_runs_that_have_ended(store: Any) -> None:
    for run_id, status, days in (
        ("new", "ok", 1),
        ("old-ok", "ok", 40),
        ("old-error", "error", 40),
        ("old-suspended", "suspended", 40),
        ("old-running", "running", 40),
    ):
        await fill(store, run_id, status, days)
    await store.save_meta("undated", {"runId": "undated", "status": "ok"})
    age = timedelta(days=30)
    would = await prune_runs(store, older_than=age, dry_run=True)
    assert would.deleted == ("old-error", "old-ok")
    assert len(await ids(store)) == 6
    assert await prune_runs(store, older_than=age) == would
    assert await ids(store) == ["new", "old-running", "old-suspended", "undated"]
    moment = datetime.now(UTC) - age
    assert (await prune_runs(store, older_than=moment, statuses=["suspended"])).deleted == ("old-suspended",)
    assert (await prune_runs(store, older_than=timedelta(0))).deleted == ("new",)


@pytest.mark.parametrize("older", [timedelta(days=-1), datetime(2026, 1, 1), 30, "1d", None])
async def test_an_age_is_a_timedelta_or_an_aware_moment(older: Any) -> None:
    with pytest.raises(ConfigError, match="older_than"):
        await prune_runs(InMemoryStore(), older_than=older)
