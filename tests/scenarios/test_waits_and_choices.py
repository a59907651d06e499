"""More scenarios of running machines: choices at a place, answers, payloads, queues."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from rulvar import MachineCtx, StateMachine, transition
from rulvar.errors import ConfigError, MachineDefinitionError
from rulvar.testing import failure, queue, run_workflow


def waiting_machine(payload: Any = None, **options: Any) -> Any:
    """Return a machine with one wait, ``got``, whose payload is its result."""

    class Got(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="waiting", to="end", wait=True, payload=payload, **options)
        def got(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["value"] = input.data.model_dump() if isinstance(input.data, BaseModel) else input.data

    return Got


@pytest.mark.parametrize("value", [0, "", [], {}, 0.0, {"a": None}])
async def test_an_empty_value_is_an_answer(value: Any) -> None:
    run = await run_workflow(waiting_machine(), answers={"got": value})
    assert (run.status, run.result, run.path) == ("completed", {"value": value}, ["begin", "got"])


async def test_an_empty_queue_answers_nothing() -> None:
    run = await run_workflow(waiting_machine(), answers={"got": queue()})
    assert (run.status, run.place, run.path) == ("waiting", "waiting", ["begin"])


async def test_a_queue_of_one_none_is_one_answer() -> None:
    run = await run_workflow(waiting_machine(), answers={"got": queue(None)})
    assert (run.status, run.result) == ("completed", {"value": None})


async def test_answers_to_another_transition_leave_the_run_parked() -> None:
    class Two(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="late", wait=True)
        def first(self, ctx: MachineCtx) -> None: ...

        @transition(from_="late", to="end", wait=True)
        def second(self, ctx: MachineCtx) -> None: ...

    with pytest.warns(UserWarning, match="second"):
        run = await run_workflow(Two, answers={"second": True})
    assert (run.status, run.place, run.path) == ("waiting", "open", ["begin"])


async def test_a_name_that_nothing_asks_for_leaves_the_run_parked() -> None:
    with pytest.warns(UserWarning, match="nosuch"):
        run = await run_workflow(waiting_machine(), answers={"nosuch": True})
    assert (run.status, run.path) == ("waiting", ["begin"])


async def test_of_two_waits_the_one_that_is_answered_fires() -> None:
    class Fork(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="open", to="end", wait=True)
        def accept(self, ctx: MachineCtx) -> None:
            ctx.result["accepted"] = True

        @transition(from_="open", to="end", wait=True)
        def decline(self, ctx: MachineCtx) -> None:
            ctx.result["accepted"] = False

    parked = await run_workflow(Fork)
    assert parked.trace[-1].available_transitions == ["accept", "decline"]
    assert parked.available_transitions == ["accept", "decline"]
    run = await run_workflow(Fork, answers={"decline": None})
    assert (run.path, run.result) == (["begin", "decline"], {"accepted": False})
    both = await run_workflow(Fork, answers={"decline": None, "accept": None})
    assert both.path == ["begin", "accept"]  # the order of the transitions decides, not that of the answers


async def test_defaults_of_a_payload_are_applied() -> None:
    class Answer(BaseModel):
        text: str
        times: int = 3

    run = await run_workflow(waiting_machine(Answer), answers={"got": {"text": "x"}})
    assert run.result == {"value": {"text": "x", "times": 3}}


@pytest.mark.parametrize(
    ("value", "field"), [({}, "text"), ({"text": 1}, "text"), ("no object", ""), (None, ""), ([], "")]
)
async def test_a_payload_that_does_not_fit_leaves_everything_as_it_was(value: Any, field: str) -> None:
    class Answer(BaseModel):
        text: str

    run = await run_workflow(waiting_machine(Answer), answers={"got": value})
    assert (run.status, run.outcome.status, run.place) == ("waiting", "suspended", "waiting")
    assert (run.path, run.available_transitions, run.result) == (["begin"], ["got"], None)
    assert run.error is not None
    assert "got" in run.error.message
    assert field in run.error.message
    assert [event.type for event in run.trace].count("run.settled") == 1
    again = await run.answer("got", {"text": "better"})
    assert (again.status, again.result) == ("completed", {"value": {"text": "better"}})


async def test_a_queue_keeps_the_value_that_was_refused() -> None:
    class Answer(BaseModel):
        n: int = Field(gt=0)

    class Loop(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["sum"] = 0

        @transition(from_="open", to="open", wait=True, payload=Answer)
        def add(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["sum"] += input.data.n

    run = await run_workflow(Loop, answers={"add": queue({"n": 1}, {"n": 0}, {"n": 5})})
    assert (run.status, run.state["sum"], run.path) == ("waiting", 1, ["begin", "add"])
    assert run.error is not None
    assert "add" in run.error.message


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_failure_skips_the_payloads_schema(status: Any) -> None:
    class Answer(BaseModel):
        text: str

    class Told(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="waiting", to="end", wait=True, payload=Answer)
        def got(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result.update(
                status=input.status, data=input.data, has_error=input.has_error, message=input.message
            )

    run = await run_workflow(Told, answers={"got": failure("gone", status=status)})
    assert run.status == "completed"
    assert run.result == {"status": status, "data": None, "has_error": True, "message": "gone"}


async def test_a_failure_has_a_text_of_its_own() -> None:
    class Told(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="waiting", to="end", wait=True)
        def got(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["message"] = input.message

    run = await run_workflow(Told, answers={"got": failure()})
    assert isinstance(run.result["message"], str)
    assert run.result["message"]


def test_a_failure_has_one_of_two_statuses() -> None:
    with pytest.raises(ConfigError, match="completed"):
        failure("x", status="completed")  # type: ignore[arg-type]


def guarded(open_at: int) -> Any:
    class Counter(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = 0

        def is_open(self, state: Any) -> bool:
            return bool(state["n"] >= open_at)

        @transition(from_="open", to="open", wait=True)
        def tick(self, ctx: MachineCtx) -> None:
            ctx.state["n"] += 1

        @transition(from_="open", to="end", wait=True, guard="is_open")
        def leave(self, ctx: MachineCtx) -> None:
            ctx.result["n"] = ctx.state["n"]

    return Counter


async def test_a_wait_whose_guard_says_no_is_offered_and_refuses() -> None:
    run = await run_workflow(guarded(1), answers={"leave": None})
    assert (run.status, run.path) == ("waiting", ["begin"])
    assert run.available_transitions == ["tick", "leave"]
    assert [event.type for event in run.trace].count("run.settled") == 1
    ticked = await run.answer("tick")
    assert (ticked.status, ticked.path) == ("waiting", ["begin", "tick"])
    left = await ticked.answer("leave")
    assert (left.status, left.result, left.path) == ("completed", {"n": 1}, ["begin", "tick", "leave"])


async def test_a_queue_loses_nothing_to_a_guard() -> None:
    run = await run_workflow(guarded(1), answers={"leave": queue(None)})
    assert (run.status, run.path) == ("waiting", ["begin"])
    ticked = await run.answer("tick")
    assert (await ticked.resume({"leave": queue(None)})).status == "completed"


async def test_max_steps_is_checked_before_the_next_answer() -> None:
    exact = await run_workflow(guarded(3), answers={"tick": queue(1, 2, 3)}, max_steps=3)
    assert (exact.status, exact.state["n"]) == ("waiting", 3)
    with pytest.raises(ConfigError, match="7"):
        await run_workflow(guarded(99), answers={"tick": None}, max_steps=7)


@pytest.mark.parametrize("steps", [0, -1, 1.5, "3", True])
async def test_max_steps_is_a_number_of_answers(steps: Any) -> None:
    with pytest.raises(ConfigError, match="max_steps"):
        await run_workflow(guarded(1), max_steps=steps)


def branching(**state: Any) -> Any:
    """Return a machine with four ways out of one place; the state says which guards hold."""

    class Branching(StateMachine):
        @transition(to="fork")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state.update(low=False, high=False, plain=False, **state)

        def low(self, state: Any) -> bool:
            return bool(state["low"])

        def high(self, state: Any) -> bool:
            return bool(state["high"])

        def plain(self, state: Any) -> bool:
            return bool(state["plain"])

        @transition(from_="fork", to="end", guard="plain")
        def plain_way(self, ctx: MachineCtx) -> None:
            ctx.result["way"] = "plain"

        @transition(from_="fork", to="end", guard="low", priority=1)
        def low_way(self, ctx: MachineCtx) -> None:
            ctx.result["way"] = "low"

        @transition(from_="fork", to="end", guard="high", priority=10)
        def high_way(self, ctx: MachineCtx) -> None:
            ctx.result["way"] = "high"

        @transition(from_="fork", to="end")
        def otherwise(self, ctx: MachineCtx) -> None:
            ctx.result["way"] = "otherwise"

    return Branching


@pytest.mark.parametrize(
    ("state", "way"),
    [
        ({}, "otherwise"),
        ({"plain": True}, "plain"),
        ({"low": True}, "low"),
        ({"high": True}, "high"),
        ({"low": True, "plain": True}, "low"),
        ({"high": True, "low": True, "plain": True}, "high"),
    ],
)
async def test_the_first_guard_that_holds_chooses(state: dict[str, bool], way: str) -> None:
    Machine = branching()

    class Given(Machine):  # type: ignore[misc,valid-type]
        @transition(to="fork")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state.update({"low": False, "high": False, "plain": False, **state})

    run = await run_workflow(Given)
    assert (run.result, run.path) == ({"way": way}, ["begin", f"{way}_way" if way != "otherwise" else way])


async def test_an_automatic_way_goes_before_a_wait() -> None:
    class Both(StateMachine):
        @transition(to="fork")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["asks"] = False

        def asks(self, state: Any) -> bool:
            return not state["asks"]

        @transition(from_="fork", to="end", wait=True, priority=100)
        def answered(self, ctx: MachineCtx) -> None: ...

        @transition(from_="fork", to="fork", guard="asks")
        def ask(self, ctx: MachineCtx) -> None:
            ctx.state["asks"] = True

    run = await run_workflow(Both)
    assert (run.status, run.path, run.available_transitions) == ("waiting", ["begin", "ask"], ["answered"])


async def test_a_place_without_a_way_out_parks_for_good() -> None:
    class Dead(StateMachine):
        @transition(to="nowhere")
        def begin(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Dead)
    assert (run.status, run.outcome.status, run.place, run.path) == (
        "waiting",
        "suspended",
        "nowhere",
        ["begin"],
    )
    assert run.available_transitions == []
    assert run.park_view() is None


def test_starts_are_counted() -> None:
    with pytest.raises(MachineDefinitionError, match=r"TwoStarts: 2 .*(one).*(two)"):

        class TwoStarts(StateMachine):
            @transition(to="a")
            def one(self, ctx: MachineCtx) -> None: ...

            @transition(to="b")
            def two(self, ctx: MachineCtx) -> None: ...


def test_a_machine_that_never_starts_is_named() -> None:
    with pytest.raises(MachineDefinitionError, match="NoStart") as caught:

        class NoStart(StateMachine):
            @transition(from_="a", to="b")
            def one(self, ctx: MachineCtx) -> None: ...

    assert "2" not in str(caught.value)


def test_two_free_ways_name_methods_and_place() -> None:
    with pytest.raises(MachineDefinitionError) as caught:

        class TwoWays(StateMachine):
            @transition(to="fork")
            def begin(self, ctx: MachineCtx) -> None: ...

            @transition(from_="fork", to="a")
            def left(self, ctx: MachineCtx) -> None: ...

            @transition(from_="fork", to="b")
            def right(self, ctx: MachineCtx) -> None: ...

    for part in ("TwoWays", "left", "right", "fork"):
        assert part in str(caught.value)


def test_a_free_way_may_stand_beside_guards_and_waits() -> None:
    class Fine(StateMachine):
        @transition(to="fork")
        def begin(self, ctx: MachineCtx) -> None: ...

        def holds(self, state: Any) -> bool:
            return False

        @transition(from_="fork", to="a", guard="holds")
        def left(self, ctx: MachineCtx) -> None: ...

        @transition(from_="fork", to="b")
        def right(self, ctx: MachineCtx) -> None: ...

        @transition(from_="fork", to="c", wait=True)
        def asked(self, ctx: MachineCtx) -> None: ...

    assert Fine.definition.names == ("begin", "left", "right", "asked")


def test_a_guard_that_is_no_method_names_all_three() -> None:
    with pytest.raises(MachineDefinitionError) as caught:

        class Guarded(StateMachine):
            @transition(to="end", guard="is_ready")
            def begin(self, ctx: MachineCtx) -> None: ...

    for part in ("Guarded", "begin", "is_ready"):
        assert part in str(caught.value)


async def test_arguments_have_their_defaults_and_are_frozen() -> None:
    class Args(BaseModel):
        name: str
        times: int = 2

    class Greet(StateMachine, args=Args):
        @transition
        def greet(self, ctx: MachineCtx) -> None:
            ctx.result["text"] = ctx.args.name * ctx.args.times

    assert (await run_workflow(Greet, {"name": "ab"})).result == {"text": "abab"}
    for wrong, field in (({}, "name"), ({"name": "x", "times": "many"}, "times"), (None, "name")):
        with pytest.raises(ConfigError, match=field):
            await run_workflow(Greet, wrong)


async def test_the_result_lives_through_a_park() -> None:
    class Parts(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.result["first"] = 1

        @transition(from_="open", to="end", wait=True)
        def more(self, ctx: MachineCtx) -> None:
            ctx.result["second"] = 2

    parked = await run_workflow(Parts)
    assert (parked.status, parked.result) == ("waiting", {"first": 1})
    assert (await parked.answer("more")).result == {"first": 1, "second": 2}


async def test_a_machine_that_sets_no_result_has_none() -> None:
    class Quiet(StateMachine):
        @transition
        def only(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Quiet)
    assert (run.status, run.result, run.outcome.value, run.place) == ("completed", None, None, "end")


async def test_names_of_machines() -> None:
    class PurchaseOrderWorkflow(StateMachine):
        @transition
        def only(self, ctx: MachineCtx) -> None: ...

    class HTTPCheck(StateMachine):
        @transition
        def only(self, ctx: MachineCtx) -> None: ...

    assert PurchaseOrderWorkflow.definition.name == "purchase_order"
    assert HTTPCheck.definition.name == "http_check"


async def test_several_starts_of_one_body() -> None:
    class Retryable(StateMachine):
        @transition(to="asking")
        def begin(self, ctx: MachineCtx) -> None: ...

        @transition(from_="asking", to="checking", wait=True)
        @transition(from_="wrong", to="checking", wait=True)
        def answer(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["ok"] = input.data == "right"

        def is_right(self, state: Any) -> bool:
            return bool(state["ok"])

        @transition(from_="checking", to="end", guard="is_right")
        def accept(self, ctx: MachineCtx) -> None: ...

        @transition(from_="checking", to="wrong")
        def reject(self, ctx: MachineCtx) -> None: ...

    run = await run_workflow(Retryable, answers={"answer": queue("bad", "worse", "right")})
    assert run.path == ["begin", "answer", "reject", "answer", "reject", "answer", "accept"]
    assert run.status == "completed"
