"""``replay=`` of an agent call: what is asked anew leaves what others are served alone."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.contracts.entries import as_entries
from rulvar.errors import JournalMissError
from rulvar.testing import create_test_engine, replay_run


def counting_engine() -> Any:
    answers = iter(range(1, 100))
    return create_test_engine(agents={"*": lambda call: str(next(answers))})


@pytest.mark.parametrize("other", ["auto", "cache"])
async def test_a_call_that_always_asks_leaves_the_next_one_like_it_its_own_answer(other: Any) -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [
            await ctx.agent("p"),
            await ctx.agent("p", replay="never"),
            await ctx.agent("p", replay=other),
        ]

    engine = counting_engine()
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == ["1", "2", "3"]
        for answer in ("4", "5"):
            resumed = engine.resume("r", flow)
            assert (await resumed.result()).value == ["1", answer, "3"]
            preview = await resumed.preview()
            assert (preview.hits, preview.misses, preview.reruns) == (2, 1, 0)


async def test_a_strict_replay_says_that_a_call_always_asks() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("p", replay="never"), await ctx.agent("p")]

    engine = counting_engine()
    async with engine:
        await engine.run(flow, run_id="r").result()
        with pytest.raises(JournalMissError, match="replay='never'"):
            await replay_run(flow, journal=await engine.store.load("r"))


async def test_an_escalated_call_is_served_with_what_it_says() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        result = await ctx.agent("p", result="full")
        return [result.status, result.output]

    engine = counting_engine()
    async with engine:
        await engine.run(flow, run_id="r").result()
    wires = [entry.to_wire() for entry in await engine.store.load("r")]
    for wire in wires:
        if wire["kind"] == "agent" and wire["status"] == "ok":
            wire["status"] = "escalated"
    replayed = await replay_run(flow, journal=as_entries(wires))
    assert replayed.outcome.value == ["escalated", "1"]
    assert (replayed.preview.hits, replayed.preview.misses) == (1, 0)


async def test_a_call_that_always_asks_may_be_inserted_before_one_like_it() -> None:
    inserted = False

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        first = [await ctx.agent("p", replay="never")] if inserted else []
        return [*first, await ctx.agent("p")]

    engine = counting_engine()
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == ["1"]
        inserted = True
        for answer in ("2", "3"):
            resumed = engine.resume("r", flow)
            assert (await resumed.result()).value == [answer, "1"]
            preview = await resumed.preview()
            assert (preview.hits, preview.misses, preview.reruns) == (1, 1, 0)


async def test_a_call_inserted_behind_one_that_always_asks_keeps_its_own_answer() -> None:
    inserted = False

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        first = [await ctx.agent("p", replay="never")]
        return [*first, await ctx.agent("p")] if inserted else first

    engine = counting_engine()
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == ["1"]
        inserted = True
        assert (await engine.resume("r", flow).result()).value == ["2", "3"]
        assert (await engine.resume("r", flow).result()).value == ["4", "3"]


async def test_a_call_that_no_longer_always_asks_is_served_what_it_was_told_first() -> None:
    mode: Any = "never"

    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p", replay=mode)

    engine = counting_engine()
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == "1"
        assert (await engine.resume("r", flow).result()).value == "2"
        mode = "auto"
        assert (await engine.resume("r", flow).result()).value == "1"


async def test_a_journal_that_does_not_say_which_call_always_asked_is_read_as_the_original_reads_it() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("p", replay="never"), await ctx.agent("p")]

    recorded, engine = counting_engine(), counting_engine()
    async with recorded:
        await recorded.run(flow, run_id="r").result()
        wires = [entry.to_wire() for entry in await recorded.store.load("r")]
        meta = await recorded.store.load_meta("r")
    assert [wire["spanId"][-1] for wire in wires if wire["kind"] == "agent"].count("+") == 2
    for wire in wires:
        wire["spanId"] = wire["spanId"].removesuffix("+")
    async with engine:
        await engine.store.append("r", as_entries(wires))
        await engine.store.save_meta("r", meta)
        assert (await engine.resume("r", flow).result()).value == ["1", "1"]
