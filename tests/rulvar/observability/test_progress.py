"""The progress view: a fold of events, drawn with rich."""

from __future__ import annotations

import asyncio
import io
import sys
from typing import Any

import pytest
from rich.console import Console

from rulvar import Ctx, InMemoryStore, tool, workflow
from rulvar.contracts.events import Event
from rulvar.errors import ConfigError
from rulvar.progress import RunProgress, _View, progress
from rulvar.testing import create_test_engine, fake_tool_calls


@tool(id="orders.look")
def look(order: str) -> str:
    return order


@workflow(name="review")
async def review(ctx: Ctx, args: Any) -> Any:
    async with ctx.phase("plan"):
        await ctx.agent("look it up", agent_type="looker", tools=[look])
    await ctx.call_tool(look, {"order": "B2"})
    return "done"


def engine(**options: Any) -> Any:
    calls = fake_tool_calls({"name": "orders.look", "args": {"order": "A1"}})
    return create_test_engine(agents={"looker": [calls, "found"]}, **options)


def screen(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_a_run_is_folded_from_its_events() -> None:
    bench, console = engine(), screen()
    with progress(bench, console=console) as runs:
        await bench.run(review, run_id="r").result()
    [run] = runs
    assert (run.workflow, run.status, run.phase) == ("review", "ok", "plan")
    assert (run.agents, run.tools, run.under_way) == ({"ok": 1}, 2, {})
    assert run.tokens > 0


async def test_without_a_terminal_a_run_is_two_lines() -> None:
    bench, console = engine(), screen()
    with progress(bench, console=console):
        await bench.run(review).result()
    first, last = written(console).splitlines()
    assert first.startswith("review running")
    assert last.startswith("review ok")
    assert "1 agent  2 tool calls" in last


async def test_a_terminal_shows_the_last_state() -> None:
    bench, console = engine(), screen(terminal=True)
    with progress(bench, console=console):
        await bench.run(review).result()
    assert "review ok" in written(console)


async def test_what_is_under_way_is_shown_while_it_is() -> None:
    seen: list[str] = []
    console = screen()

    @tool(id="peek")
    def peek() -> str:
        out = screen()
        out.print(view.render())
        seen.append(written(out))
        return "x"

    bench = create_test_engine(agents={"looker": [fake_tool_calls({"name": "peek", "args": {}}), "found"]})
    view = _View(console)
    stop = bench.watch(view.run_starts)

    @workflow(name="w")
    async def w(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("x", agent_type="looker", tools=[peek])

    await bench.run(w).result()
    stop()
    [shown] = seen
    first, second = shown.splitlines()
    assert first.startswith("w running")
    assert second.split() == ["looker", "fake:fake-model", "0", "s", "uses", "peek"]


async def test_a_resumed_run_says_what_the_journal_served() -> None:
    store = InMemoryStore()
    await engine(journal=store).run(review, run_id="r").result()
    bench = engine(journal=store)
    with progress(bench, console=screen()) as runs:
        await bench.resume("r", review).result()
    assert (runs[0].replayed, runs[0].agents) == (1, {})


async def test_a_wait_is_named_until_it_is_answered() -> None:
    @workflow(name="waits")
    async def waits(ctx: Ctx, args: Any) -> Any:
        return await ctx.await_external("sign-off")

    go_on = asyncio.Event()

    @workflow(name="both")
    async def both(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([lambda: ctx.await_external("a"), lambda: ctx.step("b", go_on.wait)])

    bench, console = create_test_engine(), screen()
    with progress(bench, console=console) as runs:
        outcome = await bench.run(waits).result()
    assert outcome.status == "suspended"
    assert list(runs[0].waiting.values()) == ["sign-off"]
    assert "waits for sign-off" in written(console)
    bench = create_test_engine()
    with progress(bench, console=screen()) as runs:
        handle = bench.run(both)
        while not runs[0].waiting:
            await asyncio.sleep(0)
        assert list(runs[0].waiting.values()) == ["a"]
        await handle.resolve_external("a", 1)
        go_on.set()
        await handle.result()
    assert runs[0].waiting == {}


def event(type_: str, span: str = "s1", **fields: Any) -> Event:
    return Event({"type": type_, "runId": "r", "seq": 0, "ts": "", "spanId": span, **fields})


def test_names_cannot_draw_on_the_terminal() -> None:
    view, out = _View(screen()), screen()
    run = RunProgress("r")
    run.tell(event("run:start", workflow="[red]w\x1b[2J\n"))
    run.tell(event("agent:start", agentType="\x1b]0;title\x07", model="m"))
    view.runs.append(run)
    out.print(view.render())
    text = written(out)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.startswith("[red]w�[2J� running")


def test_a_crowd_of_agents_stays_small() -> None:
    view, out = _View(screen()), screen()
    for number in range(20):
        run = RunProgress(f"r{number}")
        run.tell(event("run:start", workflow=f"w{number}"))
        for agent in range(30):
            run.tell(event("agent:start", f"s{agent}", agentType="a", model="m"))
        view.runs.append(run)
    out.print(view.render())
    assert len(written(out).splitlines()) <= 8 * 10 + 1
    assert "… 22 more" in written(out)
    assert "… 12 more runs" in written(out)


def test_time_stands_still_when_a_run_has_ended() -> None:
    now = [10.0]
    run = RunProgress("r", clock=lambda: now[0])
    run.tell(event("run:start", workflow="w"))
    now[0] = 15.0
    run.tell(event("run:end", status="error", envelope={"error": {"code": "agent"}}))
    now[0] = 99.0
    assert (run.seconds, run.error) == (5.0, "agent")


def test_events_that_are_not_known_are_skipped() -> None:
    run = RunProgress("r")
    run.tell(event("something:new"))
    run.tell(event("tool:end", toolName="x", toolCallId="c", outcome="ok"))
    run.tell(event("agent:end", status="ok"))
    run.tell(event("agent:error"))
    assert run.tools == 1


def test_without_rich_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ConfigError, match=r"rulvar\[progress\]"), progress(engine()):
        pass


async def test_the_view_stops_with_its_block() -> None:
    bench = engine()
    with progress(bench, console=screen()) as runs:
        pass
    await bench.run(review).result()
    assert runs == []
