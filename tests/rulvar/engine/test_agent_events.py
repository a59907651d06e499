"""What listeners are told of an agent call, live and on a replay."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar import Ctx, tool, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.testing import FAKE_MODEL_REF, create_test_engine, fake_tool_calls, fake_wire_error

TIERED = {
    "inputUsdPerMTok": 0,
    "outputUsdPerMTok": 1e6,
    "tiers": [{"aboveInputTokens": 20, "inputMultiplier": 1, "outputMultiplier": 10}],
}


@tool
def look() -> str:
    """Look around."""
    raise ValueError("nothing to see")


def answer(call: Any) -> Any:
    if call.req.messages[-1].role == "tool":
        return "eight ch"
    return fake_tool_calls({"name": "look", "args": {}})


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("x" * 60, label="scout", tools=[look])


async def wires(engine: Any) -> list[dict[str, Any]]:
    return [entry.to_wire() for entry in await engine.store.load("r")]


def of(events: list[Any], *types: str) -> list[dict[str, Any]]:
    return [dict(event) for event in events if event["type"] in types]


async def test_a_label_is_told_with_every_event_of_its_call() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(flow, run_id="r")
        await handle.result()
        live = [event async for event in handle.events]
        again = engine.resume("r", flow)
        await again.result()
        replayed = [event async for event in again.events]
    types = ("agent:start", "agent:phase:start", "agent:phase:end", "agent:end")
    for events in (live, replayed):
        assert [(event["type"], event["label"]) for event in of(events, *types)] == [
            (type_, "scout") for type_ in types
        ]


async def test_a_replay_tells_the_tool_calls_of_the_recorded_turns() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(flow, run_id="r")
        await handle.result()
        live = of([event async for event in handle.events], "tool:start", "tool:end")
        again = engine.resume("r", flow)
        await again.result()
        replayed = of([event async for event in again.events], "tool:start", "tool:end")
    assert [event["type"] for event in replayed] == ["tool:start", "tool:end"]
    assert all(event["replayed"] for event in replayed)
    assert replayed[0]["toolCallId"] == live[0]["toolCallId"]
    assert (replayed[1]["toolName"], replayed[1]["outcome"], replayed[1]["durationMs"]) == (
        "look",
        "error",
        0,
    )


async def test_a_tier_is_applied_per_exchange_in_events_reports_and_replays() -> None:
    engine = create_test_engine(agents={"*": answer}, pricing={FAKE_MODEL_REF: TIERED})
    async with engine:
        handle = engine.run(flow, run_id="r")
        outcome = await handle.result()
        live = of([event async for event in handle.events], "agent:end", "agent:phase:end")
        again = engine.resume("r", flow)
        replay = await again.result()
        replayed = of([event async for event in again.events], "agent:end", "agent:phase:end")
    assert outcome.usage.input_tokens > 20
    assert outcome.cost.total_usd == outcome.usage.output_tokens
    assert replay.cost == outcome.cost
    told = [(event["costUsd"], event["costBasis"]) for event in (*live, *replayed)]
    assert set(told) == {(outcome.cost.total_usd, "per-call")}


async def test_a_call_without_records_is_told_to_be_an_estimate() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        await engine.run(flow, run_id="r").result()
        entries = await engine.store.load("r")
        old = []
        for entry in entries:
            wire = entry.to_wire()
            wire.pop("providerCalls", None)
            wire.pop("checkpointRef", None)
            old.append(decode_entry(encode_json(wire)))
        await engine.store.append("old", old)
        await engine.store.save_meta("old", {**(await engine.store.load_meta("r") or {}), "runId": "old"})
        handle = engine.resume("old", flow)
        await handle.result()
        events = [event async for event in handle.events]
    bases = [event["costBasis"] for event in of(events, "agent:end", "agent:phase:end")]
    assert bases == ["aggregate-estimate"] * 2
    assert of(events, "tool:start") == []


async def test_a_phase_that_met_a_limit_did_its_work() -> None:
    @workflow(name="limited")
    async def limited(ctx: Ctx, args: Any) -> Any:
        done = await ctx.agent("x", tools=[look], limits={"max_turns": 1}, result="full")
        return done.status

    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(limited)
        assert (await handle.result()).value == "limit"
        (phase,) = of([event async for event in handle.events], "agent:phase:end")
    assert phase["outcome"] == "ok"


async def test_a_call_that_streams_tells_its_text_as_it_comes() -> None:
    @workflow(name="w")
    async def streaming(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("hi", stream=True)

    async with create_test_engine(agents={"*": "eight ch"}) as engine:
        handle = engine.run(streaming)
        await handle.result()
        told = of([event async for event in handle.events], "agent:stream")
    assert "".join(event["delta"] for event in told) == "eight ch"


async def test_a_failed_exchange_and_a_call_that_waits_for_its_turn_name_their_call() -> None:
    async def broken(call: Any) -> Any:
        await asyncio.sleep(0.01)
        return fake_wire_error({"code": "agent", "message": "broken", "retryable": False})

    @workflow(name="w")
    async def two(ctx: Ctx, args: Any) -> Any:
        calls = [lambda n=n: ctx.agent("x", label=f"call {n}", key=f"{n}", on_error="null") for n in range(2)]
        return await ctx.parallel(calls)

    async with create_test_engine(agents={"*": broken}, concurrency=1) as engine:
        handle = engine.run(two)
        await handle.result()
        events = [event async for event in handle.events]
    assert [event["label"] for event in of(events, "agent:error")] == ["call 0", "call 1"]
    assert [event["label"] for event in of(events, "agent:queued")] == ["call 1"]


async def test_the_state_of_a_call_may_begin_with_a_byte_that_names_its_format() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        await engine.run(flow, run_id="r").result()
        (ref,) = [wire["checkpointRef"] for wire in await wires(engine) if "checkpointRef" in wire]
        data = await engine.transcripts.get(ref)
        await engine.transcripts.put(ref, b"\x01" + data.removeprefix(b"\x01"))
        handle = engine.resume("r", flow)
        await handle.result()
        told = of([event async for event in handle.events], "tool:end")
    assert [event["toolName"] for event in told] == ["look"]
