"""What a resume serves is what the live run gave: texts of failures, versions of identities, places of answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic
import pytest

from rulvar import Ctx, Engine, tool, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.errors import AgentCallError, JournalMissError
from rulvar.stores import InMemoryStore
from rulvar.testing import create_test_engine, fake_tool_calls, replay_run


@tool
def look() -> str:
    """Look again."""
    return "nothing"


def looking(call: Any) -> Any:
    return fake_tool_calls(name="look", args={}) if call.prompt == "loop" else "ok"


LIMITED: dict[str, Any] = {"tools": [look], "limits": {"max_turns": 2}}


async def test_a_limit_that_goes_into_a_prompt_replays_without_asking_again() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.agent("loop", **LIMITED)
        except AgentCallError as error:
            return await ctx.agent(f"it failed: {error}")

    engine = create_test_engine(agents={"*": looking})
    async with engine:
        first = await engine.run(flow, run_id="r").result()
        assert first.value == "ok"
        calls = len(engine.fake.calls)
        assert (await engine.resume("r", flow).result()).value == "ok"
        assert len(engine.fake.calls) == calls
        assert (await replay_run(flow, journal=(engine.store, "r"))).outcome.value == "ok"


async def test_the_exception_of_a_limit_notes_which_one_it_was() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        try:
            await ctx.agent("loop", **LIMITED)
        except AgentCallError as error:
            return [str(error), error.__notes__]

    engine = create_test_engine(agents={"*": looking})
    async with engine:
        text, notes = (await engine.run(flow).result()).value
    assert text == "the agent reached a limit after 2 model turns"
    assert notes == ["the agent reached its limit max_turns=2"]


async def test_a_limit_is_dropped_by_a_pipeline_as_the_failure_of_an_agent() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        async def stage(item: str) -> Any:
            return await ctx.agent(item, **LIMITED)

        return await ctx.pipeline(["loop", "other"], stage)

    engine = create_test_engine(agents={"*": looking})
    async with engine:
        live = await engine.run(flow, run_id="r").result()
        replayed = (await replay_run(flow, journal=(engine.store, "r"))).outcome
    assert live.value == replayed.value == ["ok"]
    (dropped,) = live.dropped
    assert dropped.error.code == "agent"
    assert dropped.error.data == {"kind": "terminal"}
    assert live.dropped == replayed.dropped


async def test_ordinals_are_counted_within_a_hash_version() -> None:
    def flow_of(times: int) -> Any:
        @workflow(name="flow")
        async def flow(ctx: Ctx, args: Any) -> Any:
            return [await ctx.step("same", lambda: 1) for _ in range(times)]

        return flow

    async with Engine() as engine:
        await engine.run(flow_of(2), run_id="r").result()
        old = [{**entry.to_wire(), "hashVersion": 1} for entry in await engine.store.load("r")]
    store = InMemoryStore()
    store.append_now("r", [decode_entry(encode_json(wire)) for wire in old])
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", flow_of(4))
        assert (await handle.result()).value == [1, 1, 1, 1]
        assert ((await handle.preview()).hits, (await handle.preview()).misses) == (2, 2)
        entries = await store.load("r")
        added = [e.ordinal for e in entries[len(old) :] if e.kind == "step" and e.ref is None]
        assert added == [0, 1]
        assert (await engine.resume("r", flow_of(4)).result()).value == [1, 1, 1, 1]
        assert len(await store.load("r")) == len(entries)


async def test_an_answer_goes_to_the_wait_that_the_run_stands_at() -> None:
    @workflow(name="flow")
    async def before(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("gate")

    @workflow(name="flow")
    async def edited(ctx: Ctx, args: Any) -> Any:
        async def branch() -> Any:
            return await ctx.await_external("gate")

        return await ctx.parallel([branch])

    async with Engine() as engine:
        await engine.run(before, run_id="r").result()
        handle = engine.resume("r", edited)
        assert (await handle.result()).status == "suspended"
        assert (await handle.preview()).orphaned == (0,)
        await handle.resolve_external("gate", 1)
        assert (await engine.resume("r", edited).result()).value == [1]


async def test_a_recorded_answer_that_fits_an_edited_schema_no_more_is_named() -> None:
    class Answer(pydantic.BaseModel):
        n: int

    @workflow(name="flow")
    async def before(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("gate")

    @workflow(name="flow")
    async def edited(ctx: Ctx, args: Any) -> Any:
        return (await ctx.await_external("gate", schema=Answer)).n

    async with Engine() as engine:
        handle = engine.run(before, run_id="r")
        await handle.result()
        await handle.resolve_external("gate", "text")
        resumed = engine.resume("r", edited)
        outcome = await resumed.result()
        assert outcome.error is not None
        assert outcome.error.code == "config"
        assert (
            "ctx.await_external('gate'): the recorded answer (entry 2) does not fit" in outcome.error.message
        )
        assert (await resumed.preview()).invalid_resolutions == (2,)


@pytest.mark.parametrize("budget", [None, 5.0])
async def test_a_suspended_agent_is_reported_when_it_has_ended(budget: float | None) -> None:
    @tool(needs_approval=True)
    def danger() -> str:
        """Delete everything."""
        return "deleted"

    def answer(call: Any) -> Any:
        asked = any(message.role == "tool" for message in call.req.messages)
        return "done" if asked else fake_tool_calls(name="danger", args={})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("delete", tools=[danger]), ctx.budget.spent().usd]

    engine = create_test_engine(
        agents={"*": answer},
        pricing={"fake:fake-model": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e5}},
        budget_defaults={"flat_reserve_usd": 0},
    )
    async with engine:
        handle = engine.run(flow, run_id="r", budget_usd=budget)
        waiting = await handle.result()
        assert waiting.status == "suspended"
        assert (waiting.cost.total_usd, waiting.usage.output_tokens, waiting.cost.wire_requests) == (0, 0, 0)
        replayed = (await replay_run(flow, journal=(engine.store, "r"))).outcome
        assert replayed.cost == waiting.cost
        await handle.resolve_external(waiting.pending[0].key, {"decision": "allow"})
        ended = await engine.resume("r", flow).result()
        assert ended.value == ["done", pytest.approx(0.9)]
        assert ended.cost.total_usd == sum(ended.cost.by_scope.values()) == pytest.approx(0.9)
        assert ended.usage.output_tokens == 9


async def test_a_journal_with_open_waits_of_every_kind_replays_to_where_it_waits() -> None:
    @tool(needs_approval=True)
    def danger(path: str) -> str:
        """Delete a path."""
        return "deleted"

    def answer(call: Any) -> Any:
        if call.prompt != "delete" or any(message.role == "tool" for message in call.req.messages):
            return "done"
        calls = [{"name": "danger", "args": {"path": path}} for path in ("/x", "/y")]
        return fake_tool_calls(*calls)

    @workflow(name="kid")
    async def kid(ctx: Ctx, args: Any) -> Any:
        counted = await ctx.step("count", lambda: 1)
        return [counted, await ctx.agent("delete", tools=[danger]), await ctx.await_external("inner")]

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel(
            [
                lambda: ctx.workflow(kid, {"n": 1}),
                lambda: ctx.call_tool(danger, {"path": "/z"}),
                lambda: ctx.await_external("outer"),
                lambda: ctx.agent("plain"),
            ]
        )

    engine = create_test_engine(agents={"*": answer})
    async with engine:
        handle = engine.run(flow, run_id="r")
        outcome = await handle.result()
        for _ in range(5):
            assert outcome.status == "suspended"
            before = [entry.line for entry in await engine.store.load("r")]
            calls = len(engine.fake.calls)
            dry = engine.resume("r", flow, dry_run=True)
            assert (await dry.result()).pending == outcome.pending
            for preview in (
                await dry.preview(),
                (await replay_run(flow, journal=(engine.store, "r"))).preview,
            ):
                assert (preview.misses, preview.orphaned) == (0, ())
            assert len(engine.fake.calls) == calls
            assert [entry.line for entry in await engine.store.load("r")] == before
            waiting = outcome.pending[0].key
            await handle.resolve_external(
                waiting, {"decision": "allow"} if waiting.startswith("approval") else waiting
            )
            handle = engine.resume("r", flow)
            outcome = await handle.result()
        assert outcome.value == [[1, "done", "inner"], "deleted", "outer", "done"]
        replayed = await replay_run(flow, journal=(engine.store, "r"))
        assert (replayed.outcome.value, replayed.preview.reruns) == (outcome.value, 0)


async def test_a_child_that_was_answered_and_not_resumed_is_a_miss_of_a_strict_replay() -> None:
    @workflow(name="kid")
    async def kid(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("inner")

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(kid)

    async with Engine() as engine:
        handle = engine.run(flow, run_id="r")
        await handle.result()
        await handle.resolve_external("inner", 1)
        with pytest.raises(JournalMissError):
            await replay_run(flow, journal=(engine.store, "r"))
        assert (await engine.resume("r", flow).result()).value == 1


async def test_a_fallback_that_the_journal_holds_is_journaled_once() -> None:
    def answer(call: Any) -> Any:
        return "fine" if call.req.model == "backup" else fake_tool_calls(name="look", args={})

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        fallback = {"model": "fake:backup", "on": ["limit"]}
        return await ctx.agent("loop", **LIMITED, memoize_outcome=True, fallback=fallback)

    engine = create_test_engine(agents={"*": answer})
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == "fine"
        entries = await engine.store.load("r")
        for dry_run in (True, False):
            handle = engine.resume("r", flow, dry_run=dry_run)
            assert (await handle.result()).value == "fine"
            assert (await handle.preview()).hits == 2
            assert [e.line for e in await engine.store.load("r")] == [e.line for e in entries]
        decided = next(e.seq for e in entries if e.kind == "decision" and "model.fallback" in str(e.value))
        for length in (decided, decided + 1):  # a crash before, and after the decision
            await engine.store.append(f"cut-{length}", entries[:length])
            outcome = await engine.resume(f"cut-{length}", flow).result()
            assert outcome.value == "fine"
            ends = await engine.store.load(f"cut-{length}")
            assert [e.kind for e in ends].count("decision") == [e.kind for e in entries].count("decision")


async def test_a_dry_run_that_is_answered_while_it_moves_writes_nothing() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        async def busy() -> None:
            await asyncio.sleep(0.05)

        return await ctx.parallel([lambda: ctx.await_external("gate"), busy])

    async with Engine() as engine:
        await engine.run(flow, run_id="r").result()
        before = [entry.line for entry in await engine.store.load("r")]
        dry = engine.resume("r", flow, dry_run=True)
        await asyncio.sleep(0.01)
        with pytest.raises(JournalMissError, match="writes nothing"):
            await dry.resolve_external("gate", 1)
        assert (await dry.result()).status == "suspended"
        assert [entry.line for entry in await engine.store.load("r")] == before


async def test_a_call_of_version_1_that_dangled_ends_in_version_1() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [await ctx.step("one", lambda: 1), await ctx.step("two", lambda: 2)]

    async with Engine() as engine:
        await engine.run(flow, run_id="r").result()
        (begun, *_) = await engine.store.load("r")
    store = InMemoryStore()
    store.append_now("r", [decode_entry(encode_json({**begun.to_wire(), "hashVersion": 1}))])
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", flow)
        assert (await handle.result()).value == [1, 2]
        assert ((await handle.preview()).reruns, (await handle.preview()).misses) == (1, 1)
    _, ended, other, *_ = await store.load("r")
    assert (ended.ref, ended.hash_version, ended.to_wire()["hashVersion"]) == (begun.seq, 1, 1)
    assert (other.hash_version, next(iter(other.to_wire()))) == (2, "hashVersion")
