"""What a type checker infers of rulvar's surface; held by ``test_typing.py``, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from rulvar import (
    Agent,
    AgentResult,
    Ctx,
    Engine,
    Outcome,
    ResumeHandle,
    RunHandle,
    Settled,
    Tool,
    Workflow,
    agent_as_tool,
    tool,
    workflow,
)
from rulvar.testing import (
    FakeCall,
    PytestCassette,
    PytestToolRecording,
    ScriptedModel,
    TestEngine,
    create_test_engine,
    scripted_model,
)


class Verdict(BaseModel):
    passed: bool


@dataclass
class Point:
    x: int


class Named(TypedDict):
    name: str


@tool
def lookup(order_id: str, limit: int = 5) -> dict[str, str]:
    """Look an order up."""
    return {"status": order_id}


@tool(id="orders.count", effects="read")
async def count(order_id: str) -> int:
    """Count."""
    return len(order_id)


@workflow
async def plain(ctx: Ctx, args: Any) -> list[str]:
    return ["a"]


@workflow(name="named", args=Verdict)
async def named(ctx: Ctx, args: Verdict) -> dict[str, int]:
    return {"n": 1}


async def check_agents(ctx: Ctx) -> None:
    assert_type(await ctx.agent("?", schema=Verdict), Verdict)
    assert_type(await ctx.agent("?", schema=Point), Point)
    assert_type(await ctx.agent("?", schema=Named), Named)
    assert_type(await ctx.agent("?", schema=Verdict, agent_type="judge", label="x", tools=[lookup]), Verdict)
    assert_type(await ctx.agent("?", schema=Verdict, on_error="null"), Verdict | None)
    assert_type(await ctx.agent("?", schema=Verdict, result="full"), AgentResult[Verdict])
    assert_type((await ctx.agent("?", schema=Verdict, result="full")).output, Verdict | None)
    assert_type(await ctx.agent("?", result="full"), AgentResult[Any])
    assert_type(await ctx.agent("?", schema={"type": "object"}), Any)
    assert_type(await ctx.agent("?"), Any)
    assert_type(await ctx.agent("?", est_cost=0.3, fallback="local:large"), Any)
    either: Verdict | Point = await ctx.agent("?", schema=Verdict | Point)
    del either
    assert_type(await ctx.agent("?", schema=Literal["high", "low"]), Any)
    assert_type(await ctx.agent("?", schema=list[Verdict]), list[Verdict])


async def check_loops(ctx: Ctx) -> None:
    asked = [lambda order=order: ctx.agent(f"Where is {order}?", schema=Verdict) for order in ("A1", "A2")]
    assert_type(await ctx.parallel(asked), list[Verdict])
    assert_type(
        await ctx.parallel([lambda order=order: ctx.agent(order, schema=Verdict) for order in ("A1", "A2")]),
        list[Verdict],
    )
    assert_type(await ctx.parallel([partial(ctx.agent, "?", schema=Verdict)]), list[Any])
    assert_type(await ctx.parallel([ctx.agent("?", schema=Verdict)]), list[Verdict])
    for order in ("A1", "A2"):
        assert_type(await ctx.step("look up", lambda order=order: len(order)), int)
        assert_type(await ctx.step("look up", partial(len, order)), int)
        piped = await ctx.pipeline([order], lambda item, order=order: ctx.agent(item + order))
        assert_type(piped, list[Any])
    collected = await ctx.pipeline(["A1"], lambda item: ctx.agent(item), on_item_error="collect")
    assert_type(collected.results, list[Any])
    assert_type(collected.dropped[0].scope, str)


async def check_waits(ctx: Ctx) -> None:
    assert_type(await ctx.await_external("gate", schema=Verdict, prompt="Ship it?"), Verdict)
    assert_type(await ctx.await_external("gate", schema=bool), bool)
    assert_type(await ctx.await_external("gate", schema={"type": "boolean"}), Any)
    assert_type(await ctx.await_external("gate"), Any)


async def check_tools(ctx: Ctx) -> None:
    assert_type(lookup("A1", limit=2), dict[str, str])
    assert_type(count("A1").__await__, Any)  # type: ignore[assert-type]
    assert_type(await count("A1"), int)
    assert_type(await ctx.call_tool(lookup, {"order_id": "A1"}), dict[str, str])
    assert_type(await ctx.call_tool(count, {"order_id": "A1"}), int)
    assert_type(await ctx.call_tool("orders.lookup"), Any)
    lookup(1)  # type: ignore[arg-type]
    unparametrized: Tool = lookup
    del unparametrized


async def check_workflows(ctx: Ctx) -> None:
    assert_type(plain, Workflow[list[str]])
    assert_type(named, Workflow[dict[str, int]])
    assert_type(await ctx.workflow(plain), list[str])
    assert_type(await ctx.workflow(named, {"passed": True}), dict[str, int])
    assert_type(await ctx.workflow("by name"), Any)
    assert_type(await ctx.step("s", lambda: 3), int)
    assert_type(await ctx.step("s", lambda: Point(1), returns=Point), Point)
    assert_type(await ctx.parallel([lambda: ctx.workflow(plain)]), list[list[str]])
    assert_type(await ctx.parallel([lambda: ctx.workflow(plain)], settle=True), list[Settled])


async def check_runs() -> None:
    async with Engine(workflows=[plain]) as engine:
        handle = engine.run(plain)
        assert_type(handle, RunHandle[list[str]])
        outcome = await handle.result()
        assert_type(outcome, Outcome[list[str]])
        assert_type(outcome.value, list[str] | None)
        assert_type(await handle.outcome, Outcome[list[str]])
        assert_type(engine.resume("id", named), ResumeHandle[dict[str, int]])
        assert_type(await engine.run("plain").result(), Outcome[Any])
        unparametrized: Outcome = outcome
        del unparametrized


async def check_agent_values() -> None:
    model = scripted_model(["x"])
    assert_type(model, ScriptedModel)
    judge: Agent[dict[str, bool]] = Agent(id="judge", model=model, output=Verdict)
    async with create_test_engine() as engine:
        outcome = await engine.run(judge, "?").result()
        assert_type(outcome.value, dict[str, bool] | None)
    Agent(id="desk", model=model, tools=[lookup, count, agent_as_tool(judge)], media=["image/png"], hooks=[])
    untyped = Agent(id="judge", model=model, output=Verdict)
    assert_type(untyped, Agent[Any])
    assert_type(agent_as_tool(judge), Tool)


def check_fixtures(
    rulvar_engine: Callable[..., TestEngine], cassette: PytestCassette, tool_recording: PytestToolRecording
) -> None:
    def answer(call: FakeCall) -> str:
        return call.prompt

    assert_type(rulvar_engine(agents={"*": answer}), TestEngine)
    assert_type(cassette.path, Path)
    del tool_recording


def check_bodies() -> None:
    body: Awaitable[list[str]] = plain(None, None)
    del body
