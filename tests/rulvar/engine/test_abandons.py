"""An abandon entry covers an operation and the scope below it: it is skipped, and its money told apart."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import ResolutionError
from rulvar.testing import create_test_engine, fake_tool_calls, replay_run
from rulvar.tools.tool import tool


def abandon(seq: int, target: int) -> JournalEntry:
    wire = {"hashVersion": 2, "seq": seq, "ref": target, "scope": "", "key": "", "ordinal": 0}
    wire |= {"kind": "abandon", "status": "ok", "spanId": "s0", "startedAt": "2026-01-01T00:00:00.000Z"}
    return decode_entry(encode_json({**wire, "abandon": {"target": target}}))


async def abandon_first(engine: Any, kind: str, label: int = 0) -> None:
    entries = await engine.store.load("r")
    begun = [entry.seq for entry in entries if entry.kind == kind and entry.ref is None]
    await engine.store.append("r", [abandon(entries[-1].seq + 1, begun[label])])


@workflow(name="kid")
async def kid(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("in the child")


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    stepped = await ctx.step("step", lambda: 3)
    child = await ctx.workflow(kid, {})
    plain = await ctx.agent("plain", on_error="null")
    full = await ctx.agent("full", result="full")
    return [stepped, child, plain, [full.status, full.output, full.error]]


PRICE = {"fake:fake-model": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}
WHOLE = [3, "eight ch", "eight ch", ["ok", "eight ch", None]]


@pytest.mark.parametrize(
    ("kind", "number", "place", "value", "abandoned"),
    [
        ("step", 0, 0, None, 0),
        ("child", 0, 1, None, 2),
        ("agent", 1, 2, None, 2),
        ("agent", 2, 3, ["skipped", None, None], 2),
    ],
)
async def test_an_abandoned_call_is_skipped_and_its_money_is_told_apart(
    kind: str, number: int, place: int, value: Any, abandoned: float
) -> None:
    engine = create_test_engine(
        agents={"*": "eight ch"}, pricing=PRICE, budget_defaults={"flat_reserve_usd": 0}
    )
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).value == WHOLE
        await abandon_first(engine, kind, number)
        resumed = engine.resume("r", flow)
        outcome = await resumed.result()
        assert outcome.value == [*WHOLE[:place], value, *WHOLE[place + 1 :]]
        assert (outcome.cost.total_usd, outcome.cost.gross_usd) == (6 - abandoned, 6)
        assert outcome.cost.abandoned_usd == abandoned
        assert sum(outcome.cost.by_scope.values()) == outcome.cost.total_usd
        assert (await resumed.preview()).skipped == 1
        assert (await resumed.preview()).orphaned == ()
        replayed = await replay_run(flow, journal=(engine.store, "r"))
        assert replayed.outcome.value == outcome.value


async def test_what_was_abandoned_still_counts_against_the_ceiling() -> None:
    @workflow(name="two")
    async def two(ctx: Ctx, args: Any) -> Any:
        return [await ctx.agent("one"), await ctx.agent("two"), ctx.budget.spent().usd]

    engine = create_test_engine(
        agents={"*": "eight ch"}, pricing=PRICE, budget_defaults={"flat_reserve_usd": 0}
    )
    async with engine:
        assert (await engine.run(two, run_id="r", budget_usd=5).result()).value[2] == 4
        await abandon_first(engine, "agent")
        assert (await engine.resume("r", two).result()).value == [None, "eight ch", 4]


async def test_an_abandoned_wait_is_waited_for_no_more() -> None:
    @workflow(name="gated")
    async def gated(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("gate")

    engine = create_test_engine(agents={})
    async with engine:
        handle = engine.run(gated, run_id="r")
        assert (await handle.result()).status == "suspended"
        await abandon_first(engine, "external")
        with pytest.raises(ResolutionError, match="open waits: none"):
            await handle.resolve_external("gate", 1)
        outcome = await engine.resume("r", gated).result()
        assert (outcome.status, outcome.value, outcome.pending) == ("ok", None, ())


async def test_the_approval_of_an_abandoned_agent_can_no_more_be_given() -> None:
    @tool(needs_approval=True)
    def danger() -> str:
        """Delete everything."""
        return "deleted"

    @workflow(name="deleting")
    async def deleting(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("delete", tools=[danger])

    engine = create_test_engine(agents={"*": lambda call: fake_tool_calls(name="danger", args={})})
    async with engine:
        handle = engine.run(deleting, run_id="r")
        waiting = (await handle.result()).pending[0].key
        await abandon_first(engine, "agent")
        with pytest.raises(ResolutionError, match="open waits: none"):
            await handle.resolve_external(waiting, {"decision": "allow"})
        assert (await engine.resume("r", deleting).result()).value is None
