"""The meta row of a run: what is read of a row that somebody else wrote."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.engine.run_meta import segments_of
from rulvar.errors import ConfigError
from rulvar.kernel.matching import JournalIndex
from rulvar.testing import create_test_engine


@pytest.mark.parametrize(
    ("recorded", "segments"),
    [(3, 3), (2.0, 2), (2.9, 2), (0, 1), (-4, 1), (0.5, 1), (True, 1), ("3", 1), (None, 1), (1e300, 1)],
)
def test_a_row_that_does_not_count_segments_counts_as_one(recorded: Any, segments: int) -> None:
    assert segments_of({"segments": recorded}) == segments
    assert segments_of({}) == 1


def test_a_settlement_in_a_status_that_nobody_knows_is_none() -> None:
    def settled(*statuses: Any) -> str | None:
        wires = [
            {"hashVersion": 2, "seq": seq, "scope": "", "key": "k", "ordinal": seq, "kind": "decision"}
            | {"status": "ok", "spanId": "s0", "value": {"decisionType": "run_settle", "runStatus": status}}
            for seq, status in enumerate(statuses)
        ]
        return JournalIndex([decode_entry(encode_json(wire)) for wire in wires]).settled

    assert settled() is None
    assert settled("suspended", "ok") == "ok"
    assert settled("suspended", "fine") == "suspended"
    assert settled(None, ["ok"], 1) is None


async def test_a_run_that_settles_as_it_had_before_is_not_settled_again() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("gate")

    engine = create_test_engine(agents={})
    async with engine:
        assert (await engine.run(flow, run_id="r").result()).status == "suspended"
        entries = await engine.store.load("r")
        later = {
            **entries[0].to_wire(),
            "seq": entries[-1].seq + 1,
            "kind": "note",
            "status": "ok",
            "key": "n",
        }
        engine.store.append_now("r", [decode_entry(encode_json(later))])
        assert (await engine.resume("r", flow).result()).status == "suspended"
        assert len(await engine.store.load("r")) == len(entries) + 1


async def test_a_ceiling_that_a_resume_sets_is_the_runs_from_then_on() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return ctx.budget.remaining().usd

    engine = create_test_engine(agents={})
    async with engine:
        assert (await engine.run(flow, run_id="r", budget_usd=5).result()).value == 5
        assert (await engine.resume("r", flow, budget_usd=7).result()).value == 7
        meta = await engine.store.load_meta("r")
        assert meta is not None
        assert meta["budgetUsd"] == 7
        assert (await engine.resume("r", flow).result()).value == 7
        value = next(e.value for e in await engine.store.load("r") if b"run_budget_override" in e.line)
        assert value == {
            "decisionType": "run_budget_override",
            "source": "resume-options",
            "segment": 2,
            "budgetUsd": {"recorded": 5, "applied": 7},
            "settledSpendUsd": 0,
        }


@pytest.mark.parametrize("told", [{"recorded": None, "applied": 3}, 3])
async def test_a_journaled_ceiling_holds_in_either_form(told: Any) -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return ctx.budget.remaining().usd

    engine = create_test_engine(agents={})
    async with engine:
        wire = {"hashVersion": 2, "seq": 0, "scope": "", "key": "k", "ordinal": 0, "kind": "decision"}
        wire |= {"status": "ok", "spanId": "s0", "startedAt": "2026-01-01T00:00:00.000Z"}
        value = {"decisionType": "run_budget_override", "segment": 2, "budgetUsd": told}
        engine.store.append_now("r", [decode_entry(encode_json({**wire, "value": value}))])
        assert (await engine.resume("r", flow).result()).value == 3


@pytest.mark.parametrize("dry", [False, True])
async def test_a_ceiling_below_what_was_spent_is_refused_before_anything_is_written(dry: bool) -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("p")

    price = {"fake:fake-model": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}
    engine = create_test_engine(agents={"*": "eight ch"}, pricing=price)
    async with engine:
        assert (await engine.run(flow, run_id="r", budget_usd=5).result()).cost.total_usd == 2
        before = await engine.store.load_meta("r"), len(await engine.store.load("r"))
        with pytest.raises(ConfigError, match=r"budget_usd=1.5 is below the 2\.0000 USD"):
            await engine.resume("r", flow, budget_usd=1.5, dry_run=dry).result()
        assert (await engine.store.load_meta("r"), len(await engine.store.load("r"))) == before
        assert (await engine.resume("r", flow, budget_usd=2).result()).value == "eight ch"


async def test_a_resume_makes_up_nothing_about_how_a_run_was_started() -> None:
    @workflow(name="flow")
    async def flow(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: 1)

    engine = create_test_engine(agents={})
    async with engine:
        await engine.run(flow, {"a": 1}, run_id="r").result()
        engine.store.append_now("bare", await engine.store.load("r"))
        await engine.resume("bare", flow, args={"b": 2}).result()
        meta = await engine.store.load_meta("bare")
        assert meta is not None
        assert meta.keys() == {"runId", "status", "segments", "updatedAt", "workflowName", "workflowHash"}
        assert (meta["workflowName"], meta["status"], meta["segments"]) == ("flow", "ok", 2)
