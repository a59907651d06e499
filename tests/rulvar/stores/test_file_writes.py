"""Files that are replaced whole, by whoever asked last, also when somebody does not wait."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rulvar import Engine, define_workflow
from rulvar.errors import ConfigError
from rulvar.stores import FileTranscriptStore, JsonlFileStore
from rulvar.testing.conformance.store_suite import entry


@pytest.mark.parametrize("durability", ["process", "fsync", "group"])
async def test_a_meta_row_that_is_written_many_times_at_once_is_one_of_them_and_no_error(
    tmp_path: Path, durability: Any
) -> None:
    store = JsonlFileStore(tmp_path, durability=durability)
    await asyncio.gather(*(store.save_meta("r", {"runId": "r", "n": n}) for n in range(40)))
    assert (await store.load_meta("r") or {})["n"] in range(40)
    await asyncio.gather(*(store.transcripts.put("r/t", b"%d" % n) for n in range(40)))
    assert int(await store.transcripts.get("r/t") or b"") in range(40)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["r.meta.json", "t.bin"]


@pytest.mark.parametrize("durability", ["process", "fsync", "group"])
async def test_a_write_whose_caller_was_cancelled_never_comes_after_a_later_one(
    tmp_path: Path, durability: Any
) -> None:
    store = JsonlFileStore(tmp_path, durability=durability)
    blobs = FileTranscriptStore(tmp_path / "blobs", durability=durability)
    for number in range(15):
        lease = await store.acquire_lease("r", "me", 9)
        earlier = [
            asyncio.ensure_future(store.save_meta("r", {"runId": "r", "n": "earlier"}, lease=lease)),
            asyncio.ensure_future(blobs.put("r/t", b"earlier")),
        ]
        await asyncio.sleep(0.0002 * (number % 5))
        for task in earlier:
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # twice: whoever is in a hurry
        await asyncio.wait(earlier)
        await store.save_meta("r", {"runId": "r", "n": number}, lease=lease)
        await blobs.put("r/t", b"%d" % number)
        await store.release_lease(lease)
        await asyncio.sleep(0.002)
        assert (await store.load_meta("r") or {})["n"] == number
        assert await blobs.get("r/t") == b"%d" % number


async def test_a_deleted_run_leaves_no_draft_of_a_process_that_was_killed(tmp_path: Path) -> None:
    store = JsonlFileStore(tmp_path)
    for run_id in ("a", "a.jsonl", "ab"):
        await store.append(run_id, [entry(0)])
        await store.save_meta(run_id, {"runId": run_id})
    mine = ("a.jsonl.71-0f.tmp", "a.meta.json.71-0f.tmp", "a.meta.json.71.tmp")
    others = ("ab.jsonl.71-0f.tmp", "ab.meta.json.71-0f.tmp")
    for name in (*mine, *others):
        (tmp_path / name).write_text("secret")
    await store.delete("a")
    assert await store.run_ids() == ["a.jsonl", "ab"]
    assert sorted(path.name for path in tmp_path.glob("*.tmp")) == sorted(others)
    assert len(await store.load("a.jsonl")) == 1
    store.close()


async def test_runs_whose_names_differ_by_case_are_not_mixed_up_where_files_do_not_tell_them_apart(
    tmp_path: Path,
) -> None:
    async def body(ctx: Any, args: Any) -> Any:
        return await ctx.step("s", lambda: args)

    workflow = define_workflow("w", body)
    async with Engine(journal=JsonlFileStore(tmp_path)) as engine:
        assert (await engine.run(workflow, "first", run_id="Run").result()).value == "first"
        for suffix in ("jsonl", "meta.json"):  # what such a file system shows
            (tmp_path / f"run.{suffix}").symlink_to(f"Run.{suffix}")
        for handle in (
            engine.run(workflow, "second", run_id="run"),
            engine.resume("run", workflow, args="first"),
        ):
            with pytest.raises(ConfigError, match="'Run'"):
                await handle.result()
        assert (await engine.resume("Run", workflow, args="first").result()).value == "first"
