"""Children of machines: when they start, what their parents learn of their end, how they are asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rulvar import (
    Ctx,
    Engine,
    FanOut,
    InMemoryStore,
    Input,
    MachineCtx,
    Sequence,
    StateMachine,
    ToolEnvelope,
    from_child,
    tool,
    transition,
    workflow,
)
from rulvar.errors import ConfigError, ResolutionError
from rulvar.hitl import (
    AskUser,
    ConfirmUser,
    RequestSecrets,
    ask_clarification,
    ask_for_approval,
    request_secrets,
)
from rulvar.machines.report import read_run
from rulvar.testing import failure, fake_tool_calls, queue, replay_run, run_workflow, scripted_model


class Doubler(
    StateMachine, args={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
):
    @transition
    def work(self, ctx: MachineCtx) -> None:
        if ctx.args["n"] < 0:
            raise ValueError("negative")
        ctx.result["n"] = 2 * ctx.args["n"]


@workflow(name="plain")
async def plain(ctx: Ctx, args: Any) -> Any:
    return await ctx.step("answer", lambda: {"plain": args})


class Parent(StateMachine):
    @transition("waiting")
    def begin(self, ctx: MachineCtx) -> None:
        ctx.start(Doubler, {"n": 1}, on_done=self.on_done, meta={"which": "first"})
        ctx.start(plain, 7, on_done="on_done", label="a plain workflow")

    @transition("waiting", "waiting", wait=True)
    def on_done(self, ctx: MachineCtx, input: Input) -> None:
        ctx.state.setdefault("ends", []).append([input.status, input.data, input.meta])

    def all_done(self, state: Any) -> bool:
        return len(state.get("ends", ())) == 2

    @transition("end", "waiting", guard="all_done")
    def finish(self, ctx: MachineCtx) -> None:
        ctx.result["ends"] = ctx.state["ends"]


ENDS = [["completed", {"n": 2}, {"which": "first"}], ["completed", {"plain": 7}, None]]


async def test_machines_and_plain_workflows_may_be_children() -> None:
    run = await run_workflow(Parent)
    assert run.result == {"ends": ENDS}
    assert [(child.name, child.status, child.args) for child in run.children] == [
        ("doubler", "completed", {"n": 1}),
        ("plain", "completed", 7),
    ]
    told = [event.type for event in run.trace]
    assert told[:4] == ["transition.started", "child.queued", "child.queued", "transition.completed"]
    assert told.count("child.settled") == 2


async def test_children_run_at_the_same_time_in_production_and_one_after_another_in_tests() -> None:
    order: list[str] = []

    @workflow(name="slow")
    async def slow(ctx: Ctx, args: Any) -> Any:
        async def work() -> None:
            order.append(f"start {args}")
            await asyncio.sleep(0.02)
            order.append(f"end {args}")

        await ctx.step("work", work)

    class Two(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(slow, "a")
            ctx.start(slow, "b")

    async with Engine() as engine:
        assert (await engine.run(Two).result()).status == "ok"
    assert order == ["start a", "start b", "end a", "end b"]
    order.clear()
    assert (await run_workflow(Two)).status == "completed"
    assert order == ["start a", "end a", "start b", "end b"]


async def test_a_failed_child_is_told_and_fails_for_good() -> None:
    class Caller(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": -1}, on_done="done")

        @transition("end", "waiting", wait=True)
        def done(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result.update(status=input.status, message=input.message, data=input.data)

    async with Engine() as engine:
        outcome = await engine.run(Caller, run_id="r").result()
        assert outcome.value == {"status": "failed", "message": "negative", "data": None}
        view = await read_run(engine.store, "r")
        assert (view.children[0].status, view.children[0].error) == ("failed", "negative")
        assert view.children[0].available_transitions == []
        resumed = engine.resume("r", Caller)
        assert (await resumed.result()).value == outcome.value
        preview = await resumed.preview()
        assert (preview.misses, preview.reruns, preview.orphaned) == (0, 0, ())
        entries = await engine.store.load("r")
    replayed = await replay_run(Caller, journal=entries)
    assert replayed.outcome.value == outcome.value


async def test_a_child_of_a_body_that_fails_is_never_started() -> None:
    class Failing(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Doubler, {"n": 1})
            raise RuntimeError("no")

    run = await run_workflow(Failing)
    assert (run.status, run.children) == ("failed", [])


async def test_what_is_started_is_checked_at_once() -> None:
    class Starting(StateMachine):
        @transition("x")
        def begin(self, ctx: MachineCtx) -> None:
            with pytest.raises(ConfigError, match="args"):
                ctx.start(Doubler, {"n": "x"})
            with pytest.raises(ConfigError, match="on_done='begin'"):
                ctx.start(Doubler, {"n": 1}, on_done="begin")
            with pytest.raises(ConfigError, match="expected a workflow"):
                ctx.start(dict)
            assert ctx.start(Doubler, {"n": 1}) == "test-run.doubler-0"

        @transition("end", "x")
        async def go(self, ctx: MachineCtx) -> None:
            assert await ctx.start(Doubler, {"n": 1}) == "test-run.doubler-1"  # type: ignore[misc]

    run = await run_workflow(Starting)
    assert run.exception is None
    assert [child.run_id for child in run.children] == ["test-run.doubler-0", "test-run.doubler-1"]


async def test_a_parent_may_end_while_its_child_waits_and_the_child_may_go_on() -> None:
    class Leaving(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(AskUser, {"question": "Still there?"})
            ctx.result["left"] = True

    async with Engine() as engine:
        handle = engine.run(Leaving, run_id="r")
        outcome = await asyncio.wait_for(handle.result(), 2)
        assert (outcome.status, outcome.value, outcome.pending) == ("ok", {"left": True}, ())
        assert (await read_run(engine.store, "r")).children[0].status == "waiting"
        await handle.answer("user_answered", {"answer": "yes"})
        assert (await engine.resume("r", Leaving).result()).value == {"left": True}
        child = (await read_run(engine.store, "r")).children[0]
        assert (child.status, child.result) == ("completed", {"answer": "yes"})


async def test_two_children_that_ask_the_same_are_told_apart_by_key() -> None:
    class Asking(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            for name in ("a", "b"):
                ctx.start(AskUser, {"question": name}, on_done="answered", meta=name)

        @transition("waiting", "waiting", wait=True)
        def answered(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result[input.meta] = input.data["answer"]

    async with Engine() as engine:
        handle = engine.run(Asking, run_id="r")
        outcome = await handle.result()
        keys = [item.key for item in outcome.pending if item.transition == "user_answered"]
        assert keys == [f"ask_user-{n}/waiting_for_user#0/user_answered" for n in (0, 1)]
        with pytest.raises(ResolutionError, match="in several places"):
            await handle.answer("user_answered", {"answer": "?"})
        await handle.answer(keys[1], {"answer": "B"})
        await engine.resume("r", Asking).result()
        await engine.resolve_external("r", "user_answered", {"answer": "A"}, wf=Asking)
        await engine.resume("r", Asking).result()
        assert (await read_run(engine.store, "r")).result == {"b": "B", "a": "A"}


async def test_a_live_run_goes_on_when_it_is_answered() -> None:
    class Asking(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(busy)
            ctx.start(AskUser, {"question": "?"}, on_done="answered")

        @transition("end", "waiting", wait=True)
        def answered(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result = input.data

    release = asyncio.Event()

    @workflow(name="busy")
    async def busy(ctx: Ctx, args: Any) -> Any:
        await ctx.step("wait", release.wait)

    async with Engine() as engine:
        handle = engine.run(Asking, run_id="r")
        await asyncio.sleep(0.02)
        assert handle.status == "running"
        with pytest.raises(ResolutionError, match="payload of transition 'user_answered'"):
            await handle.answer("user_answered", {})
        await handle.answer("user_answered", {"answer": 1})
        await asyncio.sleep(0.02)
        release.set()
        assert (await asyncio.wait_for(handle.result(), 2)).value == {"answer": 1}


async def test_cancelling_a_run_cancels_its_children_and_leaves_no_task() -> None:
    @workflow(name="forever")
    async def forever(ctx: Ctx, args: Any) -> Any:
        await ctx.step("wait", asyncio.Event().wait)

    class Waiting(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(forever)
            ctx.start(AskUser, {"question": "?"})

        @transition("end", "waiting", wait=True)
        def never(self, ctx: MachineCtx) -> None: ...

    before = asyncio.all_tasks()
    async with Engine() as engine:
        handle = engine.run(Waiting, run_id="r")
        await asyncio.sleep(0.02)
        await handle.cancel("enough")
        assert (await handle.result()).status == "cancelled"
        view = await read_run(engine.store, "r")
    assert [child.status for child in view.children] == ["cancelled", "cancelled"]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("kind", [FanOut, Sequence])
@pytest.mark.parametrize(
    ("items", "mode", "results", "errors"),
    [
        ([], "all", [], 0),
        ([{"n": 1}, {"n": 2}], "all", [2, 4], 0),
        ({"a": {"n": 1}, "b": {"n": -1}}, "all_settled", {"a": 2, "b": "failed"}, 1),
        ([{"n": -1}, {"n": 2}, {"n": 3}], "all_settled", ["failed", 4, 6], 1),
        (
            [{"n": -1}, {"n": 2}],
            "all",
            {FanOut: (["failed", 4], 1), Sequence: (["failed", "skipped"], 2)},
            None,
        ),
    ],
)
async def test_fan_out_and_sequence(kind: Any, items: Any, mode: str, results: Any, errors: Any) -> None:
    class Many(StateMachine):
        @transition("waiting")
        def launch(self, ctx: MachineCtx) -> None:
            ctx.start(kind.of(Doubler), {"items": items, "mode": mode}, on_done="on_all_done")

        @transition("end", "waiting", wait=True)
        def on_all_done(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result = input.data

    if errors is None:  # what has ended is told, and what was never started counts as an error
        results, errors = results[kind]

    def short(result: Any) -> Any:
        return result["data"]["n"] if result["status"] == "completed" else result["status"]

    run = await run_workflow(Many)
    assert run.path == ["launch", "on_all_done"]
    made = run.result["results"]
    shown = {k: short(v) for k, v in made.items()} if isinstance(made, dict) else list(map(short, made))
    assert shown == results
    assert (run.result["has_errors"], run.result["error_count"]) == (errors > 0, errors)


async def test_a_fan_out_keeps_what_is_at_work_and_resumes_to_the_same() -> None:
    release = asyncio.Event()
    ran: list[int] = []

    class Working(StateMachine):
        @transition
        async def work(self, ctx: MachineCtx) -> None:
            ran.append(ctx.args)
            if ctx.args == 0:
                raise ValueError("broken")
            await release.wait()
            ctx.result["n"] = ctx.args

    class Many(StateMachine):
        @transition("waiting")
        def launch(self, ctx: MachineCtx) -> None:
            ctx.start(FanOut.of(Working), {"items": [1, 0, 2]}, on_done="on_all_done")

        @transition("end", "waiting", wait=True)
        def on_all_done(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result = [item["status"] for item in input.data["results"]]

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        handle = engine.run(Many, run_id="r")
        while sorted(ran) != [0, 1, 2]:
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        release.set()
        outcome = await asyncio.wait_for(handle.result(), 5)
    assert (outcome.status, outcome.value) == ("ok", ["completed", "failed", "completed"])
    async with Engine(journal=store) as engine:
        resumed = engine.resume("r", Many)
        assert (await resumed.result()).value == outcome.value
        preview = await resumed.preview()
    assert (preview.misses, preview.orphaned, sorted(ran)) == (0, (), [0, 1, 2])


async def test_asking_for_consent() -> None:
    class Consenting(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(ConfirmUser, {"markdown": "**Sure?**"}, on_done="done")

        @transition("end", "waiting", wait=True)
        def done(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result = input.data

    parked = await run_workflow(Consenting)
    view = parked.park_view()
    assert view is not None
    assert (view.widget, view.actions) == ("form", ["Deny", "Confirm"])
    assert (view.transitions, view.default_transition) == (["user_denied", "user_confirmed"], "user_denied")
    for name, confirmed in (("user_denied", False), ("user_confirmed", True)):
        run = await run_workflow(Consenting, answers={name: None})
        assert run.result == {"confirmed": confirmed, "markdown": "**Sure?**"}


@pytest.mark.parametrize(
    ("mode", "options", "widget", "answer"),
    [
        ("text", [], "text-prompt", "x"),
        ("options", ["a", "b"], "choices", "b"),
        ("confirm", [], "confirm-prompt", False),
    ],
)
async def test_the_three_ways_of_asking(mode: str, options: list[str], widget: str, answer: Any) -> None:
    question = {"question": "?", "mode": mode, "options": options}
    view = (await run_workflow(AskUser, question)).park_view()
    assert view is not None
    assert view.widget == widget
    run = await run_workflow(AskUser, question, answers={"user_answered": {"answer": answer}})
    assert (run.status, run.result) == ("completed", {"answer": answer})


async def test_async_tools_work_in_a_plain_workflow_and_in_an_agent() -> None:
    @workflow(name="asks")
    async def asks(ctx: Ctx, args: Any) -> Any:
        approved = await ctx.call_tool(ask_for_approval, {"markdown": "Go?"})
        secrets = await ctx.call_tool(request_secrets, {"names": ["API_KEY"]})
        return [approved, secrets, await ctx.agent("ask", tools=[ask_clarification])]

    def model() -> Any:
        return scripted_model([fake_tool_calls(name="ask_clarification", args={"question": "?"}), "done"])

    answers = {
        "user_confirmed": None,
        "secrets_submitted": {"submitted": ["API_KEY"]},
        "user_answered": queue({"answer": "42"}),
    }
    first = model()
    run = await run_workflow(asks, models=first, answers=answers)
    assert (run.status, run.result) == (
        "completed",
        [{"approved": True}, {"submitted": ["API_KEY"]}, "done"],
    )
    assert len(first.calls) == 2
    assert first.calls[1].req.messages[-1].parts[0].result == {"answer": "42"}
    assert [child.name for child in run.children] == ["confirm_user", "request_secrets", "ask_user"]


async def test_a_child_of_an_async_tool_that_fails_fails_the_call() -> None:
    @tool
    def doubled(n: int) -> ToolEnvelope:
        return from_child(Doubler, {"n": n}, complete=lambda end: {"status": end.status, "data": end.data})

    @tool
    def strict(n: int) -> ToolEnvelope:
        return from_child(Doubler, {"n": n})

    class Calling(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["calls"] = [await ctx.call_tool(doubled, {"n": n}) for n in (1, -1)]
            await ctx.call_tool(strict, {"n": -1})

    run = await run_workflow(Calling)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.message == "negative"
    assert [event.type for event in run.tool_calls] == ["tool.completed", "tool.completed", "tool.failed"]


async def test_a_machine_is_a_workflow_wherever_one_is_expected() -> None:
    @workflow(name="outer")
    async def outer(ctx: Ctx, args: Any) -> Any:
        first = await ctx.workflow(Doubler, {"n": 4})
        return await ctx.parallel([lambda: ctx.workflow("doubler", first)])

    async with Engine(workflows=[Doubler, outer]) as engine:
        outcome = await engine.run("outer", run_id="r").result()
        assert outcome.value == [{"n": 16}]
        assert (await engine.run("doubler", {"n": 1}).result()).value == {"n": 2}
        refused = await engine.run(Doubler, {"n": "x"}).result()
        assert refused.error is not None
        assert refused.error.code == "config"
        view = await read_run(engine.store, "r")
    assert [(child.name, child.path) for child in view.children] == [("doubler", ["work"])] * 2


@workflow(name="two_questions")
async def two_questions(ctx: Ctx, args: None) -> Any:
    asked = [lambda n=n: ctx.call_tool(ask_clarification, {"question": n}) for n in "ab"]
    started = [lambda n=n: ctx.workflow(AskUser, {"question": n}) for n in "cd"]
    return await ctx.parallel([*asked, *started])


class Questions(StateMachine):
    @transition
    async def ask(self, ctx: MachineCtx) -> None:
        asked = [lambda n=n: ctx.call_tool(ask_clarification, {"question": n}) for n in "abcd"]
        ctx.result["answers"] = await ctx.parallel(asked)


@pytest.mark.parametrize("kind", [two_questions, Questions])
async def test_several_people_may_be_asked_at_once_and_none_is_cancelled_by_the_wait(kind: Any) -> None:
    waiting = await run_workflow(kind)
    assert [child.status for child in waiting.children] == ["waiting"] * 4
    run = await run_workflow(kind, answers={"user_answered": queue(*({"answer": n} for n in range(4)))})
    answers = run.result if kind is two_questions else run.result["answers"]
    assert (run.status, answers) == ("completed", [{"answer": n} for n in range(4)])
    assert [child.status for child in run.children] == ["completed"] * 4
    assert [event.status for event in run.trace if event.type == "child.settled"] == ["completed"] * 4


@pytest.mark.parametrize(
    ("machine", "args", "name"),
    [
        (AskUser, {"question": "?"}, "user_answered"),
        (ConfirmUser, {"markdown": "?"}, "user_confirmed"),
        (ConfirmUser, {"markdown": "?"}, "user_denied"),
        (RequestSecrets, {"names": ["key"]}, "secrets_submitted"),
    ],
)
async def test_a_question_that_is_given_up_is_no_answer(machine: Any, args: Any, name: str) -> None:
    run = await run_workflow(machine, args, answers={name: failure("nobody is there")})
    assert (run.status, run.error and run.error.message) == ("failed", "nobody is there")
    assert run.result is None


async def test_a_prompt_below_an_ended_run_is_shown_to_nobody() -> None:
    class Leaving(StateMachine):
        @transition("asked")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(AskUser, {"question": "Still there?"}, on_done="answered")

        @transition("end", "asked", wait=True)
        def answered(self, ctx: MachineCtx, input: Input) -> None:
            ctx.result["data"] = input.data

    class Outer(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Leaving, on_done="left")

        @transition("staying", "waiting", wait=True)
        def left(self, ctx: MachineCtx, input: Input) -> None: ...

        @transition("end", "staying", wait=True)
        def leave(self, ctx: MachineCtx) -> None: ...

    done = await run_workflow(Leaving, answers={"answered": 5})
    assert (done.status, done.children[0].status, done.park_view()) == ("completed", "waiting", None)
    # what waits below a child that has ended can make nothing go on, so no answer is spent on it
    run = await run_workflow(Outer, answers={"answered": 5, "user_answered": {"answer": 1}})
    assert (run.status, run.place, run.path) == ("waiting", "staying", ["begin", "left"])
    view = run.park_view()
    assert view is not None
    assert (view.workflow_id, view.transitions) == (run.run_id, ["leave"])


async def test_a_child_whose_script_has_drifted_has_failed() -> None:
    @tool
    def look() -> int:
        return 1

    class Looking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(look)

    class Parent(StateMachine):
        @transition("waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(Looking, on_done="looked")

        @transition("end", "waiting", wait=True)
        def looked(self, ctx: MachineCtx, input: Input) -> None: ...

    run = await run_workflow(Parent, replay={"version": 3, "recordings": []})
    assert (run.status, run.outcome.error and run.outcome.error.code) == ("failed", "replay_drift")
    assert [child.status for child in run.children] == ["failed"]
    assert run.park_view() is None
