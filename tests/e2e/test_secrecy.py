"""What a tool, a guard or a hook raises in private is told nowhere: no outcome, journal, transcript, event, log, cassette."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar import Agent, Ctx, Engine, JsonlFileStore, ToolGuards, tool, workflow
from rulvar.agents import AgentGuards
from rulvar.errors import ConfigError
from rulvar.testing import FakeAdapter, fake_tool_calls, record

SECRET = "PRIVATE-4711"


class Odd:
    """Something without a JSON form whose text is private."""

    def __repr__(self) -> str:
        return SECRET

    __str__ = __repr__


def plainly() -> Any:
    raise RuntimeError(f"row {SECRET}")


def with_a_cause() -> Any:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        raise RuntimeError("outer") from error


def in_a_group() -> Any:
    raise ExceptionGroup(SECRET, [ValueError(SECRET), RuntimeError(SECRET)])


def with_an_odd_argument() -> Any:
    raise KeyError(Odd())


def as_a_system_exit() -> Any:
    raise OSError(5, SECRET, f"/{SECRET}")


def a_result_without_a_json_form() -> Any:
    return {"x": Odd()}


def a_key_without_a_json_form() -> Any:
    return {Odd(): 1}


def of_its_own_kind() -> Any:
    kind = type("Custom", (Exception,), {"__str__": lambda self: SECRET, "data": {"x": SECRET}})
    raise kind(SECRET)


WAYS = [
    plainly,
    with_a_cause,
    in_a_group,
    with_an_odd_argument,
    as_a_system_exit,
    a_result_without_a_json_form,
    a_key_without_a_json_form,
    of_its_own_kind,
]


@pytest.fixture
async def watched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> AsyncIterator[Callable[..., Any]]:
    """Run something on a recorded model and files, and look for the secret in all that was told."""
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)

    async def run(wf: Any, answer: Any, **options: Any) -> Any:
        tape = tmp_path / "tape.jsonl"
        model = FakeAdapter({"*": answer}, id="model")
        with record(adapters=[model], cassette=tape) as adapters:
            async with Engine(
                adapters=adapters,
                journal=JsonlFileStore(tmp_path / "runs"),
                routing={"loop": "model:large"},
                **options,
            ) as engine:
                handle = engine.run(wf, "hi", run_id="r", trace=True)
                outcome = await handle.result()
                events = [event.to_wire() for event in handle.events_seen()]
                view = engine.inspect(handle)
        out, err = capfd.readouterr()
        told = [repr(outcome), str(outcome), repr(events), repr(view), caplog.text, out, err]
        told += [repr(record.__dict__) for record in caplog.records if "exc_info" not in record.__dict__]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert any(path.name == "tape.jsonl" for path in files) or answer is None
        assert len(files) >= 2
        for path in files:
            assert SECRET.encode() not in path.read_bytes(), path.name
        for text in told:
            assert SECRET not in text
        return outcome

    yield run


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_of_a_free_agent(watched: Any, way: Any, effects: Any) -> None:
    broken = tool(id="broken", effects=effects, cost_micros=1)(way)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x", tools=[broken])

    outcome = await watched(w, [fake_tool_calls({"name": "broken", "args": {}}), "done"])
    assert outcome.status == "ok"  # the model is told that it failed, and goes on


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_a_workflow_calls(watched: Any, way: Any, effects: Any) -> None:
    broken = tool(id="broken", effects=effects)(way)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        await ctx.agent("x")
        return await ctx.call_tool(broken)

    outcome = await watched(w, "said")
    assert outcome.status in ("error", "outcome_unknown")


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_of_an_agent_value(watched: Any, way: Any, effects: Any) -> None:
    broken = tool(id="broken", effects=effects)(way)
    agent = Agent(id="desk", model="model:large", tools=[broken])
    outcome = await watched(agent, [fake_tool_calls({"name": "broken", "args": {}}), "never"])
    assert outcome.status in ("error", "outcome_unknown")


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("way", [plainly, with_a_cause, in_a_group, of_its_own_kind])
async def test_a_guard_of_a_tool(watched: Any, way: Any, side: str) -> None:
    @tool(id="guarded", guards=ToolGuards(**{side: [lambda value: way()]}))
    def guarded() -> str:
        return "x"

    agent = Agent(id="desk", model="model:large", tools=[guarded])
    outcome = await watched(agent, [fake_tool_calls({"name": "guarded", "args": {}}), "never"])
    assert (outcome.status, outcome.error.code) == ("blocked", "guard_unavailable")


@pytest.mark.parametrize("way", [plainly, with_a_cause, in_a_group, of_its_own_kind])
async def test_a_guard_and_a_hook_of_an_agent(watched: Any, way: Any) -> None:
    agent = Agent(id="desk", model="model:large", guards=AgentGuards(output=[lambda value: way()]))
    outcome = await watched(agent, "said")
    assert (outcome.status, outcome.error.code) == ("blocked", "guard_unavailable")


async def test_the_text_is_told_when_the_tool_says_that_it_may_be() -> None:
    broken = tool(id="broken", public_errors=True)(plainly)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.call_tool(broken)

    async with Engine() as engine:
        outcome = await engine.run(w).result()
    assert outcome.error is not None
    assert SECRET in outcome.error.message


async def test_a_wrong_configuration_that_a_tool_raises_is_its_own() -> None:
    @tool(id="broken")
    def broken() -> None:
        raise ConfigError(SECRET)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.call_tool(broken)

    async with Engine() as engine:
        outcome = await engine.run(w).result()
    assert outcome.error is not None
    assert SECRET not in outcome.error.message
