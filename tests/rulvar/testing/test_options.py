"""Options of tests of machines, tools and agents: what is none of what they may be is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import App, MachineCtx, StateMachine, tool, transition
from rulvar.agents import Agent, agent_as_tool, with_preflight
from rulvar.errors import ConfigError
from rulvar.testing import run_tool, run_transition, run_workflow, scripted_model, tool_mock


@tool
def count(n: int) -> int:
    return n


class Counting(StateMachine):
    @transition
    async def go(self, ctx: MachineCtx) -> None:
        ctx.result["n"] = await ctx.call_tool(count, {"n": 1})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"apps": 3}, "apps: expected a list of apps, got int"),
        ({"apps": Counting}, "apps: expected a list of apps, got the class Counting"),
        ({"apps": [Counting]}, r"apps\[0\]: expected an App, got the class Counting"),
        ({"overrides": 3}, "overrides: expected a mapping of tokens to values, got int"),
        ({"overrides": [count]}, "overrides: expected a mapping of tokens to values, got list"),
        ({"scope": "me"}, "scope: expected a mapping, got str"),
        ({"providers": count}, "providers: expected a mapping or a list, got Tool"),
    ],
)
async def test_an_option_that_cannot_be_is_named(options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        await run_workflow(Counting, **options)
    with pytest.raises(ConfigError, match=told):
        await run_transition(Counting, "go", **options)
    if "apps" not in options:
        with pytest.raises(ConfigError, match=told):
            await run_tool(count, {"n": 1}, **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"models": 3}, "models: expected an adapter, or a list of adapters, got int"),
        (
            {"record": True, "replay_tools": count},
            "replay_tools: expected '\\*' or a list of tools, got Tool",
        ),
    ],
)
async def test_an_option_of_a_run_that_cannot_be_is_named(options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        await run_workflow(Counting, **options)


async def test_a_signal_is_an_event() -> None:
    with pytest.raises(ConfigError, match=r"signal: expected an asyncio\.Event, got bool"):
        await run_tool(count, {"n": 1}, signal=True)  # type: ignore[arg-type]


async def test_one_app_and_a_list_of_pairs_are_read_as_they_are_meant() -> None:
    mock = tool_mock(count).returns({"data": 7})
    pairs: Any = [(count, mock)]
    run = await run_workflow(Counting, apps=App("a", machines=[Counting]), overrides=pairs)
    assert run.result == {"n": 7}
    assert (await run_transition(Counting, "go", overrides=pairs)).result == {"n": 7}


def test_parts_of_agents_that_cannot_be_are_named() -> None:
    model: Any = scripted_model([])
    with pytest.raises(ConfigError, match="agent 'a': tools: expected a list, got Tool"):
        Agent(id="a", model=model, tools=count)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="agent_as_tool: expected an Agent, got the class Counting"):
        agent_as_tool(Counting)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="with_preflight: expected a tool made by @tool, got function"):
        with_preflight(lambda: None, lambda: None)  # type: ignore[arg-type]
