"""Scenarios S23 to S36: recording and replaying tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypedDict

import pytest

from rulvar import DeclaredDocument, MachineCtx, StateMachine, ToolEnvelope, document, tool, transition
from rulvar.errors import ConfigError, ReplayLeftoverError
from rulvar.hitl import ask_clarification
from rulvar.testing import load_fixture, run_workflow

DOWN = {"text": "Production is down!"}
YES = {"approve": {"approved": True}}


@pytest.fixture(autouse=True)
def _not_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("RULVAR_RECORD", raising=False)


def script(*entries: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"version": 3, "recordings": [{"tool": name, "envelope": env, **more} for name, env in entries]}


async def record_triage(ref: Any, path: Path) -> Any:
    return await run_workflow(ref.TriageTicket, DOWN, answers=YES, fixture=path)


async def test_s23_record_then_replay(ref: Any, tmp_path: Path) -> None:
    path = tmp_path / "__recordings__" / "triage.json"
    first = await record_triage(ref, path)
    text = path.read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert json.loads(text) == {
        "version": 3,
        "recordings": [
            {
                "tool": "classify_ticket",
                "workflow": "triage_ticket",
                "transition": "classify",
                "args": {"text": "Production is down!"},
                "envelope": {"data": {"severity": "high", "keyword": "down"}},
            }
        ],
    }
    second = await record_triage(ref, path)
    assert ref.executions == {"classify_ticket": 1}
    assert (second.path, second.result) == (first.path, first.result)
    assert [d.content for d in second.documents] == [d.content for d in first.documents]


async def test_s24_continuous_integration(ref: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "triage.json"
    monkeypatch.setenv("CI", "1")
    with pytest.raises(ConfigError) as caught:
        await record_triage(ref, path)
    assert str(path.absolute()) in str(caught.value)
    assert "RULVAR_RECORD=1" in str(caught.value)
    assert not ref.executions
    assert not path.exists()
    monkeypatch.setenv("RULVAR_RECORD", "1")
    await record_triage(ref, path)
    assert len(load_fixture(path)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"fixture": "a.json", "record": "b.json"},
        {"fixture": "a.json", "replay": {"version": 3, "recordings": []}},
        {"record": "b.json", "replay": {"version": 3, "recordings": []}},
        {"fixture": "a.json", "replay_tools": []},
        {"replay_tools": ["classify_ticket"]},
    ],
)
async def test_s25_exclusive_options(ref: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await run_workflow(ref.TriageTicket, DOWN, **options)
    assert not ref.executions


async def test_s26_proof_of_replay(ref: Any) -> None:
    run = await run_workflow(ref.Sum, {"a": 2, "b": 3}, replay=script(("math_sum", {"data": {"total": 999}})))
    assert run.result == {"total": 999}
    assert not ref.executions


async def test_s27_argument_drift(ref: Any, tmp_path: Path) -> None:
    path = tmp_path / "triage.json"
    await record_triage(ref, path)
    run = await run_workflow(ref.TriageTicket, {"text": "Server urgent"}, answers=YES, fixture=path)
    assert run.status == "failed"
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"
    text = run.outcome.error.message
    for part in (
        "classify_ticket",
        "triage_ticket",
        "classify",
        "args",
        "Production is down!",
        "Server urgent",
    ):
        assert part in text


async def test_s28_order_drift(ref: Any) -> None:
    replay = script(
        ("classify_ticket", {"data": {"severity": "high", "keyword": None}}),
        ("math_sum", {"data": {"total": 3}}),
    )
    run = await run_workflow(ref.TwoCalls, replay=replay)
    assert run.status == "failed"
    assert run.error is not None
    assert "#1" in run.error.message
    assert "expected classify_ticket" in run.error.message
    assert "got math_sum" in run.error.message


async def test_s29_script_too_short(ref: Any) -> None:
    run = await run_workflow(ref.TwoCalls, replay=script(("math_sum", {"data": {"total": 3}})))
    assert run.status == "failed"
    assert run.error is not None
    for part in ("exhausted", "call 2", "classify_ticket", "go"):
        assert part in run.error.message


async def test_s30_script_too_long(ref: Any) -> None:
    with pytest.raises(ReplayLeftoverError) as caught:
        await run_workflow(
            ref.Sum, {"a": 1, "b": 2}, replay=script(*[("math_sum", {"data": {"total": 3}})] * 3)
        )
    assert "2" in str(caught.value)
    assert "math_sum" in str(caught.value)
    spare = script(*[("classify_ticket", {"data": {"severity": "high", "keyword": None}})] * 2)
    assert (await run_workflow(ref.TriageTicket, DOWN, replay=spare)).status == "waiting"


async def test_s31_structural_comparison(ref: Any) -> None:
    fits = script(("math_sum", {"data": {"total": 5}}), args={"b": 3, "a": 2})
    assert (await run_workflow(ref.Sum, {"a": 2, "b": 3}, replay=fits)).status == "completed"
    anything = script(("math_sum", {"data": {"total": 5}}))
    assert (await run_workflow(ref.Sum, {"a": 7, "b": 8}, replay=anything)).status == "completed"

    @tool
    def sort(items: list[int]) -> list[int]:
        return sorted(items)

    class Sorter(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["sorted"] = await ctx.call_tool(sort, {"items": [2, 1]})

    run = await run_workflow(Sorter, replay=script(("sort", {"data": [1, 2]}), args={"items": [1, 2]}))
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"


async def test_s32_loader_checks(ref: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load_fixture({"version": 2, "recordings": []})
    for part in ("2", "3", "record"):
        assert part in str(caught.value)
    pending = script(("math_sum", {"data": 1}), ("ask_clarification", {"pending": {"workflow_id": "w"}}))
    with pytest.raises(ConfigError) as caught:
        load_fixture(pending)
    assert "#2" in str(caught.value)
    assert "ask_clarification" in str(caught.value)
    for wrong in (pending, {"version": 2, "recordings": []}):
        with pytest.raises(ConfigError):
            await run_workflow(ref.Sum, {"a": 1, "b": 2}, replay=wrong)
    assert not ref.executions


async def test_s33_stale_contract(ref: Any) -> None:
    run = await run_workflow(
        ref.Sum, {"a": 1, "b": 2}, replay=script(("math_sum", {"data": {"total": "many"}}))
    )
    assert run.status == "failed"
    assert run.outcome.error is not None
    assert "math_sum" in run.outcome.error.message
    assert "total" in run.outcome.error.message
    assert run.outcome.error.code != "replay_drift"


async def test_s34_boundary(ref: Any) -> None:
    replay = script(("math_sum", {"data": {"total": 50}}))
    run = await run_workflow(ref.TwoCalls, replay=replay, replay_tools=[ref.math_sum])
    assert run.result == {"total": 50, "severity": "normal"}
    assert ref.executions == {"classify_ticket": 1}
    recorded = await run_workflow(ref.TwoCalls, record=True, replay_tools=[ref.math_sum])
    assert recorded.recordings is not None
    assert [item.tool for item in recorded.recordings.recordings] == ["math_sum"]


async def test_s35_documents_replay() -> None:
    executions: list[str] = []

    @document(name="note")
    class Note(TypedDict):
        text: str

    @tool(documents=[Note])
    def take_note() -> ToolEnvelope:
        executions.append("take_note")
        return ToolEnvelope(data={"taken": True}, documents=(DeclaredDocument("note", {"text": "n1"}),))

    class Noting(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(take_note)

    recorded = await run_workflow(Noting, record=True)
    assert recorded.document("note") == {"text": "n1"}
    assert recorded.recordings is not None
    replayed = await run_workflow(Noting, replay=recorded.recordings.to_wire())
    assert replayed.document("note") == {"text": "n1"}
    assert [event.type for event in replayed.trace].count("document.emitted") == 1
    assert executions == ["take_note"]


async def test_s36_pending_cannot_be_recorded(ref: Any) -> None:
    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["answer"] = await ctx.call_tool(ask_clarification, {"question": "Which?"})

    run = await run_workflow(Asking, record=True)
    assert run.status == "failed"
    assert run.error is not None
    assert "ask_clarification" in run.error.message
    assert "replay_tools" in run.error.message
    parked = await run_workflow(Asking, record=True, replay_tools=[ref.math_sum])
    assert parked.status == "waiting"
    view = parked.park_view()
    assert view is not None
    assert (view.widget, view.content) == ("text-prompt", {"question": "Which?"})
    answered = await run_workflow(Asking, answers={"user_answered": {"answer": "this"}})
    assert (answered.status, answered.result) == ("completed", {"answer": {"answer": "this"}})
