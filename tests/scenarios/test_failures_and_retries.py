"""More scenarios of machines that fail: retries, error places, timeouts, what is rolled back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import (
    Engine,
    InMemoryStore,
    MachineCtx,
    Retry,
    StateMachine,
    ToolRefusal,
    document,
    tool,
    transition,
)
from rulvar.agents import Agent
from rulvar.testing import TestClock, coverage, failure, run_workflow, scripted_model, tool_calls


@document
class Note(BaseModel):
    text: str


def failing(times: int, **options: Any) -> Any:
    """Return a machine whose one transition fails that many times."""
    seen: list[int] = []

    class Failing(StateMachine):
        @transition(to="end", **options)
        def work(self, ctx: MachineCtx) -> None:
            seen.append(ctx.retry_count)
            ctx.state["touched"] = True
            ctx.result["touched"] = True
            ctx.save(Note(text="draft"))
            if len(seen) <= times:
                raise ValueError(f"broken {len(seen)}")
            ctx.result["attempts"] = len(seen)

    Failing.seen = seen
    return Failing


def failed_events(run: Any) -> list[tuple[int, bool]]:
    return [(event.retry_count, event.will_retry) for event in run.trace if event.type == "transition.failed"]


async def test_a_body_that_raises_stays_where_it_was_and_may_be_tried_by_hand() -> None:
    machine = failing(1)
    run = await run_workflow(machine)
    assert (run.status, run.outcome.status, run.place, run.path) == ("failed", "error", "start", ["work"])
    assert (run.state, run.result, run.document("note")) == ({}, None, None)
    assert run.document("error")["message"] == "broken 1"
    assert run.error is not None
    assert "broken 1" in run.error.message
    assert failed_events(run) == [(0, False)]
    assert run.available_transitions == ["work"]
    again = await run.answer("work")
    assert (again.status, again.path, again.result) == (
        "completed",
        ["work", "work"],
        {"touched": True, "attempts": 2},
    )


async def test_no_retry_without_an_error_place_is_the_end() -> None:
    run = await run_workflow(failing(1, retry=Retry(attempts=0)))
    assert (run.status, run.place, run.available_transitions) == ("failed", "start", [])
    assert run.park_view() is None


async def test_an_error_place_means_no_automatic_retry() -> None:
    run = await run_workflow(failing(1, error_place="broken"))
    assert (run.status, run.place, run.path) == ("failed", "broken", ["work"])
    assert failed_events(run) == [(0, False)]
    assert run.available_transitions == []
    assert run.park_view() is None


async def test_attempts_are_counted_for_the_body() -> None:
    machine = failing(2, retry=Retry(attempts=2))
    run = await run_workflow(machine)
    assert (run.status, run.path, machine.seen) == ("completed", ["work"] * 3, [0, 1, 2])
    assert failed_events(run) == [(0, True), (1, True)]
    assert run.result == {"touched": True, "attempts": 3}
    assert [item.name for item in run.documents] == ["error", "error", "note"]


async def test_used_up_retries_without_an_error_place_leave_it_to_a_hand() -> None:
    machine = failing(4, retry=Retry(attempts=2))
    run = await run_workflow(machine)
    assert (run.status, run.place, run.path) == ("failed", "start", ["work"] * 3)
    assert failed_events(run) == [(0, True), (1, True), (2, False)]
    assert run.available_transitions == ["work"]
    again = await run.answer("work")  # a new round of attempts
    assert (again.status, len(again.path)) == ("completed", 5)


async def test_a_transition_that_succeeds_gets_its_whole_budget_back() -> None:
    count = 0

    class Rounds(StateMachine):
        @transition(to="ready")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["rounds"] = 0

        def is_done(self, state: Any) -> bool:
            return bool(state["rounds"] == 3)

        @transition(from_="ready", to="end", guard="is_done", priority=1)
        def finish(self, ctx: MachineCtx) -> None: ...

        @transition(from_="ready", to="ready", retry=Retry(attempts=1))
        def flaky(self, ctx: MachineCtx) -> None:
            nonlocal count
            count += 1
            if count % 2:
                raise ValueError("odd")
            ctx.state["rounds"] += 1

    run = await run_workflow(Rounds)
    assert (run.status, run.path) == ("completed", ["begin", *["flaky"] * 6, "finish"])
    assert failed_events(run) == [(0, True)] * 3


async def test_the_budget_of_one_transition_is_not_that_of_another() -> None:
    count = {"first": 0, "second": 0}

    class Two(StateMachine):
        @transition(to="half", retry=Retry(attempts=1))
        def first(self, ctx: MachineCtx) -> None:
            self.fail("first")

        @transition(from_="half", to="end", retry=Retry(attempts=1))
        def second(self, ctx: MachineCtx) -> None:
            self.fail("second")

        def fail(self, name: str) -> None:
            count[name] += 1
            if count[name] == 1:
                raise ValueError(name)

    run = await run_workflow(Two)
    assert (run.status, run.path) == ("completed", ["first", "first", "second", "second"])


async def test_a_retry_goes_through_its_target() -> None:
    calls: list[str] = []

    class Renewing(StateMachine):
        @transition(to="ready")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["token"] = 0

        @transition(from_="stale", to="ready")
        def renew(self, ctx: MachineCtx) -> None:
            ctx.state["token"] += 1

        @transition(from_="ready", to="end", retry=Retry(attempts=2, target="stale"), error_place="locked")
        def use(self, ctx: MachineCtx) -> None:
            calls.append(str(ctx.state["token"]))
            if ctx.state["token"] < 2:
                raise PermissionError("old")

    run = await run_workflow(Renewing)
    assert run.path == ["begin", "use", "renew", "use", "renew", "use"]
    assert (run.status, calls, run.state["token"]) == ("completed", ["0", "1", "2"], 2)


async def test_a_target_does_not_stand_in_for_the_error_place() -> None:
    class Renewing(StateMachine):
        @transition(to="ready")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="stale", to="ready")
        def renew(self, ctx: MachineCtx) -> None: ...

        @transition(from_="ready", to="end", retry=Retry(attempts=1, target="stale"), error_place="locked")
        def use(self, ctx: MachineCtx) -> None:
            raise PermissionError("old")

    run = await run_workflow(Renewing)
    assert (run.status, run.place) == ("failed", "locked")
    assert run.path == ["begin", "use", "renew", "use"]
    assert failed_events(run) == [(0, True), (1, False)]


class Recovering(StateMachine):
    @transition(to="end", error_place="recovery")
    def work(self, ctx: MachineCtx) -> None:
        raise ValueError("broken")

    @transition(from_="recovery", to="end")
    def give_up(self, ctx: MachineCtx) -> None:
        ctx.result["gave_up"] = True

    @transition(from_="recovery", to="start_again", wait=True)
    def repair(self, ctx: MachineCtx) -> None: ...

    @transition(from_="start_again", to="end")
    def redo(self, ctx: MachineCtx) -> None:
        ctx.result["redone"] = True


async def test_nothing_runs_by_itself_at_an_error_place() -> None:
    run = await run_workflow(Recovering, answers={"repair": None})  # answers are for runs that wait
    assert (run.status, run.place, run.path) == ("failed", "recovery", ["work"])
    assert run.available_transitions == ["give_up", "repair"]
    last = run.trace[-1]
    assert (last.type, last.status, last.place) == ("run.settled", "failed", "recovery")
    view = run.park_view()
    assert view is not None
    assert (view.transitions, view.default_transition, view.widget) == (["give_up", "repair"], None, None)


@pytest.mark.parametrize(
    ("name", "path", "result"),
    [
        ("give_up", ["work", "give_up"], {"gave_up": True}),
        ("repair", ["work", "repair", "redo"], {"redone": True}),
    ],
)
async def test_every_way_out_of_an_error_place_may_be_taken(name: str, path: Any, result: Any) -> None:
    run = await (await run_workflow(Recovering)).answer(name)
    assert (run.status, run.outcome.status, run.path, run.result) == ("completed", "ok", path, result)
    assert run.error is None


async def test_a_recovery_that_fails_stays_at_the_error_place() -> None:
    class Twice(StateMachine):
        @transition(to="end", error_place="recovery")
        def work(self, ctx: MachineCtx) -> None:
            raise ValueError("first")

        @transition(from_="recovery", to="end", wait=True)
        def repair(self, ctx: MachineCtx, input: Any) -> None:
            if input.data != "good":
                raise ValueError("second")

    run = await (await run_workflow(Twice)).answer("repair", "bad")
    assert (run.status, run.place, run.path) == ("failed", "recovery", ["work", "repair"])
    assert run.error is not None
    assert "second" in run.error.message
    assert run.available_transitions == ["repair"]
    assert (await run.answer("repair", "good")).status == "completed"


async def test_a_failed_callback_uses_up_retries_without_running_the_body() -> None:
    ran: list[str] = []

    class Waiting(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True, retry=Retry(attempts=1), error_place="recovery")
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ran.append(input.status)

    run = await run_workflow(Waiting, answers={"done": failure("child died")})
    assert (run.status, run.place, ran) == ("failed", "recovery", [])
    assert run.path == ["begin", "done", "done"]
    assert failed_events(run) == [(0, True), (1, False)]
    assert all("durationMs" not in e for e in run.trace if e.type == "transition.failed")
    assert run.error is not None
    assert "child died" in run.error.message


async def test_a_real_payload_reaches_the_body_where_an_error_place_is() -> None:
    class Waiting(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True, error_place="recovery")
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["data"] = input.data

    run = await run_workflow(Waiting, answers={"done": {"x": 1}})
    assert (run.status, run.result) == ("completed", {"data": {"x": 1}})


async def test_a_body_that_fails_with_its_answer_is_retried_with_the_same_answer() -> None:
    seen: list[Any] = []

    class Waiting(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True, retry=Retry(attempts=1))
        def done(self, ctx: MachineCtx, input: Any) -> None:
            seen.append(input.data)
            if len(seen) == 1:
                raise ValueError("once")

    run = await run_workflow(Waiting, answers={"done": "yes"})
    assert (run.status, run.path, seen) == ("completed", ["begin", "done", "done"], ["yes", "yes"])


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(attempts=7), [1, 2, 4, 8, 16, 30, 30]),
        (Retry(attempts=3, delay=2.0, backoff="fixed"), [2, 2, 2]),
        (Retry(attempts=3, delay=10.0, max_delay=15.0), [10, 15, 15]),
        (Retry(attempts=2, delay=0.0), [0, 0]),
    ],
)
async def test_delays_on_the_clock(retry: Retry, delays: list[int]) -> None:
    clock = TestClock(100.0)
    machine = failing(len(delays), retry=retry)
    running = asyncio.ensure_future(run_workflow(machine, clock=clock))
    due = 0
    for delay in delays:
        if delay:
            for _ in range(200):
                await asyncio.sleep(0)
                if clock.scheduled == 1 and not running.done():
                    break
            await clock.advance(delay - 0.001)
            assert not running.done()
            await clock.advance(0.001)
        due += delay
    run = await asyncio.wait_for(running, 2)
    assert run.status == "completed"
    starts = [event.ts for event in run.trace if event.type == "transition.started"]
    expected = [100_000]
    for delay in delays:
        expected.append(expected[-1] + 1000 * delay)
    assert starts == expected


async def test_delays_are_skipped_without_a_clock() -> None:
    started = time.monotonic()
    run = await run_workflow(failing(3, retry=Retry(attempts=3, delay=60.0, max_delay=3600.0)))
    assert time.monotonic() - started < 2
    assert (run.status, len(run.path)) == ("completed", 4)


def hanging(**options: Any) -> Any:
    late: list[str] = []

    class Hanging(StateMachine):
        @transition(to="end", **options)
        async def hang(self, ctx: MachineCtx) -> None:
            ctx.state["begun"] = True
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                late.append("cleaning up")
                ctx.save(Note(text="late"))
                late.append("never")

    Hanging.late = late
    return Hanging


async def test_a_timed_out_attempt_is_retried_and_has_no_late_effect() -> None:
    clock = TestClock(0.0)
    machine = hanging(timeout=2.0, retry=Retry(attempts=1, delay=5.0), error_place="slow")
    running = asyncio.ensure_future(run_workflow(machine, clock=clock))
    await clock.wait_for_scheduled()
    await clock.advance(2.0)
    await clock.wait_for_scheduled()
    await clock.advance(5.0)
    await clock.wait_for_scheduled()
    await clock.advance(2.0)
    run = await asyncio.wait_for(running, 2)
    assert (run.status, run.place, run.path) == ("failed", "slow", ["hang", "hang"])
    assert failed_events(run) == [(0, True), (1, False)]
    assert run.error is not None
    assert "hang" in run.error.message
    assert "2000" in run.error.message
    assert (run.state, run.document("note"), machine.late) == ({}, None, ["cleaning up"] * 2)


async def test_no_timeout_is_no_bound() -> None:
    clock = TestClock(0.0)

    class Slow(StateMachine):
        @transition(to="end", timeout=0)
        async def wait(self, ctx: MachineCtx) -> None:
            await clock.sleep(10_000)

    running = asyncio.ensure_future(run_workflow(Slow, clock=clock))
    await clock.wait_for_scheduled()
    assert clock.scheduled == 1
    await clock.advance(10_000)
    assert (await asyncio.wait_for(running, 2)).status == "completed"


async def test_a_default_timeout_is_five_minutes() -> None:
    clock = TestClock(0.0)
    running = asyncio.ensure_future(run_workflow(hanging(), clock=clock))
    await clock.wait_for_scheduled()
    await clock.advance(299.999)
    assert not running.done()
    await clock.advance(0.001)
    run = await asyncio.wait_for(running, 2)
    assert run.error is not None
    assert (run.status, "300000" in run.error.message) == ("failed", True)


async def test_a_tools_own_text_is_not_shown_and_a_refusal_is() -> None:
    @tool(effects="read")
    def broken(how: str) -> None:
        if how == "refuse":
            raise ToolRefusal("closed on Sundays")
        raise RuntimeError("PRIVATE row 9")

    def calling(how: str) -> Any:
        class Calling(StateMachine):
            @transition
            async def call(self, ctx: MachineCtx) -> None:
                await ctx.call_tool(broken, {"how": how})

        return Calling

    run = await run_workflow(calling("raise"))
    assert run.error is not None
    assert (run.status, "tool broken failed" in run.error.message) == ("failed", True)
    for told in (str(run.outcome), str([event.to_wire() for event in run.trace]), str(run.documents)):
        assert "PRIVATE" not in told
    assert isinstance(run.exception, RuntimeError)
    refused = await run_workflow(calling("refuse"))
    assert refused.error is not None
    assert (refused.status, "closed on Sundays" in refused.error.message) == ("failed", True)


async def test_a_body_may_handle_a_tools_error_itself() -> None:
    @tool
    def broken() -> None:
        raise RuntimeError("x")

    class Handling(StateMachine):
        @transition
        async def call(self, ctx: MachineCtx) -> None:
            try:
                await ctx.call_tool(broken)
            except Exception as error:
                ctx.result["told"] = str(error)

    run = await run_workflow(Handling)
    assert (run.status, run.result) == ("completed", {"told": "tool broken failed"})
    assert [event.type for event in run.tool_calls] == ["tool.failed"]
    with_script = await run_workflow(
        Handling, replay={"version": 3, "recordings": [{"tool": "broken", "envelope": {"error": "503"}}]}
    )
    assert (with_script.status, with_script.result) == ("completed", {"told": "503"})


@pytest.mark.parametrize("value", ["text", 1, ["x"], {"state": 1}, True])
async def test_a_body_that_returns_something_fails_and_is_named(value: Any) -> None:
    class Returning(StateMachine):
        @transition
        def only(self, ctx: MachineCtx) -> Any:
            ctx.state["kept"] = 1
            return value

    run = await run_workflow(Returning)
    assert (run.status, run.state, run.path) == ("failed", {}, ["only"])
    assert run.error is not None
    assert "only" in run.error.message
    assert "Returning" in run.error.message


async def test_a_state_that_does_not_fit_names_all_there_is() -> None:
    class State(BaseModel):
        n: int = 0

    class Typed(StateMachine, state=State):
        @transition(to="half")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state.n = 1

        @transition(from_="half", to="end")
        def spoil(self, ctx: MachineCtx) -> None:
            ctx.state.n = "many"

    run = await run_workflow(Typed)
    assert (run.status, run.place, run.path, run.state) == ("failed", "half", ["begin", "spoil"], {"n": 1})
    assert run.error is not None
    for part in ("spoil", "end", "Typed", "n"):
        assert part in run.error.message


async def test_a_failed_attempt_counts_as_covered() -> None:
    machine = failing(1, error_place="broken")
    told = coverage([await run_workflow(machine)], machine)
    assert (told.missing_transitions, told.missing_parks, told.complete) == ([], [], True)


@tool
def noted() -> str:
    return "never"


class Child(StateMachine):
    @transition
    def only(self, ctx: MachineCtx) -> None: ...


async def save_late(ctx: MachineCtx) -> None:
    ctx.save(Note(text="late"))


async def call_late(ctx: MachineCtx) -> None:
    await ctx.call_tool(noted)


async def start_late(ctx: MachineCtx) -> None:
    ctx.start(Child)


async def step_late(ctx: MachineCtx) -> None:
    await ctx.step("late", lambda: 1)


async def replace_late(ctx: MachineCtx) -> None:
    ctx.state = {"late": True}


@pytest.mark.parametrize("late", [save_late, call_late, start_late, step_late, replace_late])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_body_that_cleans_up_after_its_timeout_has_timed_out(late: Any, grouped: bool) -> None:
    clock = TestClock(0.0)

    class Cleaning(StateMachine):
        @transition(to="end", timeout=1.0, error_place="slow")
        async def work(self, ctx: MachineCtx) -> None:
            if not grouped:
                await self.wait(ctx)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.wait(ctx))

        async def wait(self, ctx: MachineCtx) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await late(ctx)

        @transition(from_="slow", to="end")
        def give_up(self, ctx: MachineCtx) -> None:
            ctx.result["gave_up"] = True

    running = asyncio.ensure_future(run_workflow(Cleaning, clock=clock))
    await clock.wait_for_scheduled()
    await clock.advance(1.0)
    run = await asyncio.wait_for(running, 2)
    assert (run.status, run.outcome.status, run.place, run.path) == ("failed", "error", "slow", ["work"])
    assert run.error is not None
    assert ("1000" in run.error.message, run.error.code) == (True, "timeout")
    assert (run.state, run.children, run.tool_calls, len(run.documents)) == ({}, [], [], 1)
    again = await run.answer("give_up")
    assert (again.status, again.result) == ("completed", {"gave_up": True})


def grouped_calls(*calls: Any, **options: Any) -> Any:
    class Grouped(StateMachine):
        @transition(to="end", retry=Retry(attempts=2), **options)
        async def go(self, ctx: MachineCtx) -> None:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(ctx.call_tool(*call))

    return Grouped


async def test_a_write_in_a_task_group_that_may_have_happened_is_not_made_again() -> None:
    made: list[int] = []

    @tool(effects="write", cost_micros=3)
    def write(n: int) -> None:
        made.append(n)
        raise RuntimeError("PRIVATE")

    @tool
    def broken(n: int) -> None:
        raise ToolRefusal("closed")

    for calls in ([(write, {"n": 1})], [(broken, {"n": 2}), (write, {"n": 1})]):
        made.clear()
        run = await run_workflow(grouped_calls(*calls, error_place="broken"))
        assert (run.status, run.outcome.status, run.place) == ("failed", "outcome_unknown", "broken")
        assert (run.path, made) == (["go"], [1])
        assert "PRIVATE" not in str(run.outcome)


async def test_one_failure_in_a_task_group_is_told_as_it_is() -> None:
    @tool
    def broken() -> None:
        raise ToolRefusal("closed")

    run = await run_workflow(grouped_calls((broken,)))
    assert run.outcome.error is not None
    assert (run.outcome.error.code, run.outcome.error.message) == ("tool_failed", "closed")
    assert run.path == ["go", "go", "go"]
    two = await run_workflow(grouped_calls((broken,), (broken,)))
    assert (two.status, two.outcome.status) == ("failed", "error")


class Interrupted:
    """A write that never ends, and a machine in which it is interrupted."""

    def __init__(self) -> None:
        self.made = 0
        self.begun = asyncio.Event()

        @tool(effects="write", cost_micros=5, timeout=None)
        async def write() -> None:
            self.made += 1
            self.begun.set()
            await asyncio.Event().wait()

        self.write = write

    async def fails(self) -> None:
        await self.begun.wait()
        raise ValueError("a sibling failed")

    def machine(self, how: str) -> Any:
        outer = self

        class Writing(StateMachine):
            @transition(to="end", timeout=1.0, retry=Retry(attempts=2), error_place="broken")
            async def go(self, ctx: MachineCtx) -> None:
                if how == "task group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(ctx.call_tool(outer.write))
                        group.create_task(outer.fails())
                elif how == "parallel":
                    await ctx.parallel([lambda: ctx.call_tool(outer.write), outer.fails])
                elif how == "wait_for":
                    await asyncio.wait_for(ctx.call_tool(outer.write), 0.001)
                else:
                    await ctx.call_tool(outer.write)

        return Writing


@pytest.mark.parametrize("how", ["timeout", "task group", "parallel", "wait_for"])
async def test_a_write_that_was_interrupted_is_not_made_again(how: str) -> None:
    writing, clock = Interrupted(), TestClock()
    running = asyncio.ensure_future(run_workflow(writing.machine(how), clock=clock))
    await asyncio.wait_for(writing.begun.wait(), 2)
    if how == "timeout":
        await clock.advance(1.0)
    run = await asyncio.wait_for(running, 2)
    assert (run.status, run.outcome.status, run.place) == ("failed", "outcome_unknown", "broken")
    assert (run.path, writing.made) == (["go"], 1)
    assert failed_events(run) == [(0, False)]


async def test_a_write_that_a_body_lets_go_of_may_still_succeed() -> None:
    writing = Interrupted()

    class Patient(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            try:
                await asyncio.wait_for(ctx.call_tool(writing.write), 0.001)
            except TimeoutError:
                ctx.result["gave_up"] = True

    run = await run_workflow(Patient)
    assert (run.status, run.result) == ("completed", {"gave_up": True})


async def test_a_machine_that_is_cancelled_in_a_write_may_have_made_it() -> None:
    writing = Interrupted()
    async with Engine(journal=InMemoryStore()) as engine:
        handle = engine.run(writing.machine("timeout"), run_id="r")
        await asyncio.wait_for(writing.begun.wait(), 2)
        await handle.cancel("enough")
        outcome = await asyncio.wait_for(handle.result(), 2)
        assert outcome.status == "outcome_unknown"
        resumed = await engine.resume("r", writing.machine("timeout")).result()
    assert (resumed.status, writing.made) == ("outcome_unknown", 1)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("child", "raises"),
        ("agent", "raises"),
        ("child", "timeout"),
        ("agent", "timeout"),
        ("model", "timeout"),
    ],
)
async def test_a_write_below_a_transition_is_not_made_again(kind: str, how: str) -> None:
    made: list[int] = []
    begun = asyncio.Event()

    @tool(effects="write", cost_micros=5, timeout=None)
    async def write() -> None:
        made.append(1)
        begun.set()
        if how == "raises":
            raise RuntimeError("PRIVATE")
        await asyncio.Event().wait()

    class Child(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(write)

    steps = [tool_calls({"tool_id": "write", "input": {}})] * 3
    agent = Agent(id="child", model=scripted_model(steps), tools=[write])

    class Parent(StateMachine):
        @transition(to="end", timeout=1.0, retry=Retry(attempts=2), error_place="broken")
        async def go(self, ctx: MachineCtx) -> None:
            if kind == "model":
                await ctx.agent("hi", tools=[write])
            else:
                await ctx.workflow(Child if kind == "child" else agent, "hi")

    clock = TestClock()
    running = asyncio.ensure_future(run_workflow(Parent, clock=clock, models=scripted_model(steps)))
    await asyncio.wait_for(begun.wait(), 2)
    if how == "timeout":
        await clock.advance(1.0)
    run = await asyncio.wait_for(running, 2)
    assert (run.path, len(made), run.place) == (["go"], 1, "broken")
    assert (run.status, run.outcome.status) == ("failed", "outcome_unknown")
    assert "PRIVATE" not in str(run.outcome)
