"""What listeners are told of open waits and of children, live and when a run is resumed."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar import Ctx, tool, workflow
from rulvar.testing import create_test_engine, fake_tool_calls, fake_wire_error


@tool(needs_approval=True)
def danger() -> str:
    """Do something dangerous."""
    return "done"


def answer(call: Any) -> Any:
    if call.prompt != "danger" or call.req.messages[-1].role == "tool":
        return "eight ch"
    return fake_tool_calls({"name": "danger", "args": {}})


@workflow(name="waits")
async def waits(ctx: Ctx, args: Any) -> Any:
    return await ctx.parallel(
        [
            lambda: ctx.await_external("gate", prompt="May it go?"),
            lambda: ctx.agent("danger", tools=[danger]),
        ]
    )


async def told(handle: Any, *types: str) -> list[dict[str, Any]]:
    names = ("type", "key", "prompt", "replayed", "code", "status", "scope")
    events = [event async for event in handle.events if event["type"] in types]
    return [{name: event[name] for name in names if name in event} for event in events]


async def test_a_suspended_run_has_told_of_all_it_waits_for_and_a_resume_tells_it_again() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(waits, run_id="r")
        outcome = await handle.result()
        keys = {pending.key: pending.prompt for pending in outcome.pending}
        assert set(keys.values()) == {"May it go?", "approve tool 'danger'"}
        first = await told(handle, "external:waiting")
        assert sorted((event["key"], event["prompt"]) for event in first) == sorted(keys.items())
        again = engine.resume("r", waits)
        await again.result()
        second = await told(again, "external:waiting", "approval:pending")
    recorded = [event for event in second if event.get("replayed")]
    assert [(event["type"], event.get("key"), event.get("prompt")) for event in recorded] == [
        ("external:waiting", "gate", "May it go?"),
        ("external:waiting", "", None),  # a journal names no key for an approval
        ("approval:pending", None, None),
    ]
    live = [event for event in second if not event.get("replayed")]
    assert sorted((event["key"], event["prompt"]) for event in live) == sorted(keys.items())


@workflow(name="kid")
async def kid(ctx: Ctx, args: Any) -> Any:
    return await ctx.agent("in the child")


@workflow(name="parent")
async def parent(ctx: Ctx, args: Any) -> Any:
    async with ctx.phase("outside"):
        return await ctx.workflow(kid)


async def test_a_replay_tells_of_a_child_what_the_live_run_told() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(parent, run_id="r")
        await handle.result()
        live = await told(handle, "child:start", "child:end")
        again = engine.resume("r", parent)
        await again.result()
        replayed = await told(again, "child:start", "child:end")
    assert replayed == [{**event, "replayed": True} for event in live]


async def test_a_child_that_goes_on_is_told_to_have_been_admitted_before() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        await engine.run(parent, run_id="r").result()
        await engine.store.append("crashed", (await engine.store.load("r"))[:2])
        await engine.store.save_meta("crashed", {"runId": "crashed", "status": "running", "segments": 1})
        handle = engine.resume("crashed", parent)
        await handle.result()
        events = [event async for event in handle.events if event["type"] == "spawn:admitted"]
    assert [(event["entryRef"], event.replayed) for event in events] == [(0, True)]


async def test_a_child_is_accounted_to_the_phase_that_it_was_started_in() -> None:
    async with create_test_engine(agents={"*": answer}) as engine:
        outcome = await engine.run(parent, run_id="r").result()
    assert list(outcome.cost.by_phase) == ["outside"]


async def test_a_refused_child_is_told_of() -> None:
    @workflow(name="deep")
    async def deep(ctx: Ctx, args: Any) -> Any:
        return await ctx.workflow(parent)

    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(deep, run_id="r")
        await handle.result()
        assert await told(handle, "spawn:rejected") == [{"type": "spawn:rejected", "code": "depth"}]


async def test_a_child_that_is_cancelled_says_so_in_the_journal() -> None:
    broken = fake_wire_error({"code": "agent", "message": "broken", "retryable": False})

    @workflow(name="slow")
    async def slow(ctx: Ctx, args: Any) -> None:
        await asyncio.sleep(5)

    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> None:
        await ctx.parallel([lambda: ctx.workflow(slow), lambda: ctx.agent("broken")])

    async with create_test_engine(agents={"broken": broken}) as engine:
        handle = engine.run(flow, run_id="r")
        await handle.result()
        entries = await engine.store.load("r")
        assert [event["status"] for event in await told(handle, "child:end")] == ["cancelled"]
    (ended,) = [entry.to_wire() for entry in entries if entry.kind == "child" and entry.ref is not None]
    assert ended["status"] == "cancelled"
    assert (ended["error"]["code"], ended["error"]["retryable"]) == ("error", False)


async def test_what_a_workflow_logs_stands_under_the_span_around_it() -> None:
    @workflow(name="w")
    async def flow(ctx: Ctx, args: Any) -> None:
        async def branch() -> None:
            ctx.log("info", "branch")
            await ctx.pipeline([1], stage, stage)

        async def stage(item: Any) -> Any:
            ctx.log("info", "stage")

        ctx.log("info", "root")
        async with ctx.phase("outside"):
            await ctx.parallel([branch])

    async with create_test_engine(agents={"*": answer}) as engine:
        handle = engine.run(flow)
        await handle.result()
        events = [event async for event in handle.events]
    start, phase = (next(e for e in events if e["type"] == name) for name in ("run:start", "phase:start"))
    root, branch, *stages = [event for event in events if event["type"] == "log"]
    assert (root.span_id, root.parent_span_id) == (start.span_id, None)
    assert branch.parent_span_id == phase.span_id
    assert {event.parent_span_id for event in stages} == {branch.span_id}
    assert len({root.span_id, branch.span_id, *(event.span_id for event in stages)}) == 4
