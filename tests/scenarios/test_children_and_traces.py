"""More scenarios of children, their callbacks, and the trace of a run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import App, Ctx, FanOut, MachineCtx, Retry, Sequence, StateMachine, tool, transition, workflow
from rulvar.errors import ConfigError
from rulvar.hitl import AskUser, ask_clarification
from rulvar.testing import TestClock, coverage, diff_traces, failure, queue, run_workflow, tool_mock


class Number(BaseModel):
    n: int


class Doubler(StateMachine, args=Number):
    """Doubles its number; a negative one fails."""

    @transition
    def double(self, ctx: MachineCtx) -> None:
        if ctx.args.n < 0:
            raise ValueError("negative")
        ctx.result["n"] = 2 * ctx.args.n


def parent_of(child: Any, args: Any = None, meta: Any = None, **options: Any) -> Any:
    """Return a machine that starts a child and tells how it ended."""

    class Parent(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(child, args, on_done="done", meta=meta)

        @transition(from_="waiting", to="end", wait=True, **options)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = {
                "id": input.id,
                "status": input.status,
                "data": input.data,
                "message": input.message,
                "meta": input.meta,
            }

    return Parent


async def test_a_child_that_completes_is_told() -> None:
    run = await run_workflow(parent_of(Doubler, {"n": 2}, {"key": "a"}))
    [child] = run.children
    assert (run.status, run.path) == ("completed", ["begin", "done"])
    assert run.result == {
        "id": child.run_id,
        "status": "completed",
        "data": {"n": 4},
        "message": None,
        "meta": {"key": "a"},
    }
    assert (child.name, child.args, child.status, child.result) == (
        "doubler",
        {"n": 2},
        "completed",
        {"n": 4},
    )
    assert (child.has_error, child.error, child.available_transitions, child.children) == (
        False,
        None,
        [],
        [],
    )


async def test_a_child_that_fails_is_told_and_never_raises() -> None:
    run = await run_workflow(parent_of(Doubler, {"n": -1}))
    [child] = run.children
    assert (run.status, run.result["status"], run.result["data"]) == ("completed", "failed", None)
    assert "negative" in run.result["message"]
    assert (child.status, child.has_error, "negative" in child.error) == ("failed", True, True)


async def test_a_child_that_fails_into_the_parents_error_place() -> None:
    run = await run_workflow(parent_of(Doubler, {"n": -1}, error_place="recovery"))
    assert (run.status, run.place, run.path) == ("failed", "recovery", ["begin", "done"])
    assert run.error is not None
    assert "negative" in run.error.message
    [failed] = [event for event in run.trace if event.type == "transition.failed"]
    assert (failed.will_retry, "durationMs" in failed) == (False, False)


async def test_a_childs_result_that_does_not_fit_the_payload_is_a_failure_of_the_child() -> None:
    class Wanted(BaseModel):
        text: str

    run = await run_workflow(parent_of(Doubler, {"n": 2}, payload=Wanted))
    assert (run.status, run.result["status"], run.result["data"]) == ("completed", "failed", None)
    assert "text" in run.result["message"]


async def test_arguments_of_a_child_are_checked_where_it_is_started() -> None:
    run = await run_workflow(parent_of(Doubler, {"n": "many"}))
    assert (run.status, run.place, run.children) == ("failed", "start", [])
    assert run.error is not None
    assert "n" in run.error.message


async def test_two_children_one_after_another() -> None:
    class Twice(StateMachine):
        @transition(to="first")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": 1}, on_done="got_first")

        @transition(from_="first", to="between", wait=True)
        def got_first(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["n"] = input.data["n"]

        @transition(from_="between", to="second")
        def go_on(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": ctx.state["n"]}, on_done="got_second")

        @transition(from_="second", to="end", wait=True)
        def got_second(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["n"] = input.data["n"]

    run = await run_workflow(Twice)
    assert run.path == ["begin", "got_first", "go_on", "got_second"]
    assert ([child.result["n"] for child in run.children], run.result) == ([2, 4], {"n": 4})
    assert [child.status for child in run.children] == ["completed"] * 2
    settled = [event.status for event in run.trace if event.type == "run.settled"]
    assert settled == ["waiting", "waiting", "completed"]


async def test_a_callback_waits_until_it_can_be_taken() -> None:
    class Patient(StateMachine):
        @transition(to="busy")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": 4}, on_done="done")

        @transition(from_="busy", to="free", wait=True)
        def freed(self, ctx: MachineCtx) -> None: ...

        @transition(from_="free", to="end", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    parked = await run_workflow(Patient)
    assert (parked.status, parked.place, parked.path) == ("waiting", "busy", ["begin"])
    assert parked.children[0].status == "completed"
    run = await parked.answer("freed")
    assert (run.status, run.path, run.result) == ("completed", ["begin", "freed", "done"], {"n": 8})
    scripted = await run_workflow(Patient, answers={"freed": None})
    assert scripted.path == run.path


async def test_a_guard_keeps_a_callback_out_until_it_holds() -> None:
    class Guarded(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["ready"] = False
            ctx.start(Doubler, {"n": 1}, on_done="done")

        def is_ready(self, state: Any) -> bool:
            return bool(state["ready"])

        @transition(from_="open", to="open", wait=True)
        def prepare(self, ctx: MachineCtx) -> None:
            ctx.state["ready"] = True

        @transition(from_="open", to="end", wait=True, guard="is_ready")
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    parked = await run_workflow(Guarded)
    assert (parked.status, parked.path) == ("waiting", ["begin"])
    run = await parked.answer("prepare")
    assert (run.status, run.path, run.result) == ("completed", ["begin", "prepare", "done"], {"n": 2})


async def test_children_of_one_transition_are_told_in_the_order_in_which_they_were_started() -> None:
    class Three(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["order"] = []
            for n in (3, 1, 2):
                ctx.start(Doubler, {"n": n}, on_done="done", meta=n)

        def has_all(self, state: Any) -> bool:
            return len(state["order"]) == 3

        @transition(from_="waiting", to="end", guard="has_all")
        def finish(self, ctx: MachineCtx) -> None:
            ctx.result = ctx.state["order"]

        @transition(from_="waiting", to="waiting", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["order"].append([input.meta, input.data["n"]])

    run = await run_workflow(Three)
    assert run.path == ["begin", "done", "done", "done", "finish"]
    assert run.result == [[3, 6], [1, 2], [2, 4]]


async def test_a_plain_workflow_may_be_the_child_and_its_name_stands() -> None:
    @workflow(name="adder")
    async def add(ctx: Ctx, args: Any) -> Any:
        return args["a"] + args["b"]

    run = await run_workflow(parent_of(add, {"a": 1, "b": 2}))
    assert (run.result["data"], run.children[0].name, run.children[0].place) == (3, "adder", None)


async def test_a_child_without_a_callback_tells_nobody() -> None:
    class Launcher(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.result["child"] = ctx.start(Doubler, {"n": 1})

    run = await run_workflow(Launcher)
    assert (run.status, run.path) == ("completed", ["begin"])
    assert (run.result["child"], run.children[0].status) == (run.children[0].run_id, "completed")


async def test_an_answer_that_both_wait_for_goes_to_the_root() -> None:
    class Inner(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True)
        def reply(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["got"] = input.data

    class Outer(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Inner, on_done="done")

        @transition(from_="open", to="later", wait=True)
        def reply(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["got"] = input.data

        @transition(from_="later", to="end", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result.update(outer=ctx.state["got"], inner=input.data["got"])

    run = await run_workflow(Outer, answers={"reply": queue("first", "second")})
    assert (run.status, run.result) == ("completed", {"outer": "first", "inner": "second"})
    one = await run_workflow(Outer, answers={"reply": queue("only")})
    assert (one.status, one.place, one.children[0].status) == ("waiting", "later", "waiting")


async def test_of_two_children_the_first_is_answered_first_depth_first() -> None:
    class Asking(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(AskUser, {"question": "deep?"}, on_done="done")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    class Root(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["got"] = []
            ctx.start(Asking, on_done="done", meta="deep")
            ctx.start(AskUser, {"question": "near?"}, on_done="done", meta="near")

        @transition(from_="waiting", to="waiting", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["got"].append([input.meta, input.data["answer"]])

    answers = {"user_answered": queue({"answer": 1}, {"answer": 2})}
    run = await run_workflow(Root, answers=answers)
    assert run.state["got"] == [["deep", 1], ["near", 2]]


@pytest.mark.parametrize("kind", [FanOut, Sequence])
async def test_many_children_with_nothing_to_do(kind: Any) -> None:
    run = await run_workflow(parent_of(kind.of(Doubler), {"items": {}}))
    assert run.result["data"] == {"results": {}, "has_errors": False, "error_count": 0}


async def test_a_sequence_stops_at_the_first_failure_and_all_that_did_not_complete_are_errors() -> None:
    items = {"a": {"n": 1}, "b": {"n": -1}, "c": {"n": 3}, "d": {"n": 4}}
    run = await run_workflow(parent_of(Sequence.of(Doubler), {"items": items}))
    told = run.result["data"]
    assert {key: item["status"] for key, item in told["results"].items()} == {
        "a": "completed",
        "b": "failed",
        "c": "skipped",
        "d": "skipped",
    }
    assert (told["has_errors"], told["error_count"]) == (True, 3)
    assert [child.args["n"] for child in run.children[0].children] == [1, -1]


async def test_a_sequence_that_settles_all_goes_on() -> None:
    items = [{"n": 1}, {"n": -1}, {"n": 3}]
    run = await run_workflow(parent_of(Sequence.of(Doubler), {"items": items, "mode": "all_settled"}))
    told = run.result["data"]
    assert [item["status"] for item in told["results"]] == ["completed", "failed", "completed"]
    assert [item["data"] for item in told["results"]] == [{"n": 2}, None, {"n": 6}]
    assert (told["has_errors"], told["error_count"]) == (True, 1)


@pytest.mark.parametrize("mode", ["all", "all_settled"])
async def test_what_has_ended_when_a_sibling_fails_is_no_skipped_child(mode: str) -> None:
    items = [{"n": 1}, {"n": -1}, {"n": 3}]
    run = await run_workflow(parent_of(FanOut.of(Doubler), {"items": items, "mode": mode}))
    told = run.result["data"]
    assert [item["status"] for item in told["results"]] == ["completed", "failed", "completed"]
    assert (told["has_errors"], told["error_count"]) == (True, 1)


async def test_a_fan_out_does_not_wait_for_a_person_when_a_sibling_has_failed() -> None:
    class Asking(StateMachine, args=Number):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            if ctx.args.n < 0:
                raise ValueError("negative")

        @transition(from_="open", to="end", wait=True)
        def reply(self, ctx: MachineCtx) -> None: ...

    items = [{"n": 1}, {"n": -1}]
    run = await run_workflow(parent_of(FanOut.of(Asking), {"items": items}))
    told = run.result["data"]
    assert run.status == "completed"
    assert told["results"][1]["status"] == "failed"
    assert told["results"][0]["status"] in ("cancelled", "skipped")
    assert (told["has_errors"], told["error_count"]) == (True, 2)


async def test_overrides_reach_the_tools_of_children_of_a_fan_out() -> None:
    @tool
    def price(item: str) -> int:
        raise AssertionError("live")

    class Pricing(StateMachine):
        @transition
        async def ask(self, ctx: MachineCtx) -> None:
            ctx.result["price"] = await ctx.call_tool(price, {"item": ctx.args})

    mock = tool_mock(price)
    mock.side_effect = [{"data": 1}, {"data": 2}]
    run = await run_workflow(parent_of(FanOut.of(Pricing), {"items": ["a", "b"]}), overrides={price: mock})
    assert [item["data"]["price"] for item in run.result["data"]["results"]] == [1, 2]
    assert mock.await_count == 2


async def test_a_tool_object_lives_through_parks() -> None:
    count = 100

    @tool
    def next_number() -> int:
        nonlocal count
        count += 1
        return count

    class Counting(StateMachine):
        @transition(to="open")
        async def begin(self, ctx: MachineCtx) -> None:
            ctx.state["seen"] = [await self.next(ctx) for _ in range(3)]

        @transition(from_="open", to="end", wait=True)
        async def more(self, ctx: MachineCtx) -> None:
            ctx.state["seen"] += [await self.next(ctx) for _ in range(3)]
            ctx.result = ctx.state["seen"]

        async def next(self, ctx: MachineCtx) -> Any:
            return await ctx.call_tool(next_number)

    run = await run_workflow(Counting, answers={"more": None})
    assert run.result == [101, 102, 103, 104, 105, 106]
    assert [event.tool_seq for event in run.tool_calls] == [0, 1, 2, 0, 1, 2]


async def test_the_trace_of_a_parent_and_its_child() -> None:
    run = await run_workflow(parent_of(Doubler, {"n": 2}), clock=TestClock(7.0))
    types = [event.type for event in run.trace]
    assert types[:3] == ["transition.started", "child.queued", "transition.completed"]
    assert sorted(types[3:5]) == ["child.settled", "run.settled"]
    assert types[5:] == ["transition.started", "transition.completed", "run.settled"]
    [child] = run.children
    by_type = {event.type: event for event in run.trace}
    assert (by_type["child.queued"].workflow_name, by_type["child.queued"].transition_id) == (
        "doubler",
        "begin",
    )
    assert by_type["child.queued"].child_workflow_id == child.run_id
    assert (by_type["child.settled"].status, by_type["child.settled"].child_workflow_id) == (
        "completed",
        child.run_id,
    )
    assert [event.seq for event in run.trace] == list(range(len(run.trace)))
    assert {event.ts for event in (*run.trace, *child.trace)} == {7000}
    assert [event.type for event in child.trace] == [
        "transition.started",
        "transition.completed",
        "run.settled",
    ]
    assert [event.seq for event in child.trace] == [0, 1, 2]


class Stateful(StateMachine):
    @transition(to="open")
    def begin(self, ctx: MachineCtx) -> None:
        ctx.state.update(kept=1, changed=1, gone=1)

    @transition(from_="open", to="end", wait=True)
    def change(self, ctx: MachineCtx, input: Any) -> None:
        ctx.state["changed"] = {"deep": [1]}
        ctx.state["kept"] = 1
        ctx.state["added"] = None
        del ctx.state["gone"]
        ctx.result["x"] = 1


async def test_state_differences_are_per_key() -> None:
    run = await run_workflow(Stateful, answers={"change": {"p": [1, 2]}})
    first, second = [event for event in run.trace if event.type == "transition.completed"]
    assert first.state_diff == {"kept": {"after": 1}, "changed": {"after": 1}, "gone": {"after": 1}}
    assert first.result_dirty is False
    assert second.state_diff == {
        "changed": {"before": 1, "after": {"deep": [1]}},
        "added": {"after": None},
        "gone": {"before": 1},
    }
    assert second.result_dirty is True
    started = [event for event in run.trace if event.type == "transition.started"]
    assert ("payload" in started[0], started[1].payload) == (False, {"p": [1, 2]})
    assert [(event["from"], event.to) for event in started] == [("start", "open"), ("open", "end")]
    assert [event.seq for event in run.trace] == list(range(6))


async def test_traces_that_part() -> None:
    def rounds(n: int) -> Any:
        class Rounds(StateMachine):
            @transition(to="a")
            def begin(self, ctx: MachineCtx) -> None:
                ctx.state["n"] = 0

            def is_done(self, state: Any) -> bool:
                return bool(state["n"] == n)

            @transition(from_="a", to="end", guard="is_done", priority=1)
            def finish(self, ctx: MachineCtx) -> None: ...

            @transition(from_="a", to="a")
            def again(self, ctx: MachineCtx) -> None:
                ctx.state["n"] += 1

        return Rounds

    one, two = await run_workflow(rounds(1)), await run_workflow(rounds(2))
    assert diff_traces(one, await run_workflow(rounds(1), clock=TestClock(9.0))) is None
    parted = diff_traces(one, two)
    assert parted is not None
    assert (parted.index, "transitionId" in parted.reason) == (4, True)
    assert "finish" in parted.reason
    assert "again" in parted.reason
    shorter = diff_traces(two.trace, two.trace[:-2])
    assert shorter is not None
    assert (shorter.index, shorter.actual) == (len(two.trace) - 2, None)
    assert "2" in shorter.reason
    longer = diff_traces(two.trace[:-2], two.trace)
    assert longer is not None
    assert (longer.index, longer.expected) == (len(two.trace) - 2, None)
    assert "2" in longer.reason


async def test_a_retry_and_a_last_failure_are_two_behaviours() -> None:
    def failing(attempts: int) -> Any:
        class Failing(StateMachine):
            @transition(to="end", retry=Retry(attempts=attempts))
            def work(self, ctx: MachineCtx) -> None:
                raise ValueError("x")

        return Failing

    parted = diff_traces(await run_workflow(failing(1)), await run_workflow(failing(0)))
    assert parted is not None
    assert (parted.index, "willRetry" in parted.reason) == (1, True)


async def test_coverage_of_branches_and_of_children() -> None:
    class Branch(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True)
        def accept(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True)
        def decline(self, ctx: MachineCtx) -> None: ...

    accepted = await run_workflow(Branch, answers={"accept": None})
    declined = await run_workflow(Branch, answers={"decline": None})
    half = coverage([accepted], Branch)
    assert (half.workflow, half.missing_transitions, half.missing_parks) == ("branch", ["decline"], [])
    assert (half.declared_parks, half.parked_on) == ({"accept", "decline"}, ["accept", "decline"])
    assert half.executed_transitions == {"begin", "accept"}
    assert coverage([accepted, declined], Branch).complete is True
    nothing = coverage([], Branch)
    assert (nothing.missing_transitions, nothing.missing_parks) == (
        ["begin", "accept", "decline"],
        ["accept", "decline"],
    )
    below = await run_workflow(parent_of(Branch), answers={"decline": None})
    assert coverage([below], Branch).missing_transitions == ["accept"]
    assert coverage([accepted], Doubler).executed_transitions == frozenset()


async def test_a_question_below_a_tool_is_answered_and_the_call_goes_on() -> None:
    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            told = await ctx.call_tool(ask_clarification, {"question": "Which?"})
            ctx.result["answer"] = told["answer"]

    parked = await run_workflow(Asking)
    assert (parked.status, parked.path) == ("waiting", [])
    assert [child.name for child in parked.children] == ["ask_user"]
    run = await run_workflow(Asking, answers={"user_answered": {"answer": False}})
    assert (run.status, run.result, run.path) == ("completed", {"answer": False}, ["go"])
    assert [event.type for event in run.tool_calls] == ["tool.completed"]


async def test_a_question_below_a_tool_that_fails_fails_the_call() -> None:
    class Asking(StateMachine):
        @transition(to="end", error_place="lost")
        async def go(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(ask_clarification, {"question": "Which?"})

    run = await run_workflow(Asking, answers={"user_answered": failure("the user left")})
    assert (run.status, run.place) == ("failed", "lost")
    assert [event.type for event in run.tool_calls] == ["tool.failed"]


async def test_a_wrong_child_is_refused_before_anything_starts() -> None:
    class Wrong(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": 1}, on_done="nosuch")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Wrong)
    assert (run.status, run.children) == ("failed", [])
    assert run.error is not None
    assert "nosuch" in run.error.message
    with pytest.raises(ConfigError):
        App("x", machines=[Doubler, "no machine"])  # type: ignore[list-item]
