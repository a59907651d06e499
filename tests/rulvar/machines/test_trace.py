"""The trace: a fold of the journal, told live by the event stream as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import (
    DeclaredDocument,
    Engine,
    InMemoryStore,
    Input,
    MachineCtx,
    Retry,
    StateMachine,
    ToolEnvelope,
    document,
    tool,
    transition,
)
from rulvar.hitl import AskUser
from rulvar.machines.report import read_run
from rulvar.machines.trace import TRACE_EVENTS, TraceEvent
from rulvar.testing import run_workflow


@document
@dataclass
class Text:
    text: str


@tool
def look(what: str) -> str:
    """Look at something."""
    if what == "nothing":
        raise RuntimeError("nothing there")
    return what


class Busy(StateMachine):
    @transition("asking", retry=Retry(1, delay=0.0))
    async def begin(self, ctx: MachineCtx) -> None:
        await ctx.call_tool(look, {"what": "first"})
        ctx.save(Text("between"))
        await ctx.call_tool(look, {"what": "nothing" if ctx.retry_count == 0 else "second"})
        ctx.start(AskUser, {"question": "?"}, on_done="done")
        ctx.save(Text("last"))

    @transition("end", "asking", wait=True)
    def done(self, ctx: MachineCtx, input: Input) -> None:
        ctx.state["answer"] = input.data


async def test_every_event_of_a_trace_is_told_live_too() -> None:
    async with Engine() as engine:
        handle = engine.run(Busy, run_id="r")
        await handle.result()
        await handle.answer("user_answered", {"answer": 1})
        resumed = engine.resume("r", Busy)
        await resumed.result()
        live = {event.type for event in [*handle.events_seen(), *resumed.events_seen()]}
        trace = (await read_run(engine.store, "r")).trace
    assert {event.type for event in trace} == set(TRACE_EVENTS)
    assert set(TRACE_EVENTS.values()) <= live
    replayed = [e for e in resumed.events_seen() if e.type.startswith("transition:") and e.replayed]
    assert [event["transition"] for event in replayed if event["transition"] == "begin"] == ["begin"] * 2


async def test_what_happened_in_a_body_is_told_in_its_order() -> None:
    run = await run_workflow(Busy)
    told = [(event.type, event.get("toolSeq", event.document_name)) for event in run.trace]
    assert told == [
        ("transition.started", None),
        ("tool.called", 0),
        ("tool.completed", 0),
        ("document.emitted", "text"),
        ("tool.called", 1),
        ("tool.failed", 1),
        ("transition.failed", None),
        ("transition.started", None),
        ("tool.called", 0),
        ("tool.completed", 0),
        ("document.emitted", "text"),
        ("tool.called", 1),
        ("tool.completed", 1),
        ("child.queued", None),
        ("document.emitted", "text"),
        ("transition.completed", None),
        ("run.settled", None),
    ]
    failed = next(event for event in run.trace if event.type == "transition.failed")
    assert (failed.retry_count, failed.will_retry, failed.error) == (0, True, "tool look failed")
    assert [item.name for item in run.documents] == ["error", "text", "text"]


async def test_arguments_and_envelopes_are_kept_only_when_a_run_is_traced() -> None:
    async with Engine() as engine:
        await engine.run(Busy, run_id="plain").result()
        await engine.run(Busy, run_id="traced", trace=True).result()
        plain = await read_run(engine.store, "plain")
        traced = await read_run(engine.store, "traced")
    assert (plain.traced, traced.traced) == (False, True)
    assert [event.args for event in plain.trace if event.type == "tool.called"] == [None] * 4
    assert traced.trace[1].args == {"what": "first"}
    assert [event.type for event in plain.trace] == [event.type for event in traced.trace]


def test_an_event_is_a_mapping_with_attributes() -> None:
    event = TraceEvent("tool.called", 3, 42, {"toolName": "look", "toolSeq": 0})
    assert (event.type, event.seq, event.ts, event.tool_name, event["toolSeq"]) == (
        "tool.called",
        3,
        42,
        "look",
        0,
    )
    assert (event.error, event.get("error"), "error" in event) == (None, None, False)
    assert event.to_wire() == {"type": "tool.called", "seq": 3, "ts": 42, "toolName": "look", "toolSeq": 0}


@document(name="note")
class Note(BaseModel):
    text: str


def noting(*declared: Any) -> Any:
    """Return a machine whose one transition calls a tool that declares documents, and its tool."""

    @tool(documents=[Note], effects="write", cost_micros=3)
    def take_note() -> ToolEnvelope:
        return ToolEnvelope(data="noted", documents=declared)

    class Noting(StateMachine):
        @transition(to="end", retry=Retry(attempts=0))
        async def go(self, ctx: MachineCtx) -> None:
            ctx.save(Note(text="before"))
            ctx.result["said"] = await ctx.call_tool(take_note)
            ctx.save(Note(text="after"))

    return Noting, take_note


async def test_what_a_tool_declares_is_saved_before_its_call_is_over() -> None:
    Noting, take_note = noting(DeclaredDocument("note", {"text": "within"}, {"key": "n"}))
    run = await run_workflow(Noting)
    assert [event.type for event in run.trace] == [
        "transition.started", "document.emitted", "tool.called", "document.emitted", "tool.completed",
        "document.emitted", "transition.completed", "run.settled",
    ]  # fmt: skip
    assert [item.content["text"] for item in run.documents] == ["before", "within", "after"]
    mocked = await run_workflow(Noting, overrides={take_note: lambda args: take_note.function()})
    assert [item.content["text"] for item in mocked.documents] == ["before", "after"]


@pytest.mark.parametrize(
    ("name", "content", "code"), [("note", {"text": 7}, "invalid_output"), ("letter", {}, "config")]
)
async def test_a_declared_document_that_cannot_be_saved_fails_the_call(
    name: str, content: Any, code: str
) -> None:
    Noting, _ = noting(DeclaredDocument(name, content))
    run = await run_workflow(Noting)
    assert (run.status, run.path) == ("failed", ["go"])
    assert run.error is not None
    assert "take_note" in run.error.message
    assert name in run.error.message
    assert run.error.code == code
    [call] = run.tool_calls
    assert call.type == "tool.failed"
    assert run.document("note") is None


async def test_a_declared_document_is_there_once_wherever_the_process_has_died() -> None:
    Noting, _ = noting(DeclaredDocument("note", {"text": "within"}))
    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        await engine.run(Noting, run_id="r").result()
        entries, meta = await store.load("r"), await store.load_meta("r")
        whole = await read_run(store, "r")
    assert meta is not None
    for kept in range(len(entries)):
        before = InMemoryStore()
        await before.save_meta("r", {**meta, "status": "running"})
        await before.append("r", entries[:kept])
        async with Engine(journal=before) as engine:
            outcome = await engine.resume("r", Noting).result()
            again = await read_run(before, "r")
        if outcome.status == "outcome_unknown" or again.status == "failed":
            continue  # the write was under way: nobody knows, and it is not made again
        assert [item.content["text"] for item in again.documents] == ["before", "within", "after"], kept
        assert [event.type for event in again.trace] == [event.type for event in whole.trace], kept
