"""The ceiling of a run over its life: kept by every resume, and changed by one that says so."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import decode_entry
from rulvar.errors import ConfigError
from rulvar.testing import FAKE_MODEL_REF, create_test_engine

PAID = {FAKE_MODEL_REF: {"inputUsdPerMTok": 0, "outputUsdPerMTok": 1e6}}


@workflow(name="flow")
async def flow(ctx: Ctx, args: Any) -> Any:
    return [await ctx.agent(f"call {n}") for n in range(3)]  # 2 USD each


def engine_of() -> Any:
    return create_test_engine(agents={"*": "eight ch"}, pricing=PAID, budget_defaults={"flat_reserve_usd": 0})


async def overrides(engine: Any) -> list[Any]:
    entries = await engine.store.load("r")
    values = [e.value for e in entries if e.kind == "decision" and isinstance(e.value, dict)]
    return [value for value in values if value["decisionType"] == "run_budget_override"]


async def test_another_ceiling_is_journaled_with_the_one_before_and_stays() -> None:
    async with engine_of() as engine:
        await engine.run(flow, run_id="r", budget_usd=2).result()
        assert (await engine.resume("r", flow, budget_usd=4).result()).cost.total_usd == 4
        assert await overrides(engine) == [
            {
                "decisionType": "run_budget_override",
                "source": "resume-options",
                "segment": 2,
                "budgetUsd": {"recorded": 2, "applied": 4},
                "settledSpendUsd": 2,
            }
        ]
        assert (await engine.store.load_meta("r"))["budgetUsd"] == 4
        again = await engine.resume("r", flow).result()
        assert (again.status, again.error.data["ceilingUsd"]) == ("exhausted", 4)
        assert (await engine.resume("r", flow, budget_usd=20).result()).status == "ok"


async def test_a_run_without_a_ceiling_may_be_given_one() -> None:
    async with engine_of() as engine:
        await engine.run(flow, run_id="r").result()
        await engine.resume("r", flow, budget_usd=9).result()
        assert [value["budgetUsd"] for value in await overrides(engine)] == [{"recorded": None, "applied": 9}]


async def test_a_ceiling_below_what_was_spent_is_refused_and_leaves_no_trace() -> None:
    async with engine_of() as engine:
        await engine.run(flow, run_id="r", budget_usd=4).result()
        before = await engine.store.load("r"), await engine.store.load_meta("r")
        with pytest.raises(ConfigError, match=r"is below the 4\.0000 USD") as refused:
            await engine.resume("r", flow, budget_usd=3).result()
        assert refused.value.data["field"] == "budget_usd"
        assert (await engine.store.load("r"), await engine.store.load_meta("r")) == before


async def test_a_ceiling_for_life_is_not_changed() -> None:
    async with engine_of() as engine:
        await engine.run(flow, run_id="r", budget_usd=4).result()
        meta = await engine.store.load_meta("r")
        await engine.store.save_meta("r", {**meta, "budgetPolicy": "immutable-lifetime"})
        with pytest.raises(ConfigError, match="for life"):
            await engine.resume("r", flow, budget_usd=20).result()
        assert (await engine.resume("r", flow).result()).status == "exhausted"


@pytest.mark.parametrize("told", [4, {"recorded": None, "applied": 4}, {"recorded": 9}, None])
async def test_the_last_override_that_names_a_ceiling_holds(told: Any) -> None:
    value: dict[str, Any] = {"decisionType": "run_budget_override", "segment": 2}
    wire = {"hashVersion": 2, "seq": 0, "scope": "", "key": "k", "ordinal": 0, "kind": "decision"}
    wire |= {"status": "ok", "spanId": "s0", "startedAt": "2026-01-01T00:00:00.000Z"}
    wire["value"] = value if told is None else {**value, "budgetUsd": told}
    async with engine_of() as engine:
        await engine.store.append("r", [decode_entry(encode_json(wire))])
        meta = {"runId": "r", "status": "running", "segments": 2, "budgetUsd": 2}
        await engine.store.save_meta("r", meta)
        outcome = await engine.resume("r", flow).result()
    named = told == 4 or (isinstance(told, dict) and "applied" in told)
    assert outcome.error.data["ceilingUsd"] == (4 if named else 2)
