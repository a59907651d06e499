"""Disks that are full, that fail or that may not be written: a typed error, nothing acknowledged lost, and on it goes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, Engine, InMemoryStore, JsonlFileStore, SqliteStore, define_workflow
from rulvar.errors import StoreError

HERE = Path(__file__).parent
ON_DISK = ("files-process", "files-fsync", "files-group", "sqlite", "sqlite-process")


def run(kind: str, folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "faulty_run.py"), kind, str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == "", done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def check_full_and_resumed(kind: str, folder: Path, failed: dict[str, Any], reason: str = "full") -> None:
    assert (failed["status"], failed["error"]["code"]) == ("error", "settlement"), failed
    cause = failed["error"]["data"]["cause"]
    assert (cause["code"], cause["data"]["reason"]) == ("store", reason), failed
    assert 0 < failed["handed_out"] < 60
    resumed = run(kind, folder)
    assert (resumed["status"], resumed["value"]) == ("ok", 60), resumed
    # a step whose value was handed out is never made again; the one that met the limit is
    assert resumed["misses"] <= 60 - failed["handed_out"]


@pytest.mark.parametrize("kind", ON_DISK)
def test_a_run_that_meets_a_full_disk_resumes_when_there_is_space(kind: str, tmp_path: Path) -> None:
    failed = run(kind, tmp_path, "--file-limit", "131072")
    # SQLite tells a file that may not grow from a disk without space
    check_full_and_resumed(kind, tmp_path, failed, "io" if kind.startswith("sqlite") else "full")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rulvar-small-"))
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        folder.rmdir()
        pytest.skip("mounting a small tmpfs needs root and the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)
    folder.rmdir()


@pytest.mark.parametrize("kind", ON_DISK)
def test_a_run_on_a_disk_that_fills_up_resumes_on_a_larger_one(
    kind: str, small_disk: Path, tmp_path: Path
) -> None:
    failed = run(kind, small_disk, "--size", "6000")
    larger = tmp_path / "larger"
    shutil.copytree(small_disk, larger)
    check_full_and_resumed(kind, larger, failed)


@pytest.mark.parametrize("kind", ON_DISK)
def test_a_folder_that_may_not_be_written_is_named_before_anything_runs(kind: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rulvar-locked-"))
    folder.chmod(0o555)
    try:
        refused = run(kind, folder, "--unprivileged")
        assert (refused["status"], refused["error"]["code"]) == ("refused", "store"), refused
        assert refused["error"]["data"]["reason"] in ("read_only", "io")
        assert str(folder) in refused["error"]["message"]
        assert refused["handed_out"] == 0
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["files-process", "sqlite"])
def test_runs_in_a_folder_that_became_read_only_can_still_be_looked_at(kind: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rulvar-locked-"))
    try:
        assert run(kind, folder, "--steps", "3")["status"] == "ok"
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        refused = run(kind, folder, "--unprivileged", "--steps", "3")
        assert (refused["status"], refused["error"]["code"]) == ("refused", "store"), refused
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("durability", ["process", "fsync"])
@pytest.mark.parametrize("removed", [["-wal"], ["-shm"], ["-wal", "-shm"], [""], ["", "-wal", "-shm"]])
async def test_a_database_whose_files_are_removed_is_noticed_before_anything_more_is_acknowledged(
    removed: list[str], durability: Any, tmp_path: Path
) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(6):
            await ctx.step("step", lambda n=number: paid.append(n), deps=[number])
            if number == 2 and not store.path.with_name("removed").exists():
                for suffix in removed:
                    Path(f"{store.path}{suffix}").unlink()
                store.path.with_name("removed").touch()
        return 6

    paid: list[int] = []
    is_lost = "" in removed
    store = SqliteStore(tmp_path / "runs.db", durability=durability)
    workflow = define_workflow("w", body)
    outcome = await Engine(journal=store).run(workflow, run_id="r").result()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", "settlement")
    assert "removed or replaced" in outcome.error.message
    assert paid == [0, 1, 2]
    await store.close()
    engine = Engine(journal=SqliteStore(store.path))
    assert await engine.knows("r") is not is_lost
    if not is_lost:  # what only the removed log held was saved when the store let go of it
        resumed = await engine.resume("r", workflow).result()
        assert (resumed.status, resumed.value, paid) == ("ok", 6, [0, 1, 2, 3, 4, 5])
    await engine.close()


@pytest.mark.parametrize("durability", ["process", "fsync", "group"])
@pytest.mark.parametrize(
    "what", ["removed", "replaced", "moved", "folder moved", "folder removed", "swapped"]
)
async def test_a_journal_that_is_no_longer_in_its_place_is_noticed_before_anything_more_is_acknowledged(
    what: str, durability: Any, tmp_path: Path
) -> None:
    folder, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    journal = folder / "r.jsonl"

    def interfere() -> None:
        if what == "removed":
            journal.unlink()
        elif what == "replaced":
            copy = journal.with_suffix(".new")
            copy.write_bytes(journal.read_bytes())
            copy.replace(journal)
        elif what == "moved":
            journal.rename(folder / "other.jsonl")
        elif what == "folder removed":
            shutil.rmtree(folder)
        else:
            folder.rename(elsewhere)
        if what == "swapped":
            shutil.copytree(elsewhere, folder)

    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(6):
            await ctx.step("step", lambda n=number: paid.append(n), deps=[number])
            if number == 2 and not interfered:
                interfered.append(what)
                interfere()
        return 6

    paid: list[int] = []
    interfered: list[str] = []
    workflow = define_workflow("w", body)
    async with Engine(journal=JsonlFileStore(folder, durability=durability)) as engine:
        outcome = await engine.run(workflow, run_id="r").result()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", "settlement"), outcome
    assert "r.jsonl" in outcome.error.message
    assert paid == [0, 1, 2]
    if what == "folder moved":
        shutil.rmtree(folder, ignore_errors=True)
        elsewhere.rename(folder)
    elif what == "moved":
        (folder / "other.jsonl").rename(journal)
    async with Engine(journal=JsonlFileStore(folder, durability=durability)) as engine:
        if "removed" in what:
            assert await engine.store.load("r") == []
            return
        resumed = await engine.resume("r", workflow).result()
        assert (resumed.status, resumed.value, paid) == ("ok", 6, [0, 1, 2, 3, 4, 5])


# -- a store that fails at any of its writes ----------------------------------------------------


class Failing:
    """Passes through to a store, but fails at its n-th write."""

    def __init__(self, inner: Any, fail_at: int, error: Exception) -> None:
        self._inner, self.left, self._error = inner, fail_at, error
        self.transcripts = _FailingTranscripts(self, inner.transcripts)
        self.immediate = getattr(inner, "immediate", True) and hasattr(inner, "append_now")

    def check(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self._error

    def append_now(self, *args: Any) -> None:
        self.check()
        self._inner.append_now(*args)

    async def append(self, *args: Any, **kw: Any) -> None:
        self.check()
        await self._inner.append(*args, **kw)

    async def save_meta(self, *args: Any, **kw: Any) -> None:
        self.check()
        await self._inner.save_meta(*args, **kw)

    async def acquire_lease(self, *args: Any) -> Any:
        self.check()
        return await self._inner.acquire_lease(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _FailingTranscripts:
    def __init__(self, store: Failing, inner: Any) -> None:
        self._store, self._inner = store, inner

    async def put(self, *args: Any, **kw: Any) -> None:
        self._store.check()
        await self._inner.put(*args, **kw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


ERRORS = (
    OSError(errno.EIO, "Input/output error"),
    StoreError("the disk is gone", data={"reason": "io"}),
)


@pytest.mark.parametrize("error", ERRORS, ids=["OSError", "StoreError"])
@pytest.mark.parametrize("kind", ["memory", "files", "sqlite"])
async def test_a_store_that_fails_at_any_write_gives_a_typed_error_and_the_run_resumes(
    kind: str, error: Exception, tmp_path: Path
) -> None:
    from rulvar.testing import FakeAdapter
    from rulvar.testing.engine import fake_routing

    paid: list[str] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        first = await ctx.step("first", lambda: paid.append("first") or 1)
        said = await ctx.agent("ask")
        both = await ctx.parallel([lambda n=n: ctx.step(n, lambda: paid.append(n) or n) for n in "ab"])
        return [first, said, both]

    workflow = define_workflow("w", body)
    fail_at = 0
    while True:
        fail_at += 1
        store: Any = {
            "memory": InMemoryStore,
            "files": lambda n=fail_at: JsonlFileStore(tmp_path / str(n)),
            "sqlite": lambda n=fail_at: SqliteStore(tmp_path / f"{n}.db", durability="process"),
        }[kind]()
        failing = Failing(store, fail_at, error)
        model = FakeAdapter(agents={"*": lambda call: paid.append("ask") or "said"})
        paid.clear()
        try:
            outcome = await (
                Engine(adapters=[model], journal=failing, routing=fake_routing())
                .run(workflow, run_id="r")
                .result()
            )
        except (OSError, StoreError):
            assert paid == []  # it could not start, and nothing ran
            outcome = None
        if failing.left > 0:
            assert outcome is not None
            assert outcome.status == "ok"
            break
        if outcome is not None:
            assert outcome.error is not None
            assert outcome.status == "error"
            assert outcome.error.code in ("settlement", "store"), (fail_at, outcome.error)
        stored = await store.load("r")
        kept = {entry.value for entry in stored if entry.kind == "step" and entry.status == "ok"}
        paid.clear()
        engine = Engine(adapters=[model], journal=store, routing=fake_routing())
        handle: Any = (
            engine.resume("r", workflow) if await engine.knows("r") else engine.run(workflow, run_id="r")
        )
        again = await asyncio.wait_for(handle.result(), 5)
        assert (again.status, again.value) == ("ok", [1, "said", ["a", "b"]]), fail_at
        assert not {"a", "b"} & kept & set(paid), (fail_at, kept, paid)
        await engine.close()
    assert fail_at >= 12
