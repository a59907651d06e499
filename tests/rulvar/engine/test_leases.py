"""One owner at a time drives a run; one that was overtaken stores nothing more and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, Engine, define_workflow, tool
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.lease import Lease
from rulvar.errors import ConfigError, LeaseHeldError, RunNotFoundError, StoreError
from rulvar.stores import InMemoryStore, JsonlFileStore
from rulvar.stores.sqlite import SqliteStore
from rulvar.testing import create_test_engine


class Gate:
    """A step that waits until it is let through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self) -> str:
        self.reached.set()
        await self.open.wait()
        return "through"


def gated(gate: Gate) -> Any:
    async def body(ctx: Ctx, args: Any) -> Any:
        before = await ctx.step("before", lambda: 1)
        return [before, await ctx.step("gate", gate)]

    return define_workflow("w", body)


async def shape(store: Any) -> list[str]:
    return [f"{entry.kind} {entry.status}" for entry in await store.load("r")]


async def steal(store: Any, *, ttl_s: float = 60) -> Lease:
    """Take a run whose holder has stopped renewing."""
    while True:
        try:
            lease: Lease = await store.acquire_lease("r", "thief", ttl_s)
            return lease
        except LeaseHeldError:
            await asyncio.sleep(0.01)


@pytest.fixture(params=["memory", "files", "sqlite"])
async def store(request: Any, tmp_path: Path) -> Any:
    made = {
        "memory": InMemoryStore,
        "files": lambda: JsonlFileStore(tmp_path),
        "sqlite": lambda: SqliteStore(tmp_path / "runs.db", durability="process"),
    }[request.param]()
    yield made
    if (closing := getattr(made, "close", lambda: None)()) is not None:
        await closing


async def test_a_run_that_is_under_way_cannot_be_driven_by_another_engine(store: Any) -> None:
    gate = Gate()
    first, second = Engine(journal=store, owner="one"), Engine(journal=store, owner="two")
    handle = first.run(gated(gate), run_id="r")
    await gate.reached.wait()
    with pytest.raises(LeaseHeldError, match="one") as caught:
        await second.resume("r", gated(gate)).result()
    assert caught.value.retryable
    with pytest.raises(LeaseHeldError):
        await second.resolve_external("r", "key", 1)
    with pytest.raises(ConfigError, match="exists already"):
        await second.run(gated(gate), run_id="r").result()
    gate.open.set()
    assert (await handle.result()).value == [1, "through"]
    assert (await second.resume("r", gated(gate)).result()).value == [1, "through"]


async def test_a_dry_run_needs_no_lease(store: Any) -> None:
    gate = Gate()
    engine = Engine(journal=store)
    handle = engine.run(gated(gate), run_id="r")
    await gate.reached.wait()
    looked = await Engine(journal=store).resume("r", gated(Gate()), dry_run=True).result()
    assert looked.error is not None
    assert looked.error.code == "journal_miss"
    gate.open.set()
    assert (await handle.result()).status == "ok"


async def test_a_lease_is_renewed_for_as_long_as_the_run_takes(store: Any) -> None:
    gate = Gate()
    engine = Engine(journal=store, lease_ttl_s=0.15)
    handle = engine.run(gated(gate), run_id="r")
    await gate.reached.wait()
    for _ in range(10):
        await asyncio.sleep(0.04)
        with pytest.raises(LeaseHeldError):
            await store.acquire_lease("r", "thief", 60)
    gate.open.set()
    assert (await handle.result()).status == "ok"
    await store.release_lease(await store.acquire_lease("r", "next", 60))


