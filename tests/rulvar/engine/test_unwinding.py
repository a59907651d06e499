"""Whatever unwinds a body, in whatever wrapping: the run settles, and what was paid is kept."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rulvar import Ctx, ToolRefusal, define_workflow, tool
from rulvar.errors import DeterminismError, JournalMissError, ResolutionError, StoreError
from rulvar.stores import FileTranscriptStore, InMemoryStore, JsonlFileStore, SqliteStore
from rulvar.testing import create_test_engine, fake_tool_calls, replay_run


class Verdict(BaseException):
    """What a test framework raises to end a test."""


async def asks(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("a")


async def looks(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("a", tools=[look])


async def in_task_group(*calls: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)


async def meta_status(engine: Any, run_id: str) -> Any:
    return (await engine.store.load_meta(run_id))["status"]


async def test_a_wait_in_a_task_group_suspends_the_run() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        await in_task_group(ctx.await_external("k"))

    outcome = await create_test_engine(agents={}).run(define_workflow("w", body)).result()
    assert (outcome.status, [item.key for item in outcome.pending]) == ("suspended", ["k"])


@pytest.mark.parametrize("within", ["body", "parallel", "child"])
async def test_a_wait_in_a_task_group_suspends_what_is_around_it(within: str) -> None:
    async def waits(ctx: Ctx, args: Any) -> Any:
        await in_task_group(ctx.await_external("k"))

    child = define_workflow("child", waits)

    async def body(ctx: Ctx, args: Any) -> Any:
        if within == "parallel":
            return await ctx.parallel([lambda: waits(ctx, None), lambda: ctx.step("s", lambda: 1)])
        return await (ctx.workflow(child) if within == "child" else waits(ctx, None))

    engine = create_test_engine(agents={})
    run = engine.run(define_workflow("w", body), run_id="r")
    assert (await run.result()).status == "suspended"
    await run.resolve_external("k", 5)
    assert (await engine.resume("r", define_workflow("w", body)).result()).status == "ok"


async def test_a_strict_miss_in_a_task_group_is_raised_as_such() -> None:
    engine = create_test_engine(agents={"*": "x"})

    async def first(ctx: Ctx, args: Any) -> Any:
        await in_task_group(ctx.agent("a"))

    async def second(ctx: Ctx, args: Any) -> Any:
        await in_task_group(ctx.agent("b"))

    await engine.run(define_workflow("w", first), run_id="r").result()
    with pytest.raises(JournalMissError, match="strict replay would go live"):
        await replay_run(define_workflow("w", second), journal=(engine.store, "r"))


async def test_an_unstable_read_in_a_task_group_rejects_the_run() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.agent("a"))
            time.time()
            group.create_task(ctx.agent("b"))

    engine = create_test_engine(agents={"*": "x"}, determinism="error")
    outcome = await engine.run(define_workflow("w", body), run_id="r").result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.code == DeterminismError.code
    assert await meta_status(engine, "r") == "error"


async def test_a_verdict_that_is_no_error_passes_through_and_the_run_settles() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        await ctx.step("s", lambda: 1)
        raise Verdict

    engine = create_test_engine(agents={})
    with pytest.raises(Verdict):
        await engine.run(define_workflow("w", body), run_id="r").result()
    assert await meta_status(engine, "r") == "error"


class Slow(SqliteStore):
    """A store that lets others run before and after an append."""

    entered: asyncio.Event | None = None

    async def append(self, *args: Any, **options: Any) -> None:
        if self.entered is not None and any(
            entry.kind == "agent" and entry.ref is not None for entry in args[1]
        ):
            self.entered.set()
            await asyncio.sleep(0.02)
        await super().append(*args, **options)


async def test_an_answer_that_has_come_is_journaled_once_however_late_the_cancel(tmp_path: Path) -> None:
    store = Slow(tmp_path / "a.db")
    store.entered = asyncio.Event()
    engine = create_test_engine(agents={"*": "x"}, journal=store)
    flow = define_workflow("w", asks)
    run = engine.run(flow, run_id="r")
    await store.entered.wait()
    await run.cancel()
    assert (await run.result()).status == "cancelled"
    entries = await store.load("r")
    assert [entry.status for entry in entries if entry.kind == "agent"] == ["running", "ok"]
    resumed = await engine.resume("r", flow).result()
    assert (resumed.status, resumed.value, len(engine.fake.calls)) == ("ok", "x", 1)
    await engine.close()


async def test_a_body_that_swallows_a_cancellation_pays_nothing_more_and_may_tidy_up() -> None:
    engine = create_test_engine(agents={"*": "x"})
    tidied: list[int] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await ctx.step("tidy up", lambda: tidied.append(1))
        return await ctx.agent("more")

    run = engine.run(define_workflow("w", body), run_id="r")
    await asyncio.sleep(0.01)
    await run.cancel()
    assert ((await run.result()).status, tidied, len(engine.fake.calls)) == ("cancelled", [1], 0)


class Full(FileTranscriptStore):
    """A disk without room."""

    async def put(self, *args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")


async def test_an_answer_outlives_its_transcript_and_the_run_says_that_it_is_lost(tmp_path: Path) -> None:
    engine = create_test_engine(agents={"*": "x"}, journal=InMemoryStore(), transcripts=Full(tmp_path))
    outcome = await engine.run(define_workflow("w", asks), run_id="r").result()
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("error", StoreError.code)
    assert "No space left" in outcome.error.message
    assert (await engine.resume("r", define_workflow("w", asks)).result()).value == "x"
    assert len(engine.fake.calls) == 1


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_a_checkpoint_that_cannot_be_kept_stops_the_run_before_more_is_spent(tmp_path: Path) -> None:
    engine = create_test_engine(
        agents={"*": [fake_tool_calls(name="look", args={}), "x"]},
        journal=InMemoryStore(),
        transcripts=Full(tmp_path),
    )

    async def body(ctx: Ctx, args: Any) -> Any:
        for _ in range(3):
            try:
                return await ctx.agent("a", tools=[look])
            except Exception:  # a body that tries again, whatever it was
                continue
        return None

    outcome = await engine.run(define_workflow("w", body)).result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.code == StoreError.code
    assert len(engine.fake.calls) == 1


async def test_ctx_in_another_thread_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await asyncio.to_thread(ctx.random)

    engine = create_test_engine(agents={}, journal=JsonlFileStore(tmp_path))
    outcome = await engine.run(define_workflow("w", body)).result()
    assert outcome.error is not None
    assert "do the work in the thread, and call ctx with its result" in outcome.error.message


@pytest.mark.parametrize(
    "answer", [True, "yes", {"decision": "Allow"}, {"approved": True}, {"decision": True}]
)
@pytest.mark.parametrize("live", [True, False])
async def test_an_answer_that_an_approval_does_not_know_is_refused(answer: Any, live: bool) -> None:
    engine = create_test_engine(
        agents={"*": [fake_tool_calls(name="look", args={}), "x"]}, permissions={"ask": ["look"]}
    )
    flow = define_workflow("w", looks)
    run = engine.run(flow, run_id="r")
    outcome = await run.result()
    [pending] = outcome.pending
    with pytest.raises(ResolutionError, match=r"decision|object"):
        await (
            run.resolve_external(pending.key, answer)
            if live
            else engine.resolve_external("r", pending.key, answer)
        )
    await run.resolve_external(pending.key, {"decision": "allow"})
    assert (await engine.resume("r", flow).result()).value == "x"


async def test_a_call_that_is_cancelled_before_its_first_turn_has_an_end_in_the_journal() -> None:
    async def fails(ctx: Ctx) -> None:
        raise RuntimeError("at once")

    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.parallel([lambda: asks(ctx, None), lambda: fails(ctx)])
        except RuntimeError as error:
            return str(error)

    async with create_test_engine(agents={"*": "x"}) as engine:
        outcome = await engine.run(define_workflow("w", body), run_id="r").result()
        entries = await engine.store.load("r")
    assert (outcome.status, outcome.value, engine.fake.calls) == ("ok", "at once", [])
    assert [(e.kind, e.status, e.ref) for e in entries][:2] == [
        ("agent", "running", None),
        ("agent", "cancelled", 0),
    ]


@pytest.mark.parametrize("within", ["body", "parallel", "child"])
async def test_the_worst_failure_of_a_task_group_is_how_the_run_ends(within: str) -> None:
    @tool
    def broken() -> None:
        raise ToolRefusal("closed")

    @tool(effects="write")
    def unknown() -> None:
        raise RuntimeError("PRIVATE")

    async def calls(ctx: Ctx, args: Any) -> Any:
        await in_task_group(*[ctx.call_tool(item) for item in chosen])

    child = define_workflow("child", calls)

    async def body(ctx: Ctx, args: Any) -> Any:
        if within == "parallel":
            return await ctx.parallel([lambda: calls(ctx, None)])
        return await (ctx.workflow(child) if within == "child" else calls(ctx, None))

    for also, status in (([], "error"), ([unknown], "outcome_unknown")):
        chosen = [broken, *also]
        outcome = await create_test_engine(agents={}).run(define_workflow("w", body)).result()
        assert outcome.status == status
        assert outcome.error is not None
        assert ("closed" in outcome.error.message) is (status == "error")
        assert "PRIVATE" not in outcome.error.message
