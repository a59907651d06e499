"""Formats of a plain JSON Schema: held where something is given, and not where it is served."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pydantic
import pytest

from rulvar import Ctx, InMemoryStore, tool, workflow
from rulvar.contracts.canonical import canonical_json
from rulvar.contracts.entries import JournalEntry
from rulvar.errors import ResolutionError
from rulvar.testing import create_test_engine, fake_tool_calls, run_workflow

MAIL = {"type": "object", "properties": {"mail": {"type": "string", "format": "email"}}, "required": ["mail"]}


class Meeting(pydantic.BaseModel):
    at: datetime.datetime


@workflow(name="ask")
async def ask(ctx: Ctx, args: Any) -> Any:
    return await ctx.await_external("mail", schema=MAIL)


@workflow(name="meet")
async def meet(ctx: Ctx, args: Any) -> Any:
    return (await ctx.await_external("meeting", schema=Meeting)).at.isoformat()


async def test_an_answer_that_is_not_of_its_format_is_refused_and_the_wait_stays_open() -> None:
    async with create_test_engine() as engine:
        run = engine.run(ask, run_id="r")
        assert (await run.result()).status == "suspended"
        with pytest.raises(
            ResolutionError, match=r"value\['mail'\]: .*nobody.* is not a \"email\"; the wait stays open"
        ):
            await run.answer("mail", {"mail": "nobody"})
        await run.answer("mail", {"mail": "a@example.com"})
        assert (await engine.resume("r", ask).result()).value == {"mail": "a@example.com"}


async def test_an_answer_for_a_type_is_what_the_type_takes() -> None:
    store = InMemoryStore()
    async with create_test_engine(journal=store) as engine:
        run = engine.run(meet, run_id="r")
        await run.result()
        await run.answer("meeting", {"at": "2024-01-01T12:00:00"})
        assert (await engine.resume("r", meet).result()).value == "2024-01-01T12:00:00"
    wait = next(entry for entry in await store.load("r") if entry.kind == "external")
    assert wait.value["formats"] == "annotation"
    assert wait.value["schema"]["properties"]["at"] == {"format": "date-time", "type": "string"}


async def test_a_wait_for_a_plain_schema_is_recorded_as_ever() -> None:
    store = InMemoryStore()
    async with create_test_engine(journal=store) as engine:
        await engine.run(ask, run_id="r").result()
    (wait,) = [entry for entry in await store.load("r") if entry.kind == "external"]
    assert canonical_json(wait.value) == canonical_json({"key": "mail", "schema": MAIL})


async def test_a_recorded_answer_counts_though_its_format_would_be_refused_now() -> None:
    @workflow(name="ask")
    async def before(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external(
            "mail", schema=json.loads(json.dumps(MAIL).replace("email", "x-mail"))
        )

    recorded, store = InMemoryStore(), InMemoryStore()
    async with create_test_engine(journal=recorded) as engine:
        run = engine.run(before, run_id="r")
        await run.result()
        await run.answer("mail", {"mail": "nobody"})
    entries = json.loads(
        json.dumps([entry.to_wire() for entry in await recorded.load("r")]).replace("x-mail", "email")
    )
    await store.append("r", [JournalEntry.from_wire(entry) for entry in entries])
    async with create_test_engine(journal=store) as engine:
        assert (await engine.resume("r", ask).result()).value == {"mail": "nobody"}


async def test_an_agents_answer_that_is_not_of_its_format_is_asked_for_again() -> None:
    @workflow(name="write")
    async def write(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("write", agent_type="writer", schema=MAIL)

    answers = [{"mail": "nobody"}, {"mail": "a@example.com"}]
    async with create_test_engine(agents={"writer": answers}) as engine:
        outcome = await engine.run(write).result()
        calls = engine.fake.calls
    assert outcome.value == answers[1]
    assert len(calls) == 2


async def test_arguments_that_are_not_of_their_format_never_reach_the_tool() -> None:
    sent: list[Any] = []

    @tool(name="send", description="Send.", parameters=MAIL)
    def send(args: dict[str, Any]) -> str:
        sent.append(args)
        return "sent"

    @workflow(name="write")
    async def write(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("write", agent_type="writer", tools=[send])

    script = [
        fake_tool_calls({"name": "send", "args": {"mail": "nobody"}}),
        fake_tool_calls({"name": "send", "args": {"mail": "a@example.com"}}),
        "done",
    ]
    async with create_test_engine(agents={"writer": script}) as engine:
        outcome = await engine.run(write).result()
        told = engine.fake.calls[1].req.messages[-1]
    assert outcome.value == "done"
    assert sent == [{"mail": "a@example.com"}]
    assert "email" in str(told)


async def test_a_workflows_plain_arguments_are_held_to_their_formats() -> None:
    @workflow(name="greet", args=MAIL)
    async def greet(ctx: Ctx, args: Any) -> Any:
        return args["mail"]

    with pytest.raises(Exception, match=r"args\['mail'\].*email"):
        await run_workflow(greet, {"mail": "nobody"})