async def test_whatever_ends_a_run_lets_it_go(store: Any) -> None:
    async def fails(ctx: Ctx, args: Any) -> Any:
        await ctx.step("s", lambda: 1)
        raise RuntimeError("broken")

    async def waits(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("answer")

    engine = Engine(journal=store)
    for number, body in enumerate((fails, waits)):
        run_id = f"r{number}"
        await engine.run(define_workflow("w", body), run_id=run_id).result()
        await store.release_lease(await store.acquire_lease(run_id, "next", 60))
    gate = Gate()
    handle = engine.run(gated(gate), run_id="r")
    await gate.reached.wait()
    await handle.cancel()
    await store.release_lease(await store.acquire_lease("r", "next", 60))


async def test_a_refused_start_leaves_the_run_free_and_no_trace(store: Any, tmp_path: Path) -> None:
    engine = Engine(journal=store)
    await engine.run(gated(open_gate()), run_id="r").result()
    with pytest.raises(ConfigError, match="exists already"):
        await engine.run(gated(Gate()), run_id="r").result()
    with pytest.raises(RunNotFoundError):
        await engine.resume("nobody", gated(Gate())).result()
    with pytest.raises(ConfigError, match="started by"):
        await Engine(journal=store).resume("r", define_workflow("other", gated(Gate()).body), args=1).result()
    await store.release_lease(await store.acquire_lease("r", "next", 60))
    assert not list(tmp_path.glob("nobody*"))


def open_gate() -> Gate:
    gate = Gate()
    gate.open.set()
    return gate


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_run_that_was_taken_over_stores_nothing_more_and_ends(swallows: bool, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db", durability="process")
    gate, after = Gate(), []

    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.step("gate", gate)
        except BaseException:
            if not swallows:
                raise
        after.append(1)
        await ctx.step("paid after the loss", lambda: after.append(2))
        return "never"

    engine = Engine(journal=store, lease_ttl_s=0.1)
    other = SqliteStore(tmp_path / "runs.db", durability="process")
    handle = engine.run(define_workflow("w", body), run_id="r")
    await gate.reached.wait()
    stop_renewing(engine, handle)
    lease = await steal(other)
    before = await other.load("r"), await other.load_meta("r")
    start_renewing(engine, handle)
    outcome = await asyncio.wait_for(handle.result(), 5)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code, outcome.value) == ("error", "superseded", None)
    assert 2 not in after
    after_ = await other.load("r"), await other.load_meta("r")
    assert [e.line for e in after_[0]] == [e.line for e in before[0]]
    assert after_[1] == before[1]
    await other.release_lease(lease)
    gate.open.set()
    resumed = await Engine(journal=other).resume("r", define_workflow("w", body)).result()
    assert resumed.status == "ok"
    assert await shape(other) == [
        "step running",
        "step ok",
        "step running",
        "step ok",
        "decision ok",
    ]
    await store.close()
    await other.close()


def stop_renewing(engine: Engine, handle: Any) -> None:
    timer = handle._run.journal._sink._timer
    timer.cancel()


def start_renewing(engine: Engine, handle: Any) -> None:
    handle._run.journal._sink._start_renewal()


async def test_trouble_while_renewing_does_not_end_a_run() -> None:
    class Troubled(InMemoryStore):
        renewals = 0

        async def renew_lease(self, lease: Lease) -> None:
            self.renewals += 1
            raise StoreError("no connection", data={"reason": "unavailable"})

    store, gate = Troubled(), Gate()
    handle = Engine(journal=store, lease_ttl_s=0.06).run(gated(gate), run_id="r")
    await asyncio.sleep(0.2)
    gate.open.set()
    assert (await handle.result()).status == "ok"
    assert store.renewals > 3


class Slow(InMemoryStore):
    """A store whose appends take a moment, like a database's."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        await asyncio.sleep(0.005)
        self.batches.append(len(entries))
        await super().append(run_id, entries, lease=lease)


class Told(Slow):
    """Such a store, which tells when the first call of a run is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        if any(entry.status == "running" for entry in entries):
            self.begun.set()
        await super().append(run_id, entries, lease=lease)


async def test_entries_that_come_while_the_store_is_busy_are_stored_together() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([lambda n=n: ctx.step("s", lambda: n, deps=[n]) for n in range(50)])

    store = Slow()
    outcome = await Engine(journal=store).run(define_workflow("w", body), run_id="r").result()
    assert outcome.value == list(range(50))
    entries = await store.load("r")
    assert [entry.seq for entry in entries] == list(range(101))
    assert len(store.batches) < 10


@pytest.mark.parametrize("call", ["agent", "step", "child", "tool"])
async def test_a_call_that_is_cancelled_while_its_first_entry_is_stored_is_closed(call: str) -> None:
    @tool
    def looks() -> str:
        """Look."""
        return "seen"

    async def nothing(ctx: Ctx, args: Any) -> None: ...

    async def body(ctx: Ctx, args: Any) -> Any:
        calls = {
            "agent": lambda: ctx.agent("a"),
            "step": lambda: ctx.step("s", lambda: 1),
            "child": lambda: ctx.workflow(define_workflow("child", nothing)),
            "tool": lambda: ctx.call_tool(looks, {}),
        }
        await calls[call]()

    store = Told()
    engine = create_test_engine(agents={"*": "x"}, journal=store)
    flow = define_workflow("w", body)
    run = engine.run(flow, run_id="r")
    await store.begun.wait()
    await run.cancel()
    assert (await run.result()).status == "cancelled"
    entries = [entry for entry in await store.load("r") if entry.kind != "decision"]
    assert [entry.status for entry in entries] == ["running", "cancelled"]
    assert (await engine.resume("r", flow).result()).status == "ok"


async def test_a_cancelled_branch_does_not_take_the_entries_of_others_with_it() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async def fails() -> None:
            await ctx.step("a", lambda: 1)
            raise RuntimeError("broken")

        try:
            await ctx.parallel([fails, *(lambda n=n: many(ctx, n) for n in range(5))])
        except RuntimeError:
            return await ctx.step("after", lambda: "still there")

    async def many(ctx: Ctx, branch: int) -> None:
        for number in range(20):
            await ctx.step("b", lambda n=number: n, deps=[branch, number])

    store = Slow()
    engine = Engine(journal=store)
    outcome = await engine.run(define_workflow("w", body), run_id="r").result()
    assert outcome.value == "still there", outcome.error
    again = engine.resume("r", define_workflow("w", body))
    assert (await again.result()).value == "still there"


async def test_a_store_that_fails_ends_the_run_before_anything_more_is_paid() -> None:
    class Full(InMemoryStore):
        left = 3

        def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
            if self.left == 0:
                raise OSError(28, "No space left on device")
            self.left -= 1
            super().append_now(run_id, entries)

    paid: list[int] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(5):
            try:
                await ctx.step("pay", lambda n=number: paid.append(n), deps=[number])
            except Exception:
                continue
        return "swallowed"

    outcome = await Engine(journal=Full()).run(define_workflow("w", body), run_id="r").result()
    assert outcome.error is not None
    assert (outcome.status, outcome.value, outcome.error.code) == ("error", None, "settlement")
    assert paid == [0, 1]


@pytest.mark.parametrize("ttl", [0, -1, float("inf"), float("nan"), "30", True])
def test_a_lease_time_is_a_number_above_zero(ttl: Any) -> None:
    with pytest.raises(ConfigError, match="lease_ttl_s"):
        Engine(lease_ttl_s=ttl)


async def test_a_lease_that_arrives_after_its_run_was_cancelled_is_let_go() -> None:
    class Slow(InMemoryStore):
        async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
            await asyncio.sleep(0.02)
            return await super().acquire_lease(run_id, owner, ttl_s)

    store = Slow()
    handle = Engine(journal=store).run(gated(Gate()), run_id="r")
    await asyncio.sleep(0.01)
    await handle.cancel()
    assert (await handle.result()).status == "cancelled"
    state = await store.lease_of("r")
    assert state is not None
    assert not state.is_held


@pytest.mark.parametrize("let_go", [True, False])
async def test_a_run_that_is_let_go_is_free_and_looks_as_if_its_process_had_crashed(let_go: bool) -> None:
    store, gate = InMemoryStore(), Gate()
    handle = Engine(journal=store).run(gated(gate), run_id="r")
    await gate.reached.wait()
    await (handle.let_go() if let_go else handle.cancel())
    outcome = await handle.result()
    assert (outcome.status, outcome.error and outcome.error.code) == (
        ("error", "superseded") if let_go else ("cancelled", "error")
    )
    left = ["step running", "step ok", "step running"]
    assert await shape(store) == (left if let_go else [*left, "step cancelled", "decision ok"])
    assert ((await store.load_meta("r")) or {})["status"] == ("running" if let_go else "cancelled")
    gate.open.set()
    again = await Engine(journal=store).resume("r", gated(gate)).result()
    assert again.value == [1, "through"]
    await handle.let_go()  # a settled run is left alone
