"""Scenarios S01 to S17: running machines."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from reference_machines import reference_machines

from rulvar import MachineCtx, Retry, StateMachine, transition
from rulvar.errors import ConfigError
from rulvar.testing import TestClock, failure, queue, run_workflow, tool_mock

DOWN = {"text": "Production is down!"}
YES = {"approve": {"approved": True}}


async def test_s01_triage_to_the_end(ref: Any) -> None:
    run = await run_workflow(ref.TriageTicket, DOWN, providers=[ref.classify_ticket], answers=YES)
    assert (run.status, run.outcome.status) == ("completed", "ok")
    assert run.path == ["classify", "report", "approve"]
    assert run.place == "end"
    assert run.result == {"severity": "high", "approved": True}
    assert run.document("triage_report") == {"role": "assistant", "text": "Severity: high"}
    assert ref.executions == {"classify_ticket": 1}


async def test_s02_triage_parked(ref: Any) -> None:
    run = await run_workflow(ref.TriageTicket, DOWN)
    assert (run.status, run.outcome.status, run.place) == ("waiting", "suspended", "awaiting_approval")
    assert run.path == ["classify", "report"]
    assert run.result is None
    last = run.trace[-1]
    assert (last.type, last.status, last.available_transitions) == ("run.settled", "waiting", ["approve"])


async def test_s03_bad_arguments(ref: Any) -> None:
    with pytest.raises(ConfigError, match="text"):
        await run_workflow(ref.TriageTicket, {})
    assert not ref.executions


@pytest.mark.parametrize("value", [None, False])
async def test_s04_presence_counts_and_not_truth(value: Any) -> None:
    class Got(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            pass

        @transition(from_="waiting", to="end", wait=True)
        def got(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result["value"] = input.data

    run = await run_workflow(Got, answers={"got": value})
    assert (run.status, run.result) == ("completed", {"value": value})
    assert (await run_workflow(Got, answers={})).status == "waiting"


async def test_s05_refused_payload(ref: Any) -> None:
    run = await run_workflow(ref.TriageTicket, DOWN, answers={"approve": {"approved": "maybe"}})
    assert (run.status, run.place, run.path) == ("waiting", "awaiting_approval", ["classify", "report"])
    assert run.error is not None
    assert "approve" in run.error.message
    assert "approved" in run.error.message


async def test_s06_a_queue_drives_turns(ref: Any) -> None:
    run = await run_workflow(ref.Chat, answers={"user_message": queue({"text": "hi"}, {"text": "bye"})})
    assert run.path == ["greet", "user_message", "loop", "user_message", "loop"]
    assert (run.status, run.place, run.state["turns"]) == ("waiting", "waiting_for_user", 2)
    assert [event.type for event in run.trace].count("run.settled") == 3


async def test_s07_step_guard(ref: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        await run_workflow(ref.Chat, answers={"user_message": {"text": "x"}})
    assert "50" in str(caught.value)
    assert "queue" in str(caught.value)
    three = queue({"text": "a"}, {"text": "b"}, {"text": "c"})
    with pytest.raises(ConfigError, match="2"):
        await run_workflow(ref.Chat, answers={"user_message": three}, max_steps=2)
    run = await run_workflow(ref.Chat, answers={"user_message": three}, max_steps=4)
    assert run.status == "waiting"


async def test_s08_nested_human(ref: Any) -> None:
    run = await run_workflow(ref.AskName, answers={"user_answered": {"answer": "Ada"}})
    assert (run.status, run.path) == ("completed", ["begin", "on_answer"])
    assert run.result == {"greeting": "Hello, Ada"}
    [child] = run.children
    assert (child.name, child.status, child.result) == ("ask_user", "completed", {"answer": "Ada"})
    assert child.path == ["start", "show_question_text", "user_answered"]


async def test_s09_park_view_of_the_child(ref: Any) -> None:
    run = await run_workflow(ref.AskName)
    assert (run.status, run.children[0].status) == ("waiting", "waiting")
    view = run.park_view()
    assert view is not None
    assert view.workflow_id == run.children[0].run_id
    assert (view.widget, view.content["question"]) == ("text-prompt", "What is your name?")
    assert (view.transitions, view.default_transition) == (["user_answered"], "user_answered")


async def test_s10_park_view_degenerate_forms(ref: Any) -> None:
    run = await run_workflow(ref.TriageTicket, DOWN, apps=[ref.app])
    view = run.park_view()
    assert view is not None
    assert (view.widget, view.document_name) == ("confirm-prompt", "approval_prompt")
    assert (view.transitions, view.workflow_id) == (["approve"], run.run_id)
    bare = (await run_workflow(ref.TriageTicket, DOWN)).park_view()
    assert bare is not None
    assert (bare.widget, bare.document_name, bare.transitions) == (None, None, ["approve"])
    done = await run_workflow(ref.TriageTicket, DOWN, apps=[ref.app], answers=YES)
    assert done.park_view() is None


async def test_s11_child_fails_into_an_error_place(ref: Any) -> None:
    run = await run_workflow(ref.Provision, answers={"on_provisioned": failure("child died")}, apps=[ref.app])
    assert (run.status, run.place) == ("failed", "recovery")
    assert run.error is not None
    assert "child died" in run.error.message
    assert run.path == ["begin", "on_provisioned"]
    [failed] = [event for event in run.trace if event.type == "transition.failed"]
    assert failed.will_retry is False
    assert "durationMs" not in failed
    view = run.park_view()
    assert view is not None
    assert (view.transitions, view.document_name) == (["recover"], "recovery_prompt")


async def test_s12_inline_handling_of_a_cancelled_child(ref: Any) -> None:
    run = await run_workflow(
        ref.InlineProvision, answers={"on_provisioned": failure("boom", status="cancelled")}
    )
    assert run.status == "completed"
    assert run.result == {"status": "cancelled", "has_error": True, "message": "boom"}


async def test_s13_answer_then_failure(ref: Any) -> None:
    run = await run_workflow(ref.Events, answers={"on_event": queue({"n": 1}, failure("late"))})
    assert run.path == ["begin", "on_event", "on_event"]
    assert (run.status, run.result) == ("waiting", {"last_status": "failed"})


def fetch_script(*envelopes: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "recordings": [{"tool": "fetch_data", "envelope": item} for item in envelopes]}


async def test_s14_retries_used_up() -> None:
    ref = reference_machines(retry=Retry(attempts=2, delay=1.0), error_place="broken")
    started = time.monotonic()
    run = await run_workflow(ref.Fetcher, replay=fetch_script(*[{"error": "upstream 503"}] * 3))
    assert time.monotonic() - started < 1
    assert run.path == ["fetch", "fetch", "fetch"]
    failed = [event.will_retry for event in run.trace if event.type == "transition.failed"]
    assert failed == [True, True, False]
    assert (run.status, run.place) == ("failed", "broken")
    assert run.error is not None
    assert "upstream 503" in run.error.message


async def test_s15_retry_succeeds() -> None:
    ref = reference_machines(retry=Retry(attempts=1))
    run = await run_workflow(ref.Fetcher, replay=fetch_script({"error": "503"}, {"data": {"body": "ok"}}))
    assert (run.status, run.path, run.result) == ("completed", ["fetch", "fetch"], {"body": "ok"})
    assert [event.type for event in run.tool_calls] == ["tool.failed", "tool.completed"]


async def test_s16_timeout_without_waiting(ref: Any) -> None:
    clock = TestClock(1.0)
    running = asyncio.ensure_future(run_workflow(ref.Hang, clock=clock))
    await clock.wait_for_scheduled()
    clock.advance(0.051)
    run = await asyncio.wait_for(running, 2)
    assert (run.status, run.path) == ("failed", ["hang"])
    assert run.error is not None
    assert "hang" in run.error.message
    assert "50" in run.error.message
    [failed] = [event for event in run.trace if event.type == "transition.failed"]
    assert failed.duration_ms == 51


async def test_s17_overrides_reach_deep(ref: Any) -> None:
    math_sum = ref.math_sum

    class C(StateMachine):
        @transition
        async def add(self, ctx: MachineCtx) -> None:
            ctx.result["total"] = (await ctx.call_tool(math_sum, {"a": 1, "b": 1})).total

    class B(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(C, on_done="done")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    class A(StateMachine):
        @transition(to="waiting")
        def begin(self, ctx: MachineCtx) -> None:
            ctx.start(B, on_done="done")

        @transition(from_="waiting", to="end", wait=True)
        def done(self, ctx: MachineCtx, input: Any) -> None:
            ctx.result = input.data

    mock = tool_mock(math_sum)
    mock.return_value = {"data": {"total": 7}}
    run = await run_workflow(A, overrides={math_sum: mock})
    assert (run.status, run.result) == ("completed", {"total": 7})
    assert run.children[0].children[0].result == {"total": 7}
    mock.assert_awaited_once()
    assert not ref.executions
