"""A database file that others keep locked, clocks that jump, leases of processes that were stopped."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, Engine, SqliteStore, define_workflow
from rulvar.errors import LeaseHeldError, StoreError
from rulvar.stores import machine
from rulvar.testing.conformance.store_suite import entry

FORK = multiprocessing.get_context("fork")


def hold_lock(path: Path, seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    asyncio.get_running_loop().call_later(seconds, connection.execute, "COMMIT")
    return connection


async def test_a_locked_database_is_waited_for_while_the_event_loop_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db", busy_timeout_s=5)
    await store.append("r", [entry(0)])
    other = hold_lock(store.path, 0.3)
    write = asyncio.ensure_future(store.append("r", [entry(1)]))
    ticks = 0
    while not write.done():
        await asyncio.sleep(0.01)
        ticks += 1
    await write
    assert ticks > 10
    assert [item.seq for item in await store.load("r")] == [0, 1]
    other.close()
    await store.close()


async def test_a_database_that_stays_locked_is_a_typed_error_and_the_run_resumes(tmp_path: Path) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        first = await ctx.step("first", lambda: paid.append("first") or 1)
        if not locks:
            locks.append(hold_lock(store.path, 1.0))
        return [first, await ctx.step("second", lambda: paid.append("second") or 2)]

    paid: list[str] = []
    locks: list[sqlite3.Connection] = []
    store = SqliteStore(tmp_path / "runs.db", busy_timeout_s=0.2)
    workflow = define_workflow("w", body)
    # the lease cannot be let go either while the file is locked: it ends with its time
    outcome = await Engine(journal=store, lease_ttl_s=0.5).run(workflow, run_id="r").result()
    assert outcome.error is not None
    assert outcome.error.retryable
    cause = (outcome.error.data or {})["cause"]
    assert (cause["code"], cause["data"]["reason"]) == ("store", "busy")
    assert paid == ["first"]
    await asyncio.sleep(1.2)
    resumed = await Engine(journal=store).resume("r", workflow).result()
    assert resumed.value == [1, 2]
    assert paid == ["first", "second"]
    for lock in locks:
        lock.close()
    await store.close()


async def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"this is no database\n" * 500)
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"runs\.db.*no SQLite database") as caught:
        await store.load("r")
    assert caught.value.data["reason"] == "corrupt"
    assert path.read_bytes().startswith(b"this is no database")
    await store.close()


async def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    await store.append("r", [entry(0)])
    await store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE rulvar_schema SET version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(Exception, match="version 99"):
        await store.load("r")
    await store.close()


async def test_a_clock_that_is_set_does_not_move_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = SqliteStore(tmp_path / "runs.db"), SqliteStore(tmp_path / "runs.db")
    lease = await one.acquire_lease("r", "me", 30)
    now = time.time()
    for jump in (-(10**8), 3600, 10**9):
        monkeypatch.setattr(time, "time", lambda jump=jump: now + jump)
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: int((now + jump) * 1e9))
        with pytest.raises(LeaseHeldError):
            await other.acquire_lease("r", "thief", 30)
        await one.renew_lease(lease)
    await one.close()
    await other.close()


async def test_a_run_whose_clock_jumps_runs_resumes_and_stays_in_order(tmp_path: Path) -> None:
    class Jumping:
        def __init__(self) -> None:
            self.times = iter([1_700_000_000_000, 0, 4_000_000_000_000, 1, 1_700_000_000_000] * 1000)

        def now_ms(self) -> int:
            return next(self.times)

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    async def body(ctx: Ctx, args: Any) -> Any:
        seen = [await ctx.step("s", lambda n=n: n, deps=[n]) for n in range(5)]
        return [*seen, ctx.now().isoformat()]

    store = SqliteStore(tmp_path / "runs.db", durability="process")
    workflow = define_workflow("w", body)
    outcome = await Engine(journal=store, clock=Jumping()).run(workflow, run_id="r").result()
    assert outcome.status == "ok", outcome.error
    resumed = await Engine(journal=store, clock=Jumping()).resume("r", workflow).result()
    assert resumed.value == outcome.value
    seqs = [item.seq for item in await store.load("r")]
    assert seqs == list(range(len(seqs)))
    await store.close()


def take(path: Path, ready: Any) -> None:
    async def main() -> None:
        store = SqliteStore(path)
        await store.acquire_lease("r", "child", 600)
        ready.set()
        await asyncio.sleep(60)

    asyncio.run(main())


@pytest.mark.skipif(not machine.boot_id(), reason="only Linux tells one process from the next")
async def test_a_killed_process_holds_nothing_and_one_that_lives_does(tmp_path: Path) -> None:
    ready = FORK.Event()
    child = FORK.Process(target=take, args=(tmp_path / "runs.db", ready))
    child.start()
    assert await asyncio.to_thread(ready.wait, 10)
    store = SqliteStore(tmp_path / "runs.db")
    with pytest.raises(LeaseHeldError, match="child"):
        await store.acquire_lease("r", "me", 30)
    child.kill()
    child.join()
    lease = await store.acquire_lease("r", "me", 30)
    assert lease.epoch == 2
    await store.close()


def test_a_process_is_told_from_others_with_its_number() -> None:
    me = machine.process_identity()
    if not me:
        pytest.skip("nothing tells processes apart here")
    boot, namespace, pid, started = me.split("/")
    assert not machine.process_is_gone(me)
    assert machine.process_is_gone(f"{boot}/{namespace}/{pid}/{int(started) + 1}")
    assert machine.process_is_gone(f"another-boot/{namespace}/{pid}/{started}")
    assert not machine.process_is_gone(f"{boot}/another namespace/{pid}/1")
    assert machine.process_is_gone(f"{boot}/{namespace}/{2**22 + 7}/1")
    for odd in ("", "x", f"{boot}/", f"{boot}/{namespace}/x/1", f"{boot}/{namespace}"):
        assert not machine.process_is_gone(odd), odd
    assert os.getpid() == int(pid)
