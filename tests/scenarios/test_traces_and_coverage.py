"""Scenarios S18 to S22: trace, coverage, difference."""

from __future__ import annotations

from typing import Any

from rulvar.testing import TestClock, coverage, diff_traces, failure, run_workflow

DOWN = {"text": "Production is down!"}
YES = {"approve": {"approved": True}}


async def test_s18_trace_of_triage(ref: Any) -> None:
    run = await run_workflow(ref.TriageTicket, DOWN, answers=YES, clock=TestClock(0.042))
    told = [
        (event.type, event.transition_id or event.document_name or event.status)
        if event.type != "document.emitted"
        else (event.type, event.document_name)
        for event in run.trace
    ]
    assert told == [
        ("transition.started", "classify"),
        ("tool.called", "classify"),
        ("tool.completed", "classify"),
        ("transition.completed", "classify"),
        ("transition.started", "report"),
        ("document.emitted", "triage_report"),
        ("document.emitted", "approval_prompt"),
        ("transition.completed", "report"),
        ("run.settled", "waiting"),
        ("transition.started", "approve"),
        ("transition.completed", "approve"),
        ("run.settled", "completed"),
    ]
    assert [event.seq for event in run.trace] == list(range(12))
    assert {event.ts for event in run.trace} == {42}
    assert run.trace[1].tool_seq == 0
    assert run.trace[3].state_diff == {"severity": {"after": "high"}, "keyword": {"after": "down"}}


async def test_s19_coverage(ref: Any) -> None:
    run = await run_workflow(ref.Provision, answers={"on_provisioned": failure("child died")})
    covered = coverage([run], ref.Provision)
    assert covered.declared_transitions == {"begin", "on_provisioned", "recover"}
    assert covered.missing_transitions == ["recover"]
    assert not covered.complete
    recovered = await run.answer("recover", {"retry": True})
    assert (recovered.status, recovered.result) == ("completed", {"recovered": True})
    covered = coverage([run, recovered], ref.Provision)
    assert covered.missing_transitions == []
    assert covered.complete


async def test_s20_coverage_of_parks(ref: Any) -> None:
    covered = coverage([await run_workflow(ref.TriageTicket, DOWN)], ref.TriageTicket)
    assert covered.parked_on == ["approve"]
    assert covered.missing_parks == []
    assert covered.missing_transitions == ["approve"]


async def test_s21_equal_behaviour(ref: Any) -> None:
    first = await run_workflow(ref.TriageTicket, DOWN, answers=YES, clock=TestClock(0))
    second = await run_workflow(ref.TriageTicket, DOWN, answers=YES, clock=TestClock(500))
    assert diff_traces(first, second) is None
    assert diff_traces(first.trace, second.trace) is None


async def test_s22_first_divergence(ref: Any) -> None:
    whole = await run_workflow(ref.TriageTicket, DOWN, answers=YES)
    parked = await run_workflow(ref.TriageTicket, DOWN)
    difference = diff_traces(whole, parked)
    assert difference is not None
    assert difference.index == 9
    assert "ended early" in difference.reason
    assert "3 events are missing" in difference.reason.replace("events missing", "events are missing")
    other = await run_workflow(ref.TriageTicket, {"text": "hello"}, answers=YES)
    assert diff_traces(whole, other) is None
