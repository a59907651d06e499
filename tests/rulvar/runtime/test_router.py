"""Each of model, effort and provider options comes from the nearest place that says it."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, define_workflow
from rulvar.testing import create_test_engine

OPTIONS = {"model": "fake:chosen", "effort": "max", "provider_options": {"fake": {"seed": 1, "top_k": 3}}}


async def asked(
    call: dict[str, Any],
    *,
    profile: dict[str, Any] | None = None,
    workflow: dict[str, Any] | None = None,
    routing: dict[str, Any] | None = None,
    caps: dict[str, Any] | None = None,
) -> Any:
    """Return the one request that a call comes to."""
    engine = create_test_engine(
        agents={"*": "ok"}, profiles={"p": profile or {}}, routing=routing, caps_overrides=caps
    )

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", agent_type="p", **call)

    async with engine:
        outcome = await engine.run(define_workflow("w", body, **(workflow or {}))).result()
    assert outcome.status == "ok", outcome.error
    [request] = [made.req for made in engine.fake.calls]
    return request


async def test_the_route_of_a_role_wins_over_the_model_of_the_same_place() -> None:
    assert (await asked({"model": "fake:all", "routing": {"loop": "fake:routed"}})).model == "routed"
    assert (await asked({}, profile={"model": "fake:all", "routing": {"loop": "fake:routed"}})).model == (
        "routed"
    )
    assert (await asked({"model": "fake:near"}, profile={"routing": {"loop": "fake:far"}})).model == "near"


async def test_the_effort_of_a_farther_choice_holds_for_a_nearer_model_without_one() -> None:
    request = await asked({"model": "fake:near"}, routing={"loop": OPTIONS})
    assert (request.model, request.effort) == ("near", "max")
    request = await asked({"effort": "low"}, profile={"model": OPTIONS})
    assert (request.model, request.effort) == ("chosen", "low")
    request = await asked({}, profile={"effort": "low"}, workflow={"model": OPTIONS})
    assert (request.model, request.effort) == ("chosen", "low")


async def test_options_for_providers_are_merged_by_namespace_and_the_nearest_wins() -> None:
    near = {"model": "fake:near", "provider_options": {"fake": {"seed": 2}, "other": {"x": 1}}}
    request = await asked({"model": near}, routing={"loop": OPTIONS})
    options = {name: value for name, value in request.provider_options.items() if name != "rulvar"}
    assert options == {"fake": {"seed": 2, "top_k": 3}, "other": {"x": 1}}


async def test_of_one_place_the_options_for_the_role_stand_for_those_for_every_role() -> None:
    routed = {"model": "fake:routed", "provider_options": {"fake": {"seed": 9}}}
    request = await asked({"model": OPTIONS, "routing": {"loop": routed}})
    assert request.provider_options["fake"] == {"seed": 9}
    assert (request.model, request.effort) == ("routed", "max")
    request = await asked({"model": OPTIONS, "routing": {"loop": {**routed, "provider_options": {}}}})
    assert "fake" not in request.provider_options


@pytest.mark.parametrize(
    ("role", "effort"),
    [("loop", None), ("finalize", None), ("plan", "high"), ("orchestrate", "high"), ("summarize", "low")],
)
async def test_a_role_has_an_effort_of_its_own_where_nothing_says_one(role: str, effort: str | None) -> None:
    request = await asked({"role": role, "routing": {role: "fake:m"}})
    assert request.effort == effort


async def test_sampling_is_not_sent_to_a_model_that_takes_none() -> None:
    options = {"fake": {"temperature": 1, "top_p": 1, "top_k": 1, "seed": 7}, "other": {"temperature": 1}}
    call = {"model": {"model": "fake:m", "provider_options": options}}
    request = await asked(call, caps={"supports_temperature": False})
    assert request.provider_options["fake"] == {"seed": 7}
    assert request.provider_options["other"] == {"temperature": 1}
    request = await asked(call, caps={"supports_temperature": True})
    assert request.provider_options["fake"] == options["fake"]


async def test_a_brief_may_say_what_to_do_with_its_text() -> None:
    engine = create_test_engine(agents={"*": "ok"})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.brief("a long text", instruction="Count the words.")

    async with engine:
        await engine.run(define_workflow("w", body)).result()
    assert [call.prompt for call in engine.fake.calls] == ["Count the words.\n\na long text"]
    assert engine.fake.calls[0].req.effort == "low"


async def test_options_that_are_no_mapping_are_refused_and_named() -> None:
    engine = create_test_engine(agents={"*": "ok"})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", model={"model": "fake:m", "provider_options": "x"})

    async with engine:
        outcome = await engine.run(define_workflow("w", body)).result()
    assert outcome.error is not None
    assert outcome.error.code == "config"
    assert "provider_options" in outcome.error.message
