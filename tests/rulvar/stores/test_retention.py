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
    LocalKeys,
    SealedStore,
    SqliteStore,
    delete_run,
    export_runs,
    import_runs,
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


async def test_a_run_that_is_resumed_while_others_are_pruned_stays(store: Any) -> None:
    for run_id in ("a", "b", "c"):
        await fill(store, run_id, days=9)
    deleting, delete = [], store.delete

    async def slowly(run_id: str, **lease: Any) -> None:
        deleting.append(run_id)
        await delete(run_id, **lease)
        if run_id == "a":  # meanwhile b is resumed and ends again, and c is deleted and started anew
            await fill_anew(store, "b")
            await delete("c")
            await fill(store, "c", "running", days=9)

    store.delete = slowly
    pruned = await prune_runs(store, older_than=timedelta(days=1))
    assert (pruned.deleted, deleting) == (("a",), ["a"])
    assert await ids(store) == ["b", "c"]


async def fill_anew(store: Any, run_id: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    await store.append(run_id, [entry(1)])
    await store.save_meta(run_id, {"runId": run_id, "status": "ok", "updatedAt": now})


async def test_a_meta_row_speaks_for_the_run_in_whose_place_it_lies(store: Any) -> None:
    await fill(store, "fresh")
    old = (datetime.now(UTC) - timedelta(days=9)).isoformat(timespec="milliseconds")
    await store.append("copy", [entry(0)])
    await store.save_meta("copy", {"runId": "fresh", "status": "ok", "updatedAt": old, "more": 1})
    assert (await store.load_meta("copy"))["runId"] == "copy"
    assert [(meta["runId"], meta.get("more")) for meta in await store.list_runs()] == [
        ("copy", 1),
        ("fresh", None),
    ]
    assert (await prune_runs(store, older_than=timedelta(days=1))).deleted == ("copy",)
    assert await ids(store) == ["fresh"]


async def test_files_that_somebody_copied_are_not_taken_for_runs(tmp_path: Path) -> None:
    store = JsonlFileStore(tmp_path)
    await fill(store, "a", days=9)
    (tmp_path / "a (copy).meta.json").write_bytes((tmp_path / "a.meta.json").read_bytes())
    assert await ids(store) == ["a"]
    assert (await prune_runs(store, older_than=timedelta(days=1))).deleted == ("a",)
    assert (tmp_path / "a (copy).meta.json").exists()


async def test_a_run_that_cannot_be_read_is_named_by_pruning_and_can_be_deleted_or_restored(
    tmp_path: Path,
) -> None:
    store = JsonlFileStore(tmp_path / "runs")
    for run_id in ("a", "b", "c"):
        await fill(store, run_id, days=9)
    await export_runs(store, ["b"], tmp_path / "b.zip")
    (tmp_path / "runs" / "b.meta.json").write_text("[")
    (tmp_path / "runs" / "b.jsonl").write_text("damage\ndamage\n")
    with pytest.raises(ConfigError, match="in the store already"):
        await import_runs(store, tmp_path / "b.zip")
    assert await import_runs(store, tmp_path / "b.zip", overwrite=True) == ["b"]
    assert [item.seq for item in await store.load("b")] == [0]
    (tmp_path / "runs" / "b.meta.json").write_text("[")
    (tmp_path / "runs" / "b.jsonl").write_text("damage\ndamage\n")
    pruned = await prune_runs(store, older_than=timedelta(days=1))
    assert (pruned.deleted, pruned.held, pruned.unreadable) == (("a", "c"), (), ("b",))
    assert await delete_run(store, "b")
    assert await ids(store) == []


async def test_runs_whose_key_is_gone_are_named_by_pruning_and_can_be_deleted(tmp_path: Path) -> None:
    inner = SqliteStore(tmp_path / "runs.db", durability="process")
    await fill(SealedStore(inner, LocalKeys({"lost": b"1" * 32})), "a", days=9)
    store = SealedStore(inner, LocalKeys({"kept": b"2" * 32}))
    await fill(store, "b", days=9)
    pruned = await prune_runs(store, older_than=timedelta(days=1))
    assert (pruned.deleted, pruned.unreadable) == (("b",), ("a",))
    assert await delete_run(store, "a")
    assert await store.run_ids() == []
    await inner.close()


@pytest.mark.parametrize("older", [timedelta(days=-1), datetime(2026, 1, 1), 30, "1d", None])
async def test_an_age_is_a_timedelta_or_an_aware_moment(older: Any) -> None:
    with pytest.raises(ConfigError, match="older_than"):
        await prune_runs(InMemoryStore(), older_than=older)
