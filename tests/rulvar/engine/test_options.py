"""Options that are wrong are refused by name, with what to write instead, before anything runs."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, get_overloads

import pytest

from rulvar import (
    AgentProfile,
    Ctx,
    Engine,
    JsonlFileStore,
    RetryPolicy,
    UsageLimits,
    define_workflow,
    tool,
)
from rulvar.engine.primitives.agent_plan import AgentOptions
from rulvar.errors import ConfigError
from rulvar.kernel.admission import BudgetDefaults
from rulvar.runtime.retry import Backoff
from rulvar.testing import FAKE_MODEL_REF, FakeAdapter, create_test_engine


async def answer(ctx: Ctx, args: Any) -> Any:
    return args


child = define_workflow("child", answer)


@tool
def look(q: str) -> str:
    """Look something up."""
    return q


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"adapters": object()},
            r"adapters: expected a list of adapters, got object; write adapters=\[\.\.\.\]",
        ),
        ({"adapters": [object()]}, r"adapters\[0\]: object is no adapter"),
        ({"routing": "m:l"}, "routing: expected a mapping, got str"),
        ({"routing": {"lop": "m:l"}}, "routing: no role 'lop'; the roles are .*loop"),
        ({"profiles": ["writer"]}, "profiles: expected a mapping, got list"),
        ({"pricing": ["m:l"]}, "pricing: expected a mapping, got list"),
        ({"journal": "runs"}, r"journal: 'runs' is no store; write journal=JsonlFileStore\('runs'\)"),
        ({"journal": JsonlFileStore}, "journal: .*JsonlFileStore.* is no store"),
        ({"transcripts": 5}, r"transcripts: 5 is none; it needs put\(\), get\(\)"),
        ({"clock": 5}, r"clock: 5 is none; it needs now_ms\(\), sleep\(\)"),
        ({"entropy": 5}, "entropy: 5 is none"),
        ({"queue": 5}, "queue: 5 is none"),
        ({"limiter": 5}, "limiter: 5 is none"),
        ({"interceptors": 5}, "interceptors: expected a list of interceptors, got 5"),
        ({"interceptors": [5]}, r"interceptors\[0\]: 5 is none; it needs intercept\(\)"),
        ({"workflows": 5}, "workflows: expected a list of workflows, got 5"),
        ({"providers": 5}, "providers: expected a mapping or a list, got int"),
        ({"grants": 5}, "grants: expected a list of texts, got int"),
        ({"owner": 5}, "owner: expected a text, got 5"),
        ({"budget_defaults": 5}, "budget_defaults: expected BudgetDefaults or a mapping, got int"),
        ({"routing": {"loop": "model"}}, r"routing\['loop'\] model 'model': expected 'adapter:model'"),
        ({"pricing": {"m": {}}}, r"pricing\['m'\]: expected a model 'adapter:model' as the key"),
        (
            {"pricing": {"m:l": {"inputUsdPerMTok": -1, "outputUsdPerMTok": 1}}},
            r"pricing\['m:l'\].inputUsdPerMTok=-1.*: expected a finite number from 0 up",
        ),
        (
            {
                "pricing": {
                    "m:l": {
                        "inputUsdPerMTok": 1,
                        "outputUsdPerMTok": 1,
                        "tiers": [{"aboveInputTokens": 1, "inputMultiplier": -2, "outputMultiplier": 1}],
                    }
                }
            },
            r"tiers\[0\].inputMultiplier=-2",
        ),
        ({"profiles": {"a": {"est_cost": -1}}}, r"profiles\['a'\].est_cost=-1: expected an amount in USD"),
        ({"profiles": {"a": AgentProfile(est_cost=-1)}}, r"profiles\['a'\].est_cost=-1"),
        ({"profiles": {"a": AgentProfile(limits={"max_turns": 0})}}, r"profiles\['a'\].limits.max_turns"),
        ({"profiles": {"a": {"model": 5}}}, r"profiles\['a'\] model 5: expected 'adapter:model'"),
        ({"profiles": {"a": {"effort": "huge"}}}, r"profiles\['a'\].effort='huge': use one of low"),
        ({"profiles": {"a": {"tools": "look"}}}, r"profiles\['a'\].tools: expected a list of tools, got str"),
        ({"profiles": {"a": {"routing": {"lop": "m:l"}}}}, r"profiles\['a'\].routing: no role 'lop'"),
    ],
)
def test_an_engine_names_the_option_that_is_wrong(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Engine(**options)


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        (lambda: UsageLimits(max_turns=0), "limits.max_turns: expected an integer from 1 up, got 0"),
        (
            lambda: UsageLimits(timeout_s=float("nan")),
            "limits.timeout_s: expected a number of seconds above 0",
        ),
        (lambda: BudgetDefaults(max_depth=5), "budget_defaults.max_depth=5: expected an integer from 0 to 4"),
        (lambda: RetryPolicy(attempts=0), "retry.attempts: expected an integer from 1 up, got 0"),
        (lambda: Backoff(initial_ms=-1), "retry.backoff.initial_ms: expected a number from 0 up, got -1"),
    ],
)
def test_a_bound_is_checked_where_it_is_written(bound: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        bound()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"budget_usd": 10**400}, "budget_usd=.*: expected an amount in USD from 0 up"),
        ({"deadline_at": 10**5000}, "deadline_at: .* epoch seconds from 0 to 253402300799 .*got a huge int"),
        ({"deadline_at": 1_800_000_000_000}, "deadline_at: .* got 1800000000000"),  # milliseconds
        ({"deadline_at": -5}, "deadline_at: .* got -5"),
        ({"name": 5}, "name: expected a text, got 5"),
        ({"tags": "abc"}, r"tags: expected a list of texts, got 'abc'; write tags=\[\.\.\.\]"),
        ({"tags": ["a", 1]}, r"tags\[1\]: expected a text, got 1"),
        ({"scope": ["a"]}, r"scope: expected a mapping, got \['a'\]"),
        ({"config_fingerprint": 5}, "config_fingerprint: expected a text, got 5"),
    ],
)
async def test_a_run_names_the_option_that_is_wrong(bench: Any, options: dict[str, Any], told: str) -> None:
    async def body(ctx: Ctx, args: Any) -> None: ...

    with pytest.raises(ConfigError, match=told):
        bench.engine.run(define_workflow("w", body), **options)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda ctx: ctx.agent("x", est_cost=-1),
            "ctx.agent est_cost=-1: expected an amount in USD from 0 up",
        ),
        (lambda ctx: ctx.agent("x", est_cost=float("nan")), "ctx.agent est_cost=nan"),
        (lambda ctx: ctx.agent("x", est_cost="1"), "ctx.agent est_cost='1'"),
        (
            lambda ctx: ctx.agent("x", memoize_outcome="no"),
            "ctx.agent memoize_outcome: expected True or False",
        ),
        (lambda ctx: ctx.agent("x", stream=1), "ctx.agent stream: expected True or False, got 1"),
        (lambda ctx: ctx.step("s", int, key=5), r"ctx.step\('s'\) key: expected a string, got int"),
        (
            lambda ctx: ctx.step("s", int, deps={1, 2}),
            r"ctx.step\('s'\) deps: expected a list .* got one set",
        ),
        (lambda ctx: ctx.step("s", int, deps={"a": 1}), r"ctx.step\('s'\) deps: .* got one dict"),
        (lambda ctx: ctx.step("s", int, deps="ab"), r"ctx.step\('s'\) deps: .* got one str"),
        (
            lambda ctx: ctx.workflow(child, 1, key=5),
            r"ctx.workflow\('child'\) key: expected a string, got int",
        ),
        (
            lambda ctx: ctx.await_external("k", prompt=5),
            r"ctx.await_external\('k'\) prompt: expected a string",
        ),
        (
            lambda ctx: ctx.parallel(5),
            "ctx.parallel tasks: expected a list of functions or coroutines, got int",
        ),
        (lambda ctx: ctx.pipeline(5, int), "ctx.pipeline items: expected a list, got int"),
    ],
)
async def test_what_a_call_cannot_take_is_refused_before_any_entry(bench: Any, call: Any, told: str) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await call(ctx)

    outcome = await bench.run(body, run_id="r")
    assert outcome.error.code == "config"
    assert re.search(told, outcome.error.message), outcome.error.message
    assert await bench.entries("r") == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"agent_typ": "writer"}, "ctx.agent: no option 'agent_typ'; did you mean 'agent_type'"),
        ({"zzz": 1}, "ctx.agent: no option 'zzz'; use one of agent_type, schema"),
        ({"tools": look}, r"ctx.agent tools: expected a list of tools, got one Tool; write tools=\[\.\.\.\]"),
        ({"tools": 3}, "ctx.agent tools: expected a list of tools, got one int"),
        ({"agent_type": "ghost"}, r"no profile for agent_type 'ghost'.*profiles=\{'ghost': \{\}\}"),
    ],
)
async def test_a_call_names_the_option_that_is_wrong(bench: Any, options: dict[str, Any], told: str) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x", **options)

    with pytest.raises(ConfigError, match=told):
        raise ConfigError((await bench.run(body)).error.message)


async def test_a_refused_call_says_where_the_asked_amount_comes_from(make_bench: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x", **args)

    told = [
        (await make_bench().run(body, args, budget_usd=0.1)).error.message for args in ({}, {"est_cost": 0.2})
    ]
    assert (
        "asked 0.5 (the flat promise of a call that says nothing; say what it may cost: est_cost=" in told[0]
    )
    assert told[1].endswith("asked 0.2 (the call's est_cost)")


async def test_a_call_that_was_not_awaited_is_told_as_such(bench: Any) -> None:
    calls: list[Any] = []

    async def body(ctx: Ctx, args: Any) -> Any:
        calls.append(ctx.step("s", lambda: 1))
        return {"answer": calls[0]}

    outcome = await bench.run(body)
    calls[0].close()
    assert "is of type coroutine; write await before the call" in outcome.error.message


@pytest.mark.parametrize("isolation", [{1, 2}, float("nan"), b"x", {"sandbox": object()}, ["\ud800", {0}]])
async def test_an_isolation_that_json_cannot_hold_is_refused_before_any_entry(
    bench: Any, isolation: Any
) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("x", isolation=isolation)

    outcome = await bench.run(body, run_id="r")
    assert outcome.status == "error"
    assert outcome.error.code == "non_serializable_value"
    assert "ctx.agent isolation" in outcome.error.message
    assert await bench.entries("r") == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"agents": ["x"]}, "agents"),
        ({"agents": 5}, "agents"),
        ({"profiles": 5}, "profiles"),
        ({"profiles": ["x"]}, "profiles"),
        ({"routing": 5}, "routing"),
        ({"routing": ["loop"]}, "routing"),
        ({"adapters": 5}, "adapters"),
        ({"adapters": "fake"}, "adapters"),
        ({"caps_overrides": 5}, "caps_overrides"),
        ({"pricing": 5}, "pricing"),
    ],
)
def test_a_test_engine_names_the_option_that_is_wrong(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: expected a") as refused:
        create_test_engine(**options)
    assert refused.value.data["field"] == field


@pytest.mark.parametrize(
    "named", ["their:model", {"model": "their:model", "effort": "low"}, "fake2:fake-model"]
)
def test_a_routing_to_an_adapter_that_the_engine_does_not_have_is_refused_at_once(named: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"^routing: 'plan' names '.*no adapter .*it has: 'fake'"
    ) as refused:
        Engine(adapters=[FakeAdapter()], routing={"loop": FAKE_MODEL_REF, "plan": named})
    assert refused.value.data["field"] == "routing.plan"
    with pytest.raises(ConfigError, match="it has: none"):
        Engine(routing={"plan": named})


def test_a_routing_may_name_an_adapter_that_a_workflow_of_the_engine_brings() -> None:
    brings = dataclasses.replace(child, adapters=(FakeAdapter(id="their"),))
    assert Engine(routing={"loop": "their:model"}, workflows=[brings]).routing == {"loop": "their:model"}
    assert Engine(routing={"loop": None}).routing == {"loop": None}
    assert Engine(routing={}).routing == {}


def test_two_workflows_of_one_name_are_refused_and_one_may_be_listed_twice() -> None:
    with pytest.raises(ConfigError, match="two of them are named 'child'"):
        Engine(workflows=[child, define_workflow("child", answer)])
    assert Engine(workflows=[child, child]).workflow_of("child") is child


def test_type_checkers_know_every_option_of_an_agent_call() -> None:
    [plain] = [each for each in get_overloads(Ctx.agent) if "label" in inspect.signature(each).parameters]
    named = set(inspect.signature(plain).parameters) - {"self", "prompt"}
    assert named == set(AgentOptions.__struct_fields__) - {"conduct", "system", "media"}
