"""A call that failed may be made once more with another model."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def served(on: list[str], *, fails: str) -> Any:
    """Return the engine and the workflow of a call whose first model fails."""

    def model(call: Any) -> Any:
        if call.req.model == "backup":
            return {"n": 1}
        if fails == "error":
            raise RuntimeError("down")
        return {"n": "none"}

    engine = create_test_engine(agents={"*": model})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", schema=SCHEMA, fallback={"model": "fake:backup", "on": on})

    return engine, define_workflow("w", body)


@pytest.mark.parametrize("fails", ["error", "schema-exhausted"])
@pytest.mark.parametrize("on", ["error", "schema-exhausted", "limit"])
async def test_an_answer_that_never_fits_and_an_error_are_two_reasons(on: str, fails: str) -> None:
    engine, flow = served([on], fails=fails)
    async with engine:
        outcome = await engine.run(flow, run_id="r").result()
        decisions = [
            entry.value
            for entry in await engine.store.load("r")
            if entry.kind == "decision" and entry.value["decisionType"] == "model.fallback"
        ]
    if on == fails:
        assert outcome.value == {"n": 1}
        assert [decision["trigger"] for decision in decisions] == [fails]
    else:
        assert outcome.status == "error"
        assert decisions == []


async def test_a_fallback_leaves_the_calls_own_routing_behind() -> None:
    def model(call: Any) -> Any:
        if call.req.model != "backup":
            raise RuntimeError("down")
        return "ok"

    engine = create_test_engine(agents={"*": model})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent(
            "go", routing={"loop": "fake:routed"}, fallback={"model": "fake:backup", "on": ["error"]}
        )

    async with engine:
        assert (await engine.run(define_workflow("w", body)).result()).value == "ok"
    assert [call.req.model for call in engine.fake.calls] == ["routed", "backup"]


async def test_a_reason_that_there_is_not_is_named() -> None:
    engine, flow = served(["weather"], fails="error")
    async with engine:
        outcome = await engine.run(flow).result()
    assert outcome.error is not None
    assert outcome.error.code == ConfigError.code
    assert "fallback.on" in outcome.error.message
