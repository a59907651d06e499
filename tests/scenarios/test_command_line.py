"""Scenarios S41 and S42, on the functions that the command line is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar import Engine, Input, JsonlFileStore, MachineCtx, StateMachine, transition
from rulvar.errors import ConfigError, ResolutionError
from rulvar.hitl import ask_clarification
from rulvar.machines.report import (
    choose_way,
    exit_code,
    prompt_of,
    read_run,
    record_run,
    run_document,
    trace_wanted,
)
from rulvar.testing import coverage, diff_traces, run_workflow

DOWN = {"text": "Production is down!"}
YES = {"approve": {"approved": True}}


async def run_on_files(
    folder: Path, machine: Any, args: Any, answers: Any = (), *, trace: bool = True
) -> Any:
    """Run a machine as the command line does: each answer in a process of its own."""
    async with Engine(journal=JsonlFileStore(folder)) as engine:
        outcome = await engine.run(machine, args, run_id="r", trace=trace).result()
    for name, value in dict(answers).items():
        async with Engine(journal=JsonlFileStore(folder)) as engine:
            way = choose_way(await read_run(engine.store, "r"), name)
            await engine.resolve_external("r", way.key, value, wf=machine)
        async with Engine(journal=JsonlFileStore(folder)) as engine:
            outcome = await engine.resume("r", machine, args=args).result()
    return outcome


async def test_s41_exit_codes_and_the_document(ref: Any, tmp_path: Path) -> None:
    class Broken(StateMachine):
        @transition
        def begin(self, ctx: MachineCtx) -> None:
            raise RuntimeError("broken")

    cases = ((ref.TriageTicket, DOWN, YES, 0), (Broken, None, (), 1), (ref.TriageTicket, DOWN, (), 3))
    documents = []
    for number, (machine, args, answers, code) in enumerate(cases):
        folder = tmp_path / str(number)
        outcome = await run_on_files(folder, machine, args, answers)
        assert exit_code(outcome) == code
        view = await read_run(JsonlFileStore(folder), "r")
        documents.append(json.loads(json.dumps(run_document(view, outcome, 12))))
    done, failed, parked = documents
    assert (done["runId"], done["status"], done["durationMs"]) == ("r", "completed", 12)
    assert (done["result"], done["error"]) == ({"severity": "high", "approved": True}, None)
    assert (failed["status"], failed["errorMessage"]) == ("failed", "broken")
    assert (parked["status"], parked["result"]) == ("waiting", None)
    assert (parked["place"], parked["availableTransitions"]) == ("awaiting_approval", ["approve"])


async def test_s42_fixture_from_a_real_run(ref: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await run_on_files(tmp_path / "traced", ref.TriageTicket, DOWN, YES)
    store = JsonlFileStore(tmp_path / "traced")
    target = tmp_path / "f.json"
    assert await record_run(store, "r", target) == {
        "file": str(target),
        "recordings": 1,
        "skippedPending": 0,
    }
    ref.executions.clear()
    run = await run_workflow(ref.TriageTicket, DOWN, answers=YES, replay=target)
    assert (run.status, run.result) == ("completed", {"severity": "high", "approved": True})
    assert not ref.executions

    with pytest.raises(ConfigError) as caught:
        await record_run(store, "r", target, ["nosuch"])
    assert "classify_ticket" in str(caught.value)

    await run_on_files(tmp_path / "untraced", ref.TriageTicket, DOWN, YES, trace=False)
    with pytest.raises(ConfigError) as caught:
        await record_run(JsonlFileStore(tmp_path / "untraced"), "r", target)
    assert "--trace" in str(caught.value)
    assert "RULVAR_TRACE" in str(caught.value)
    assert [trace_wanted(False, {"RULVAR_TRACE": text}) for text in ("1", "true", "0", "")] == [
        True,
        True,
        False,
        False,
    ]

    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["answer"] = await ctx.call_tool(ask_clarification, {"question": "?"})

    await run_on_files(tmp_path / "asking", Asking, None, {"user_answered": {"answer": 1}})
    told = await record_run(JsonlFileStore(tmp_path / "asking"), "r", target)
    assert (told["recordings"], told["skippedPending"]) == (0, 1)


async def test_a_fixture_of_a_real_run_is_the_one_that_a_test_would_record(ref: Any, tmp_path: Path) -> None:
    math_sum, fetch_data, peek = ref.math_sum, ref.fetch_data, ref.peek

    class Inner(StateMachine):
        @transition
        async def look(self, ctx: MachineCtx) -> None:
            await ctx.parallel([lambda n=n: ctx.call_tool(fetch_data, {"id": n}) for n in ("x", "y")])

    class Outer(StateMachine):
        @transition("waiting")
        async def begin(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(math_sum, {"a": 1, "b": 2}, config={"precise": True})
            try:
                await ctx.call_tool(peek, {"order_id": "ERR"})
            except Exception as error:
                ctx.state["error"] = str(error)
            ctx.start(Inner, on_done="done")

        @transition("end", "waiting", wait=True)
        async def done(self, ctx: MachineCtx, input: Input) -> None:
            await ctx.call_tool(math_sum, {"a": 3, "b": 4})

    in_process = await run_workflow(Outer, record=True)
    await run_on_files(tmp_path, Outer, None)
    target = tmp_path / "f.json"
    await record_run(JsonlFileStore(tmp_path), "r", target)
    assert in_process.recordings is not None
    assert json.loads(target.read_text()) == json.loads(json.dumps(in_process.recordings.to_wire()))
    ref.executions.clear()
    replayed = await run_workflow(Outer, replay=target)
    assert (replayed.status, replayed.state["error"]) == ("completed", "tool orders.peek failed")
    assert not ref.executions
    assert "PRIVATE" not in target.read_text()


async def test_park_view_coverage_and_trace_agree_with_a_test_run(ref: Any, tmp_path: Path) -> None:
    for name, machine, args, answers in (
        ("parked", ref.TriageTicket, DOWN, {}),
        ("ended", ref.TriageTicket, DOWN, YES),
        ("asked", ref.AskName, None, {}),
        ("named", ref.AskName, None, {"user_answered": {"answer": "Ada"}}),
    ):
        run = await run_workflow(machine, args, answers=answers, apps=[ref.app], run_id="r")
        await run_on_files(tmp_path / name, machine, args, answers)
        view = await read_run(JsonlFileStore(tmp_path / name), "r")
        assert prompt_of(view, [ref.app]) == run.park_view()
        assert coverage([view], machine) == coverage([run], machine)
        assert diff_traces(run, view) is None
        for child, other in zip(run.children, view.children, strict=True):
            assert diff_traces(child, other) is None


async def test_choosing_what_to_answer(ref: Any, tmp_path: Path) -> None:
    await run_on_files(tmp_path, ref.AskName, None)
    view = await read_run(JsonlFileStore(tmp_path), "r")
    with pytest.raises(ResolutionError, match="name one: on_answer, user_answered"):
        choose_way(view)
    with pytest.raises(ResolutionError, match="does not wait for 'nope'; it waits for: on_answer"):
        choose_way(view, "nope")
    assert choose_way(view, "user_answered").scope == "wf:ask_user:0"
    await run_on_files(tmp_path / "done", ref.TriageTicket, DOWN, YES)
    with pytest.raises(ConfigError, match="waits for nothing"):
        choose_way(await read_run(JsonlFileStore(tmp_path / "done"), "r"))


async def test_s42_a_call_that_still_waits_for_its_child_is_pending(ref: Any, tmp_path: Path) -> None:
    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(ref.math_sum, {"a": 1, "b": 2})
            await ctx.call_tool(ask_clarification, {"question": "Which?"})

    await run_on_files(tmp_path, Asking, None)
    store, target = JsonlFileStore(tmp_path), tmp_path / "f.json"
    told = {"file": str(target), "recordings": 1, "skippedPending": 1}
    assert await record_run(store, "r", target) == told
    assert await record_run(store, "r", target, ["ask_clarification"]) == {**told, "recordings": 0}
