"""Options that are wrong are refused by name, with what to write instead, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Ctx, Engine, JsonlFileStore, tool
from rulvar.errors import ConfigError


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
    ],
)
def test_an_engine_names_the_option_that_is_wrong(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Engine(**options)


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
