"""The meta row of a run: what is read of a row that somebody else wrote."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.engine.run_meta import segments_of
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
