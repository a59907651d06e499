"""How a machine runs: drafts, guards, failures, retries, timeouts, recovery."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from rulvar import Engine, MachineCtx, Retry, StateMachine, document, tool, transition
from rulvar.errors import ResolutionError, TransitionAborted
from rulvar.testing import TestClock, queue, run_transition, run_workflow


@document
@dataclass
class Note:
    text: str


async def test_a_failed_attempt_leaves_no_state_result_or_document() -> None:
    class Failing(StateMachine):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = 1
            ctx.result["n"] = 1
            ctx.save(Note("kept"))

        @transition("end", "x")
        def fail(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = 2
            ctx.result["n"] = 2
            ctx.save(Note("lost"))
            assert [item.content["text"] for item in ctx.documents] == ["kept", "lost"]
            raise RuntimeError("no")

    run = await run_workflow(Failing)
    assert (run.status, run.place, run.path) == ("failed", "x", ["begin", "fail"])
    assert (run.state, run.result) == ({"n": 1}, {"n": 1})
    assert [item.name for item in run.documents] == ["note", "error"]
    assert run.document("error") == {"message": "no", "code": "error"}
    assert isinstance(run.exception, RuntimeError)


async def test_a_body_returns_nothing() -> None:
    class Returning(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> Any:
            return {"severity": "high"}

    run = await run_workflow(Returning)
    assert run.error is not None
    assert "'begin' of Returning returned dict" in run.error.message


@dataclass
class Counted:
    turns: int = 0
    log: list[str] = field(default_factory=list)


async def test_a_typed_state_has_its_defaults_and_is_checked_after_every_transition() -> None:
    class Typed(StateMachine, state=Counted):
        def fresh(self, state: Counted) -> bool:
            return state.turns == 0

        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            assert isinstance(ctx.state, Counted)

        @transition("x", "x", guard="fresh")
        def count(self, ctx: MachineCtx) -> None:
            ctx.state.turns += 1
            ctx.state.log.append("counted")

        @transition("end", "x")
        def spoil(self, ctx: MachineCtx) -> None:
            ctx.state.turns = "many"

    run = await run_workflow(Typed)
    assert run.path == ["begin", "count", "spoil"]
    assert run.state == {"turns": 1, "log": ["counted"]}
    assert run.error is not None
    for part in ("'spoil' of Typed", "'end'", "turns", "integer"):
        assert part in run.error.message
    assert run.outcome.error is not None
    assert run.outcome.error.code == "invalid_output"


async def test_a_state_model_may_be_filled_by_the_first_transition() -> None:
    class Found(BaseModel):
        severity: str
        keyword: str | None

    class Filling(StateMachine, state=Found):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state.severity = "high"
            ctx.state.keyword = None

    run = await run_workflow(Filling)
    assert (run.status, run.state) == ("completed", {"severity": "high", "keyword": None})


async def test_state_and_result_may_be_replaced() -> None:
    class Replacing(StateMachine):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state.update(a=1, b={"deep": [1]})
            ctx.result = [1]

        @transition("y", "x")
        def change(self, ctx: MachineCtx) -> None:
            ctx.state["b"]["deep"].append(2)
            del ctx.state["a"]
            ctx.result = {"first": ctx.result[0]}

        @transition("end", "y")
        def replace(self, ctx: MachineCtx) -> None:
            assert ctx.state == {"b": {"deep": [1, 2]}}
            ctx.state = {"c": ctx.state.b}

    run = await run_workflow(Replacing)
    assert (run.state, run.result) == ({"c": {"deep": [1, 2]}}, {"first": 1})
    diffs = [event.state_diff for event in run.trace if event.type == "transition.completed"]
    assert diffs[1] == {"a": {"before": 1}, "b": {"before": {"deep": [1]}, "after": {"deep": [1, 2]}}}


async def test_true_and_one_are_different_states() -> None:
    class Sly(StateMachine):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = 1

        @transition("end", "x")
        def change(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = True

    assert (await run_workflow(Sly)).state["n"] is True


async def test_a_state_that_json_cannot_hold_fails_the_transition_and_names_the_field() -> None:
    class Odd(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["seen"] = {"a": {1, 2}}

    run = await run_workflow(Odd)
    assert run.error is not None
    assert "state after transition 'begin'.seen.a" in run.error.message


def guarded(open_at: int) -> type[StateMachine]:
    class Guarded(StateMachine):
        def is_open(self, state: Any) -> bool:
            return bool(state["knocks"] >= open_at)

        @transition("door")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["knocks"] = 0

        @transition("door", "door", wait=True)
        def knock(self, ctx: MachineCtx) -> None:
            ctx.state.knocks += 1

        @transition("end", "door", wait=True, guard="is_open")
        def enter(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    return Guarded


async def test_a_guard_refuses_an_answer_and_nothing_is_lost() -> None:
    entering = queue("hello")
    run = await run_workflow(guarded(1), answers={"enter": entering})
    assert (run.status, run.path) == ("waiting", ["begin"])
    assert run.available_transitions == ["knock", "enter"]
    assert run.error is not None
    assert "'is_open'" in run.error.message
    again = await run_workflow(guarded(1), answers={"knock": queue(None), "enter": entering})
    assert (again.status, again.path, again.result) == ("completed", ["begin", "knock", "enter"], "hello")


async def test_a_guard_is_asked_before_an_answer_to_a_run_at_rest_is_journaled() -> None:
    machine = guarded(1)
    async with Engine() as engine:
        handle = engine.run(machine, run_id="r")
        assert (await handle.result()).status == "suspended"
        before = len(await engine.store.load("r"))
        with pytest.raises(ResolutionError, match="is_open"):
            await handle.answer("enter", "x")
        with pytest.raises(ResolutionError, match="does not wait for 'leave'"):
            await handle.answer("leave", "x")
        assert len(await engine.store.load("r")) == before


async def test_an_answer_that_nobody_checked_is_checked_on_resume_and_may_be_no_answer() -> None:
    machine = guarded(1)
    async with Engine() as engine:
        await engine.run(machine, run_id="r").result()
    async with Engine(journal=engine.store) as other:  # it does not know the class
        await other.resolve_external("r", "enter", "too early")
        resumed = other.resume("r", machine)
        outcome = await resumed.result()
        assert [item.transition for item in outcome.pending] == ["knock", "enter"]
        assert len((await resumed.preview()).invalid_resolutions) == 1
        await other.resolve_external("r", "knock", None, wf=machine)
        await other.resume("r", machine).result()
        await other.resolve_external("r", "enter", "now", wf=machine)
        assert (await other.resume("r", machine).result()).value == "now"


async def test_a_guard_that_raises_ends_the_run_and_is_named() -> None:
    class Bad(StateMachine):
        def ready(self, state: Any) -> bool:
            return bool(state["missing"])

        @transition("x")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("end", "x", guard="ready")
        def finish(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Bad)
    assert run.status == "failed"
    assert run.error is not None
    assert "guard 'ready' of transition 'finish' of Bad raised KeyError" in run.error.message


async def test_a_guard_sees_a_state_that_it_cannot_change() -> None:
    class Sneaky(StateMachine):
        def sneak(self, state: Any) -> bool:
            state["n"] = 1
            return True

        @transition("x")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("end", "x", guard="sneak")
        def finish(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Sneaky)
    assert run.error is not None
    assert "does not support item assignment" in run.error.message


async def test_a_dead_park_waits_and_warns() -> None:
    class Dead(StateMachine):
        @transition("nowhere")
        def begin(self, ctx: MachineCtx) -> None: ...

    async with Engine() as engine:
        handle = engine.run(Dead)
        outcome = await asyncio.wait_for(handle.result(), 2)
        warnings = [event["msg"] for event in handle.events_seen() if event.type == "log"]
    assert outcome.status == "suspended"
    assert warnings == ["'dead' waits at 'nowhere', and nothing can answer it"]


class Recovering(StateMachine):
    @transition("working")
    def begin(self, ctx: MachineCtx) -> None:
        ctx.state["tries"] = 0

    @transition("end", "working", error_place="broken")
    def work(self, ctx: MachineCtx) -> None:
        raise RuntimeError("broken pipe")

    @transition("end", "broken")
    def give_up(self, ctx: MachineCtx) -> None:
        ctx.result["gave_up"] = True

    @transition("working", "broken", wait=True)
    def repair(self, ctx: MachineCtx) -> None:
        ctx.state["tries"] += 1


async def test_nothing_fires_by_itself_at_an_error_place_and_everything_may_be_answered() -> None:
    run = await run_workflow(Recovering)
    assert (run.status, run.place) == ("failed", "broken")
    assert run.available_transitions == ["give_up", "repair"]
    assert run.outcome.error is not None
    assert run.outcome.error.data is not None
    assert run.outcome.error.data["availableTransitions"] == ["give_up", "repair"]
    again = await run.resume()
    assert (again.status, again.path) == ("failed", ["begin", "work"])
    repaired = await run.answer("repair")
    assert (repaired.status, repaired.path) == ("failed", ["begin", "work", "repair", "work"])
    ended = await repaired.answer("give_up")
    assert (ended.status, ended.result) == ("completed", {"gave_up": True})


async def test_a_failure_without_error_place_may_be_retried_by_hand() -> None:
    fails = [True, True, False]

    class Flaky(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            if fails.pop(0):
                raise RuntimeError("flaky")
            ctx.result["attempts"] = ctx.retry_count

    run = await run_workflow(Flaky)
    assert (run.status, run.place, run.available_transitions) == ("failed", "start", ["begin"])
    run = await run.answer("begin")
    assert (run.status, run.path) == ("failed", ["begin", "begin"])
    run = await run.answer("begin")
    assert (run.status, run.path, run.result) == ("completed", ["begin"] * 3, {"attempts": 0})


async def test_no_retry_means_final() -> None:
    class Final(StateMachine):
        @transition(retry=Retry(0))
        def begin(self, ctx: MachineCtx) -> None:
            raise RuntimeError("final")

    run = await run_workflow(Final)
    assert (run.status, run.available_transitions, run.park_view()) == ("failed", [], None)


async def test_a_retry_may_start_from_another_place() -> None:
    class Renewing(StateMachine):
        @transition("work")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["token"] = 0

        @transition("work", "renew")
        def renew(self, ctx: MachineCtx) -> None:
            ctx.state["token"] += 1

        @transition("end", "work", retry=Retry(3, target="renew"))
        def use(self, ctx: MachineCtx) -> None:
            if ctx.state["token"] < 2:
                raise RuntimeError("expired")
            ctx.result["attempts"] = ctx.retry_count

    run = await run_workflow(Renewing)
    assert run.path == ["begin", "use", "renew", "use", "renew", "use"]
    assert run.result == {"attempts": 2}


async def test_delays_wait_for_the_clock_and_double() -> None:
    clock = TestClock(100)

    class Slow(StateMachine):
        @transition(retry=Retry(3, delay=1.0), timeout=None)
        def begin(self, ctx: MachineCtx) -> None:
            raise RuntimeError("no")

    running = asyncio.ensure_future(run_workflow(Slow, clock=clock))
    for seconds in (1, 2, 4):
        await clock.wait_for_scheduled()
        await clock.advance(seconds - 0.001)
        assert clock.scheduled == 1
        await clock.advance(0.001)
    run = await asyncio.wait_for(running, 2)
    assert run.path == ["begin"] * 4
    failed = [event.ts for event in run.trace if event.type == "transition.failed"]
    assert failed == [100_000, 101_000, 103_000, 107_000]


def test_delays_are_capped() -> None:
    retry = Retry(delay=1.0, max_delay=30.0)
    assert [retry.pause(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert [Retry(delay=2.0, backoff="fixed").pause(n) for n in (1, 9)] == [2, 2]
    assert retry.pause(10_000) == 30


async def test_what_a_timed_out_body_does_later_has_no_effect() -> None:
    clock = TestClock()
    late: list[Any] = []
    executions: list[int] = []

    @tool
    def effect() -> None:
        executions.append(1)

    class Late(StateMachine):
        @transition(timeout=0.05)
        async def begin(self, ctx: MachineCtx) -> None:
            async def straggler() -> None:
                await asyncio.sleep(0.05)
                for call in (
                    lambda: ctx.save(Note("late")),
                    lambda: ctx.start(Recovering),
                    lambda: setattr(ctx, "state", {}),
                ):
                    try:
                        call()
                    except TransitionAborted as error:
                        late.append(str(error))
                try:
                    await ctx.call_tool(effect)
                except TransitionAborted as error:
                    late.append(str(error))

            self.task.append(asyncio.ensure_future(straggler()))
            await asyncio.Event().wait()

        task: ClassVar[list[Any]] = []

    running = asyncio.ensure_future(run_workflow(Late, clock=clock))
    await clock.wait_for_scheduled()
    clock.advance(0.05)
    run = await asyncio.wait_for(running, 2)
    await Late.task[0]
    assert (run.status, [item.name for item in run.documents]) == ("failed", ["error"])
    assert (len(late), executions) == (4, [])
    assert run.outcome.error is not None
    assert run.outcome.error.code == "timeout"


async def test_a_body_that_turns_its_cancellation_into_another_error_has_still_timed_out() -> None:
    clock = TestClock()

    class Stubborn(StateMachine):
        @transition(timeout=0.05)
        async def begin(self, ctx: MachineCtx) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise RuntimeError("cleaned up") from None

    running = asyncio.ensure_future(run_workflow(Stubborn, clock=clock))
    await clock.wait_for_scheduled()
    clock.advance(1)
    run = await asyncio.wait_for(running, 2)
    assert run.error is not None
    assert "took longer than 50 ms" in run.error.message


async def test_cancelling_a_run_is_no_timeout() -> None:
    class Hanging(StateMachine):
        @transition
        async def begin(self, ctx: MachineCtx) -> None:
            await asyncio.Event().wait()

    async with Engine() as engine:
        handle = engine.run(Hanging, run_id="r")
        await asyncio.sleep(0.01)
        await handle.cancel("enough")
        outcome = await handle.result()
    assert (outcome.status, outcome.error and outcome.error.message) == ("cancelled", "enough")


async def test_run_transition_runs_one_body_with_a_given_state() -> None:
    class Reporting(StateMachine, args=Note):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("y", "x")
        def report(self, ctx: MachineCtx) -> None:
            ctx.save(Note(f"{ctx.args.text}: {ctx.state.severity}"), key="n")
            ctx.result["done"] = True

        @transition("end", "y", wait=True, payload=Note)
        def approve(self, ctx: MachineCtx, input: Any) -> None:
            if input.data.text == "no":
                raise ValueError("denied")
            ctx.state["by"] = input.data.text

    made = await run_transition(Reporting, "report", state={"severity": "high"}, args={"text": "T"})
    assert (made.state, made.result, made.to) == ({"severity": "high"}, {"done": True}, "y")
    assert made.document("n") == {"text": "T: high"}
    assert (await run_transition(Reporting, "approve", payload={"text": "ann"})).state == {"by": "ann"}
    with pytest.raises(ValueError, match="denied"):
        await run_transition(Reporting, "approve", payload={"text": "no"})
    for name, options, said in (
        ("nope", {}, "has no transition 'nope'"),
        ("approve", {"payload": {}}, "payload"),
        ("report", {"payload": 1}, "takes no payload"),
        ("report", {"args": {}}, "text"),
    ):
        with pytest.raises(Exception, match=said):
            await run_transition(Reporting, name, **options)


async def test_a_guard_that_raises_refuses_an_answer_and_the_wait_stays_open() -> None:
    class Guarded(StateMachine):
        @transition("park")
        def begin(self, ctx: MachineCtx) -> None: ...

        def broken(self, state: Any) -> bool:
            return bool(state["missing"])

        @transition("end", "park", wait=True, guard="broken")
        def go(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Guarded, answers={"go": 1})
    assert (run.status, run.place, run.path) == ("waiting", "park", ["begin"])
    assert run.error is not None
    for part in ("'broken'", "'go'", "Guarded", "KeyError", "stays open"):
        assert part in run.error.message


async def test_when_automatic_attempts_are_used_up_it_may_be_tried_by_hand() -> None:
    class Flaky(StateMachine):
        @transition(retry=Retry(1, delay=0.0))
        def work(self, ctx: MachineCtx) -> None:
            if len(done) < 2:
                done.append("failed")
                raise ConnectionError("down")
            ctx.result["ok"] = True

    done: list[str] = []
    run = await run_workflow(Flaky)
    assert (run.status, run.path, run.available_transitions) == ("failed", ["work", "work"], ["work"])
    again = await run.answer("work")
    assert (again.status, again.result) == ("completed", {"ok": True})


async def test_the_error_place_may_be_the_place_that_the_transition_leaves() -> None:
    class Back(StateMachine):
        @transition("begun")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("end", "begun", error_place="begun")
        def work(self, ctx: MachineCtx) -> None:
            raise ConnectionError("down")

        @transition("end", "begun", wait=True)
        def give_up(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Back)
    assert (run.status, run.place, run.available_transitions) == ("failed", "begun", ["work", "give_up"])
    assert (await run.answer("give_up")).status == "completed"


async def test_a_body_whose_time_is_up_may_not_act_while_it_is_cancelled() -> None:
    class Late(StateMachine):
        @transition(timeout=0.05)
        async def work(self, ctx: MachineCtx) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                for act in (lambda: ctx.save("note", {}), lambda: ctx.start("child"), ctx.now):
                    try:
                        act()
                    except TransitionAborted as error:
                        refused.append(str(error))

    refused: list[str] = []
    clock = TestClock()
    running = asyncio.ensure_future(run_workflow(Late, clock=clock))
    await clock.wait_for_scheduled()
    clock.advance(0.051)
    run = await asyncio.wait_for(running, 2)
    assert (run.status, run.error and run.error.code) == ("failed", "timeout")
    assert len(refused) == 3


async def test_a_machine_that_goes_round_for_ever_can_be_cancelled() -> None:
    class Endless(StateMachine):
        @transition("round")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition("round", "round")
        def again(self, ctx: MachineCtx) -> None: ...

    async with Engine() as engine:
        handle = engine.run(Endless, run_id="r")
        running = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0.01)
        await handle.cancel("enough")
        assert (await asyncio.wait_for(running, 5)).status == "cancelled"
