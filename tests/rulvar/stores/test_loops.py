"""A store outlives event loops, and may be used in several at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rulvar.stores import InMemoryStore, JsonlFileStore, PostgresStore, SqliteStore
from rulvar.testing.conformance.store_suite import close, entry

KINDS = ["memory", "files", "fsync", "group", "sqlite", "sqlite process", "postgres"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kind = request.param
    if kind == "memory":
        return InMemoryStore()
    if kind == "postgres":
        dsn = request.getfixturevalue("postgres").dsn
        return PostgresStore(dsn, schema=f"s{uuid.uuid4().hex}", max_connections=3)
    if kind.startswith("sqlite"):
        return SqliteStore(tmp_path / "runs.db", durability="process" if "process" in kind else "fsync")
    return JsonlFileStore(tmp_path, durability="process" if kind == "files" else kind)


async def write(store: Any, run_id: str, first: int, count: int = 5) -> None:
    lease = await store.acquire_lease(run_id, "me", 30)
    for seq in range(first, first + count):
        await store.append(run_id, [entry(seq)], lease=lease)
        await store.save_meta(run_id, {"runId": run_id, "status": "ok"}, lease=lease)
    await store.transcripts.put(f"{run_id}/t", b"x", lease=lease)
    await store.release_lease(lease)


def test_a_store_is_used_in_one_event_loop_after_the_other(store: Any) -> None:
    async def several(number: int) -> None:
        await asyncio.gather(*(write(store, f"r{n}", number * 5) for n in range(4)))

    async def abandoned() -> None:
        writing = asyncio.create_task(write(store, f"abandoned-{uuid.uuid4().hex}", 0, 500))
        await asyncio.sleep(0.01)
        del writing  # the loop ends with it under way

    async def check() -> None:
        for number in range(4):
            assert [item.seq for item in await store.load(f"r{number}")] == list(range(15))
        await close(store)

    for number in range(3):
        asyncio.run(several(number))
        asyncio.run(abandoned())
    asyncio.run(check())
    gc.collect()  # a connection that is still open would be an error here


def in_threads(count: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Do work in as many threads, each with an event loop of its own."""
    failures: list[BaseException] = []

    def thread(number: int) -> None:
        try:
            asyncio.run(asyncio.wait_for(work(number), 60))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(count)]
    for started in threads:
        started.start()
    for started in threads:
        started.join()
    assert failures == []


def test_a_store_is_used_in_event_loops_of_several_threads_at_once(store: Any) -> None:
    async def work(number: int) -> None:
        for turn in range(4):
            await asyncio.gather(*(write(store, f"t{number}-{n}", turn * 5) for n in range(3)))
        await close(store)

    async def check() -> None:
        for number in range(4):
            for n in range(3):
                assert [item.seq for item in await store.load(f"t{number}-{n}")] == list(range(20))
        await close(store)

    in_threads(4, work)
    asyncio.run(check())
    gc.collect()


def test_a_store_is_closed_by_one_loop_while_those_of_other_threads_write(store: Any) -> None:
    async def work(number: int) -> None:
        for turn in range(40):
            await write(store, f"t{number}", turn * 2, 2)
            if turn % 3 == number % 3:
                await close(store)
        await close(store)

    async def check() -> None:
        for number in range(6):
            assert [item.seq for item in await store.load(f"t{number}")] == list(range(80))
        await close(store)

    in_threads(6, work)
    asyncio.run(check())
    gc.collect()


async def test_closing_a_store_leaves_nobody_waiting_for_a_group_that_never_commits(tmp_path: Path) -> None:
    store = JsonlFileStore(tmp_path, durability="group")
    for turn in range(20):
        appends = [asyncio.create_task(store.append(f"r{n}", [entry(turn)])) for n in range(5)]
        await asyncio.sleep(0)
        store.close()
        appends += [asyncio.create_task(store.append(f"s{n}", [entry(turn)])) for n in range(5)]
        await asyncio.wait_for(asyncio.gather(*appends), 10)
    for name in "rs":
        for n in range(5):
            assert len(await store.load(f"{name}{n}")) == 20
    store.close()
