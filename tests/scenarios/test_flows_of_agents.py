"""More scenarios where machines, agents and people meet: model turns as the boundary, recovery over engines."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import Engine, InMemoryStore, MachineCtx, StateMachine, tool, transition
from rulvar.errors import ResolutionError
from rulvar.hitl import ask_clarification, ask_for_approval, request_secrets
from rulvar.testing import replay_run, run_workflow, scripted_model, tool_calls

made: list[str] = []


@tool
def price(city: str) -> int:
    """Tell what a trip costs."""
    made.append(city)
    return len(city) * 100


class Planning(StateMachine):
    instructions = "Plan a trip."

    @transition
    async def plan(self, ctx: MachineCtx) -> None:
        ctx.result["plan"] = await ctx.agent(
            f"{self.instructions} Ask when you must.", label="planner", tools=[ask_clarification, price]
        )


ASK = tool_calls({"tool_id": "ask_clarification", "input": {"question": "Budget?"}})
LOOK = tool_calls({"tool_id": "price", "input": {"city": "Rome"}})


@pytest.fixture(autouse=True)
def fresh() -> None:
    made.clear()


def answered(request: Any) -> str:
    told = [item.result for item in request.messages if item.role == "tool"]
    return f"Rome: {told}"


async def test_an_agent_that_asks_parks_the_machine() -> None:
    run = await run_workflow(Planning, models=scripted_model([ASK]))
    assert (run.status, run.place, run.path) == ("waiting", "start", [])
    view = run.park_view()
    assert view is not None
    assert (view.widget, view.content["question"], view.workflow_name) == (
        "text-prompt",
        "Budget?",
        "ask_user",
    )
    assert view.transitions == ["user_answered"]


async def test_an_agent_goes_on_with_the_answer() -> None:
    model = scripted_model([ASK, LOOK, answered])
    run = await run_workflow(Planning, models=model, answers={"user_answered": {"answer": "2000"}})
    assert (run.status, run.path) == ("completed", ["plan"])
    assert run.result == {"plan": "Rome: [{'answer': '2000'}, 400]"}
    assert (len(model.calls), made) == (3, ["Rome"])
    assert [event.tool_name for event in run.tool_calls] == ["ask_clarification", "price"]


async def test_model_turns_are_the_boundary_and_everything_else_is_live() -> None:
    answers = {"user_answered": {"answer": "2000"}}
    recorded = await run_workflow(
        Planning,
        models=scripted_model([ASK, LOOK, answered]),
        answers=answers,
        record=True,
        replay_tools=["model"],
    )
    assert recorded.recordings is not None
    assert [item.tool for item in recorded.recordings.recordings] == ["model:scripted"] * 3
    model = scripted_model([])
    options: dict[str, Any] = {"models": model, "replay": recorded.recordings, "replay_tools": ["model"]}
    replayed = await run_workflow(Planning, answers=answers, **options)
    assert (replayed.status, replayed.result, model.calls) == ("completed", recorded.result, [])
    assert made == ["Rome", "Rome"]
    parked = await run_workflow(Planning, **options)
    assert (parked.status, parked.children[0].status) == ("waiting", "waiting")

    class Longer(Planning, name="planning"):
        instructions = "Plan a long trip."

    drifted = await run_workflow(Longer, answers=answers, **options)
    assert drifted.outcome.error is not None
    assert (drifted.status, drifted.outcome.error.code) == ("failed", "replay_drift")
    assert "model:scripted" in drifted.outcome.error.message


async def test_another_answer_of_the_person_is_drift_of_the_model() -> None:
    recorded = await run_workflow(
        Planning,
        models=scripted_model([ASK, answered]),
        answers={"user_answered": {"answer": "2000"}},
        record=True,
        replay_tools=["model"],
    )
    drifted = await run_workflow(
        Planning,
        models=scripted_model([]),
        answers={"user_answered": {"answer": "9999"}},
        replay=recorded.recordings,
        replay_tools=["model"],
    )
    assert drifted.outcome.error is not None
    assert drifted.outcome.error.code == "replay_drift"
    assert "9999" in drifted.outcome.error.message


@pytest.mark.parametrize(
    ("asks", "args", "answer", "told"),
    [
        (ask_for_approval, {"markdown": "Pay?"}, {"user_confirmed": None}, {"approved": True}),
        (ask_for_approval, {"markdown": "Pay?"}, {"user_denied": None}, {"approved": False}),
        (ask_clarification, {"question": "?"}, {"user_answered": {"answer": ""}}, {"answer": ""}),
        (
            request_secrets,
            {"names": ["KEY"]},
            {"secrets_submitted": {"submitted": ["KEY"]}},
            {"submitted": ["KEY"]},
        ),
    ],
)
async def test_tools_that_ask(asks: Any, args: Any, answer: Any, told: Any) -> None:
    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["told"] = await ctx.call_tool(asks, args)

    run = await run_workflow(Asking, answers=answer)
    assert (run.status, run.result) == ("completed", {"told": told})


class Repairable(StateMachine):
    @transition(to="working")
    def begin(self, ctx: MachineCtx) -> None:
        ctx.state["tries"] = 0

    @transition(from_="working", to="end", error_place="recovery")
    def work(self, ctx: MachineCtx) -> None:
        if ctx.state["tries"] == 0:
            raise ValueError("broken")
        ctx.result["tries"] = ctx.state["tries"]

    @transition(from_="recovery", to="working", wait=True, payload={"type": "object", "required": ["again"]})
    def repair(self, ctx: MachineCtx, input: Any) -> None:
        ctx.state["tries"] += 1


async def test_a_failed_run_is_repaired_by_another_engine() -> None:
    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        outcome = await engine.run(Repairable, run_id="r").result()
    assert outcome.error is not None
    assert (outcome.status, "broken" in outcome.error.message) == ("error", True)
    async with Engine(journal=store) as engine:
        with pytest.raises(ResolutionError, match="repair"):
            await engine.resume("r", Repairable).answer("repair", {})
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", Repairable)
        await handle.answer("repair", {"again": True})
        ended = await handle.result()
        if ended.status == "error":
            ended = await engine.resume("r", Repairable).result()
    assert (ended.status, ended.value) == ("ok", {"tries": 1})
    replayed = await replay_run(Repairable, None, journal=(store, "r"))
    assert (replayed.outcome.status, replayed.preview.misses) == ("ok", 0)


async def test_answers_over_engines_come_to_the_same_as_answers_in_one() -> None:
    class Rounds(StateMachine):
        @transition(to="open")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.state["seen"] = []

        @transition(from_="open", to="open", wait=True)
        async def add(self, ctx: MachineCtx, input: Any) -> None:
            ctx.state["seen"].append([input.data, await ctx.call_tool(price, {"city": input.data})])

        @transition(from_="open", to="end", wait=True)
        def stop(self, ctx: MachineCtx) -> None:
            ctx.result = ctx.state["seen"]

    store = InMemoryStore()
    async with Engine(journal=store) as engine:
        assert (await engine.run(Rounds, run_id="r").result()).status == "suspended"
    for name, value in (("add", "Rome"), ("add", "Oslo"), ("stop", None)):
        async with Engine(journal=store) as engine:
            await engine.resume("r", Rounds).answer(name, value)
        async with Engine(journal=store) as engine:
            outcome = await engine.resume("r", Rounds).result()
    assert (outcome.status, outcome.value) == ("ok", [["Rome", 400], ["Oslo", 400]])
    assert made == ["Rome", "Oslo"]
