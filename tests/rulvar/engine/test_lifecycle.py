"""Runs start, suspend, are answered, cancelled and resumed; mistakes are refused before anything runs."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from rulvar import Ctx, Engine, define_workflow, workflow
from rulvar.errors import (
    ConfigError,
    JournalCompatibilityError,
    NonSerializableValueError,
    ResolutionError,
    RunNotFoundError,
)
from rulvar.stores import InMemoryStore


async def gate(ctx: Ctx, args: Any) -> Any:
    before = await ctx.step("before", lambda: 1)
    answer = await ctx.await_external("gate", schema={"type": "object", "required": ["ok"]}, prompt="go?")
    return [before, answer]


async def test_a_refused_answer_leaves_no_trace_and_the_wait_open(bench: Any) -> None:
    suspended = await bench.run(gate)
    assert suspended.status == "suspended"
    assert suspended.pending[0].to_wire()["prompt"] == "go?"
    before = await bench.shape()
    with pytest.raises(ResolutionError, match="ok"):
        await bench.handle.resolve_external("gate", {"no": 1})
    with pytest.raises(ResolutionError, match="'gate'"):
        await bench.handle.resolve_external("other", 1)
    assert await bench.shape() == before
    await bench.handle.resolve_external("gate", {"ok": True})
    assert (await bench.resume()).value == [1, {"ok": True}]


async def test_the_first_answer_wins(bench: Any) -> None:
    await bench.run(gate)
    await bench.handle.resolve_external("gate", {"ok": 1})
    with pytest.raises(ResolutionError, match="open waits: none"):
        await bench.handle.resolve_external("gate", {"ok": 2})
    assert (await bench.resume()).value == [1, {"ok": 1}]


async def test_a_run_stays_live_while_any_branch_can_move(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async def slow() -> str:
            await asyncio.sleep(0.05)
            return await ctx.step("slow", lambda: "slow")

        return await ctx.parallel([lambda: ctx.await_external("a"), slow])

    bench.workflow = define_workflow("w", body)
    handle = bench.engine.run(bench.workflow, run_id="r1")
    await asyncio.sleep(0.01)
    assert handle.status == "running"
    await handle.resolve_external("a", "answer")
    assert (await handle.result()).value == ["answer", "slow"]


async def test_a_group_of_branches_that_has_just_ended_does_not_suspend_the_run(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        async def works() -> Any:
            both = await ctx.parallel([lambda n=n: ctx.step(f"s{n}", lambda: n) for n in (1, 2)])
            return [both, await ctx.step("after", lambda: "after")]

        return await ctx.parallel([lambda: ctx.await_external("a"), works])

    bench.workflow = define_workflow("w", body)
    assert (await bench.run(body)).status == "suspended"
    assert [shape for shape in await bench.shape() if shape == "step ok par:0:1"] == ["step ok par:0:1"]


async def test_a_run_suspends_when_every_branch_waits(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel(
            [lambda: ctx.await_external("a"), lambda: ctx.parallel([lambda: ctx.await_external("b")])]
        )

    outcome = await asyncio.wait_for(bench.run(body), 2)
    assert [item.key for item in outcome.pending] == ["a", "b"]


async def test_a_body_that_swallows_its_suspension_still_suspends(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        try:
            return await ctx.await_external("a")
        except BaseException:
            return "swallowed"

    assert (await bench.run(body)).status == "suspended"


async def test_cancelling_journals_what_was_under_way_and_leaves_no_task(make_bench: Any) -> None:
    async def hang(call: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    bench = make_bench(agents={"*": hang})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([lambda: ctx.agent("a"), lambda: ctx.step("s", asyncio.Event().wait)])

    bench.workflow = define_workflow("w", body)
    before = asyncio.all_tasks()
    handle = bench.engine.run(bench.workflow, run_id="r1")
    await asyncio.sleep(0.02)
    await handle.cancel("enough")
    outcome = await handle.result()
    assert (outcome.status, outcome.error.message) == ("cancelled", "enough")
    assert outcome is await handle.result()
    assert "agent cancelled par:0:0" in await bench.shape()
    assert "step cancelled par:0:1" in await bench.shape()
    await asyncio.sleep(0)
    left = {task for task in asyncio.all_tasks() - before if task.get_coro().__name__ != "hang"}
    assert left == set()  # the fake detaches a responder that hangs, as a provider would


async def test_a_deadline_cancels_the_run(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("wait", lambda: asyncio.sleep(10))

    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.05)
    outcome = await asyncio.wait_for(bench.run(body, deadline_at=soon), 2)
    assert outcome.status == "cancelled"
    assert "deadline" in outcome.error.message


async def test_closing_the_engine_settles_what_runs() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        await asyncio.sleep(10)

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        handle = engine.run(define_workflow("w", body), run_id="r1")
        await asyncio.sleep(0.01)
    assert (await handle.result()).status == "cancelled"
    meta = await store.load_meta("r1")
    assert meta is not None
    assert meta["status"] == "cancelled"


async def test_events_are_complete_however_late_they_are_read(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        ctx.log("info", "hello", {"n": 1})
        return await ctx.agent("a")

    await bench.run(body)
    seen = [event async for event in bench.handle.events]
    assert [event.seq for event in seen] == list(range(len(seen)))
    assert seen[0].type == "run:start"
    assert seen[-1].type == "run:end"
    assert next(event for event in seen if event.type == "log")["data"] == {"n": 1}


async def test_a_listener_that_throws_does_not_disturb_the_run(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("a")

    handle = bench.engine.run(define_workflow("w", body))
    heard: list[str] = []

    def bad(event: Any) -> None:
        raise RuntimeError("listener")

    handle.on("*", bad)
    stop = handle.on("agent:end", lambda event: heard.append(event.type))
    assert (await handle.result()).status == "ok"
    assert heard == ["agent:end"]
    stop()


async def test_resume_refuses_a_run_that_is_not_there(bench: Any) -> None:
    with pytest.raises(RunNotFoundError, match="nope"):
        await bench.engine.resume("nope", define_workflow("w", gate)).result()


async def test_resume_refuses_another_workflow_and_other_args(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return args

    await bench.run(body, {"n": 1})
    with pytest.raises(ConfigError, match="'w'"):
        await bench.engine.resume("r1", define_workflow("other", body), args={"n": 1}).result()
    with pytest.raises(ConfigError, match="args"):
        await bench.resume(args={"n": 2})
    assert (await bench.resume(args={"n": 1})).value == {"n": 1}


async def test_resume_refuses_a_journal_of_another_version(bench: Any) -> None:
    await bench.run(gate)
    entries = await bench.entries()
    store = InMemoryStore()
    from rulvar.contracts.entries import as_entries

    store.append_now("r1", as_entries([{**entry, "hashVersion": 3} for entry in entries]))
    engine = Engine(journal=store)
    with pytest.raises(JournalCompatibilityError) as caught:
        await engine.resume("r1", bench.workflow).result()
    assert caught.value.data["subCode"] == "HASH_VERSION_TOO_NEW"
    assert caught.value.data["entrySeq"] == 0


async def test_a_run_id_is_used_once(bench: Any) -> None:
    await bench.run(gate)
    with pytest.raises(ConfigError, match="exists already"):
        await bench.run(gate)


@pytest.mark.parametrize("run_id", ["", "a/b", "..", ".", "a b", "ü", "x" * 201, 7])
async def test_an_unsafe_run_id_is_refused(bench: Any, run_id: Any) -> None:
    with pytest.raises(ConfigError, match="run_id"):
        bench.engine.run(define_workflow("w", gate), run_id=run_id)


async def test_args_that_json_cannot_hold_are_refused_at_once(bench: Any) -> None:
    with pytest.raises(NonSerializableValueError) as caught:
        bench.engine.run(define_workflow("w", gate), {"when": {1}})
    assert caught.value.data["path"] == "run of 'w': args.when"


async def test_args_are_checked_before_anything_runs(bench: Any) -> None:
    @workflow(name="w", args={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
    async def body(ctx: Ctx, args: Any) -> Any:
        return args["n"]

    assert (await bench.engine.run(body, {"n": 1}).result()).value == 1
    refused = await bench.engine.run(body, {"n": "x"}, run_id="r2").result()
    assert refused.error is not None
    assert refused.error.code == "config"
    assert "['n']" in refused.error.message
    assert await bench.entries("r2") == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"budget_usd": -1}, "budget_usd"),
        ({"budget_usd": float("nan")}, "budget_usd"),
        ({"budget_usd": "five"}, "budget_usd"),
        ({"deadline_at": "tomorrow"}, "deadline_at"),
        ({"deadline_at": datetime.datetime(2026, 1, 1)}, "deadline_at"),
    ],
)
async def test_run_options_are_checked_at_intake(bench: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        bench.engine.run(define_workflow("w", gate), **options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"budget_defaults": {"max_depth": 5}}, "max_depth"),
        ({"budget_defaults": {"nope": 5}}, "nope"),
        ({"permissions": {"alow": ["x"]}}, "alow"),
        ({"permissions": {"allow": "x"}}, "allow"),
        ({"permissions": {"default": "maybe"}}, "default"),
        ({"profiles": {"a": {"modle": "x"}}}, "modle"),
        ({"adapters": [object()]}, "adapters"),
        ({"retry": {"attempts": 0}}, "attempts"),
    ],
)
def test_engine_options_are_checked_at_construction(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        Engine(**options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"agent_type": "nobody"}, "nobody"),
        ({"model": "no-colon"}, "no-colon"),
        ({"effort": "huge"}, "effort"),
        ({"limits": {"max_turn": 1}}, "max_turn"),
        ({"limits": {"max_turns": 0}}, "max_turns"),
        ({"on_error": "ignore"}, "on_error"),
        ({"result": "all"}, "result"),
        ({"replay": "sometimes"}, "replay"),
        ({"tools": ["unknown"]}, "unknown"),
        ({"schema": {"type": "nope"}}, "schema"),
        ({"role": "boss"}, "boss"),
        ({"label": 7}, "label"),
        ({"fallback": {"on": ["error"]}}, "fallback"),
    ],
)
async def test_agent_options_are_checked_before_any_entry(
    bench: Any, options: dict[str, Any], field: str
) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("a", **options)

    outcome = await bench.run(body)
    assert outcome.error is not None
    assert outcome.error.code == "config"
    assert field in outcome.error.message
    assert [e["kind"] for e in await bench.entries()] in ([], ["decision"])
    assert bench.engine.fake.calls == []


async def test_a_workflow_needs_an_event_loop_and_says_so() -> None:
    def outside() -> None:
        Engine().run(define_workflow("w", gate))

    with pytest.raises(ConfigError, match="event loop"):
        await asyncio.to_thread(outside)


@pytest.mark.parametrize("body", [lambda ctx, args: 1, "not a function", 7])
def test_only_an_async_function_is_a_workflow(body: Any) -> None:
    with pytest.raises(ConfigError):
        define_workflow("w", body)


def test_an_async_generator_is_no_workflow() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        yield 1

    with pytest.raises(ConfigError, match="generator"):
        define_workflow("w", body)


async def test_credentials_in_events_are_masked_and_the_run_sees_them_whole(bench: Any) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 12

    async def work(ctx: Ctx, args: Any) -> Any:
        ctx.log("info", f"token is {secret}", data={"api_key": secret, "note": "fine"})
        return await ctx.step("s", lambda: secret)

    outcome = await bench.run(work)
    assert outcome.value == secret
    texts = [str(event.to_wire()) async for event in bench.handle.events]
    assert not any(secret in text for text in texts)
    assert any("fine" in text for text in texts)


async def test_a_run_that_was_started_without_args_is_not_resumed_with_some(bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return args

    bench.workflow = define_workflow("w", body)
    assert (await bench.engine.run(bench.workflow, run_id="r1").result()).value is None
    with pytest.raises(ConfigError, match="args are not those"):
        await bench.engine.resume("r1", bench.workflow, args={"a": 1}).result()
    assert (await bench.engine.resume("r1", bench.workflow).result()).value is None


async def test_the_end_of_every_segment_tells_the_fingerprint_that_the_run_was_started_with(
    bench: Any,
) -> None:
    bench.workflow = define_workflow("w", gate)
    first = bench.engine.run(bench.workflow, run_id="r1", config_fingerprint="fp-1")
    await first.result()
    second = bench.engine.resume("r1", bench.workflow)
    await second.result()
    for handle in (first, second):
        ended = handle.events_seen()[-1]
        assert ended["envelope"]["configFingerprint"] == "fp-1"
