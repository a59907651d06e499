"""Clock, answers, stand-ins, coverage and comparison: what they refuse, and where they end."""

from __future__ import annotations

import asyncio
import pkgutil
from types import SimpleNamespace
from typing import Any

import pytest

import rulvar
from rulvar import MachineCtx, StateMachine, testing, tool, transition, workflow
from rulvar.errors import ConfigError, FakeResponderError
from rulvar.testing import (
    TestClock,
    contract_fake,
    coverage,
    diff_traces,
    failure,
    load_fixture,
    queue,
    replay,
    run_transition,
    run_workflow,
    tool_mock,
)
from rulvar.testing.fixture import ToolRecording, may_record


async def test_a_clock_moves_only_when_it_is_told_and_calls_back_in_due_order() -> None:
    clock = TestClock(1.5)
    called: list[str] = []
    clock.schedule(0.2, lambda: called.append(f"late {clock.now_ms()}"))
    clock.schedule(0.1, lambda: called.append(f"early {clock.now_ms()}"))
    forget = clock.schedule(0.1, lambda: called.append("forgotten"))
    forget()
    assert (clock.now(), clock.now_ms(), clock.scheduled) == (1.5, 1500, 2)
    clock.advance(0.3)
    assert called == ["early 1600", "late 1700"]
    assert clock.now_ms() == 1800
    clock.set(2)
    with pytest.raises(ConfigError, match=r"1\.0.*2\.0"):
        clock.set(1.0)
    for wrong in (-1, True, "1"):
        with pytest.raises(ConfigError):
            clock.advance(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        TestClock(float("nan"))


async def test_a_sleeper_wakes_when_the_clock_gets_there() -> None:
    clock = TestClock()
    sleeper = asyncio.ensure_future(clock.sleep(1))
    await clock.wait_for_scheduled()
    await clock.advance(0.999)
    assert not sleeper.done()
    await clock.advance(0.001)
    assert sleeper.done()
    await clock.sleep(0)
    sleeper = asyncio.ensure_future(clock.sleep(5))
    await clock.wait_for_scheduled()
    sleeper.cancel()
    await asyncio.sleep(0)
    assert clock.scheduled == 0


async def test_many_forgotten_timers_are_let_go() -> None:
    clock = TestClock()
    for _ in range(1000):
        clock.schedule(300, lambda: None)()
    assert clock.scheduled == 0
    assert len(clock._timers) < 200


def test_a_failure_has_a_text_and_one_of_two_statuses() -> None:
    assert failure().message == "the child failed"
    assert failure(status="cancelled").message == "the child was cancelled"
    with pytest.raises(ConfigError, match="status='broken'"):
        failure(status="broken")  # type: ignore[arg-type]


@workflow(name="gated")
async def gated(ctx: Any, args: Any) -> Any:
    return [await ctx.await_external("gate"), await ctx.await_external("other", schema={"type": "integer"})]


async def test_a_plain_workflow_is_answered_by_key() -> None:
    run = await run_workflow(gated, answers={"gate": None, "other": queue(1)})
    assert (run.status, run.result, run.place, run.path) == ("completed", [None, 1], None, [])
    assert [event.type for event in run.trace] == ["run.settled"] * 3
    run = await run_workflow(gated, answers={"gate": 1, "other": "x"})
    assert (run.status, [way.key for way in run.view.waits]) == ("waiting", ["other"])
    assert run.error is not None
    assert "'other'" in run.error.message
    with pytest.raises(ConfigError, match="answers"):
        await run_workflow(gated, answers=["gate"])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_steps=0"):
        await run_workflow(gated, max_steps=0)
    with pytest.raises(ConfigError, match="expected a workflow"):
        await run_workflow(dict)


@tool
def work(n: int) -> int:
    """Work."""
    return n


async def test_stand_ins_refuse_what_is_no_tool() -> None:
    for make in (tool_mock, contract_fake):
        with pytest.raises(ConfigError):
            make(7)  # type: ignore[operator]
    mock = tool_mock("work")
    with pytest.raises(FakeResponderError, match="work"):
        await mock({"n": 1})
    mock.side_effect = [{"data": 1}, {"data": 2}]
    assert [await mock({"n": 1}), await mock({"n": 2})] == [{"data": 1}, {"data": 2}]
    fake = contract_fake(work).returns({"data": 5})
    assert (await fake({"n": 1})).data == 5
    fake.call.assert_awaited_once_with({"n": 1})
    fake.assert_awaited_once()


class Loop(StateMachine):
    @transition("open")
    def begin(self, ctx: MachineCtx) -> None: ...

    @transition("open", "open", wait=True)
    async def again(self, ctx: MachineCtx) -> None:
        await ctx.call_tool(work, {"n": 1})

    @transition("end", "open", wait=True)
    def leave(self, ctx: MachineCtx) -> None: ...


async def test_traces_part_where_they_part() -> None:
    short = await run_workflow(Loop, answers={"leave": None})
    longer = await run_workflow(Loop, answers={"again": queue(None)})
    difference = diff_traces(short, longer)
    assert difference is not None
    assert (difference.index, difference.reason) == (
        3,
        "transitionId of transition.started: expected 'leave', got 'again'",
    )
    extra = diff_traces(short.trace[:2], short.trace)
    assert extra is not None
    assert (extra.index, extra.expected) == (2, None)
    assert "4 extra events" in extra.reason
    for wrong in (7, "trace", [1]):
        with pytest.raises(ConfigError):
            diff_traces(short, wrong)


async def test_coverage_counts_only_its_machine_and_says_what_it_cannot_read() -> None:
    run = await run_workflow(Loop, answers={"again": queue(None)})
    covered = coverage([run], Loop)
    assert covered.missing_transitions == ["leave"]
    assert (covered.parked_on, covered.complete) == (["again", "leave"], False)
    assert coverage([], Loop).missing_transitions == ["begin", "again", "leave"]
    with pytest.raises(ConfigError, match="no state machine"):
        coverage([run], dict)
    with pytest.raises(ConfigError, match=r"runs\[0\]"):
        coverage([7], Loop)


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ([], "expected an object"),
        ({"version": True, "recordings": []}, "version True"),
        ({"version": 3}, "recordings"),
        ({"version": 3, "recordings": [7]}, "#1"),
        ({"version": 3, "recordings": [{"tool": ""}]}, "#1"),
        ({"version": 3, "recordings": [{"tool": "t"}]}, "no envelope"),
        ({"version": 3, "recordings": [{"tool": "t", "envelope": 1}]}, "envelope"),
        ({"version": 3, "recordings": [{"tool": "t", "envelope": {"dat": 1}}]}, "envelope.dat"),
        ({"version": 3, "recordings": [{"tool": "t", "envelope": {"error": 1}}]}, "envelope.error"),
        ({"version": 3, "recordings": [{"tool": "t", "workflow": 1, "envelope": {}}]}, "workflow"),
        (
            {"version": 3, "recordings": [{"tool": "t", "envelope": {"documents": [{"content": 1}]}}]},
            r"documents\[0\].documentName",
        ),
    ],
)
def test_a_fixture_that_cannot_be_read_is_told_by_entry_and_field(
    wire: Any, said: str, tmp_path: Any
) -> None:
    import json

    path = tmp_path / "f.json"
    path.write_text(json.dumps(wire))
    with pytest.raises(ConfigError, match=said) as caught:
        load_fixture(path)
    assert "f.json" in str(caught.value)


def test_a_fixture_file_that_is_none_is_told(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="no such fixture"):
        load_fixture(tmp_path / "missing.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ConfigError, match=r"broken\.json: not JSON"):
        load_fixture(tmp_path / "broken.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_fixture(tmp_path)
    with pytest.raises(ConfigError, match="expected a path"):
        load_fixture(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environ", "may"),
    [
        ({}, True),
        ({"CI": ""}, True),
        ({"CI": "false"}, True),
        ({"CI": "1"}, False),
        ({"CI": "true"}, False),
        ({"CI": "1", "RULVAR_RECORD": "1"}, True),
        ({"CI": "1", "RULVAR_RECORD": "0"}, False),
    ],
)
def test_what_ci_means(environ: dict[str, str], may: bool) -> None:
    assert may_record(environ) is may


async def test_a_recording_whose_run_failed_is_kept_and_replays_the_failure(tmp_path: Any) -> None:
    @tool
    def broken() -> None:
        raise RuntimeError("PRIVATE")

    class Failing(StateMachine):
        @transition
        async def begin(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(broken)

    path = ToolRecording(tmp_path / "f.json", "once")
    first = await run_workflow(Failing, fixture=path)
    again = await run_workflow(Failing, fixture=path)
    assert first.outcome.error == again.outcome.error
    assert "PRIVATE" not in (tmp_path / "f.json").read_text()


async def test_a_body_cannot_swallow_drift() -> None:
    class Swallowing(StateMachine):
        @transition("x", retry=None, error_place="broken")
        async def begin(self, ctx: MachineCtx) -> None:
            try:
                await ctx.call_tool(work, {"n": 2})
            except Exception:
                ctx.state["swallowed"] = True

        @transition("end", "x")
        def finish(self, ctx: MachineCtx) -> None: ...

        @transition("end", "broken", wait=True)
        def recover(self, ctx: MachineCtx) -> None: ...

    script = {"version": 3, "recordings": [{"tool": "work", "args": {"n": 1}, "envelope": {"data": 1}}]}
    run = await run_workflow(Swallowing, replay=script)
    assert (run.status, run.place, run.available_transitions) == ("failed", "start", [])
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"
    assert [event.type for event in run.trace] == [
        "transition.started",
        "tool.called",
        "tool.failed",
        "transition.failed",
        "run.settled",
    ]

    @workflow(name="plain")
    async def plain(ctx: Any, args: Any) -> Any:
        ends = await ctx.parallel([lambda: ctx.call_tool(work, {"n": 2})], settle=True)
        return len(ends)

    run = await run_workflow(plain, replay=script)
    assert run.outcome.error is not None
    assert run.outcome.error.code == "replay_drift"


async def test_a_failure_is_no_answer_to_a_wait_that_is_no_transition() -> None:
    with pytest.raises(ConfigError, match=r"answers\['gate'\]: failure\(\) answers a wait transition"):
        await run_workflow(gated, answers={"gate": failure("gone")})


class Working(StateMachine):
    @transition
    async def go(self, ctx: MachineCtx) -> None:
        ctx.result["n"] = await ctx.call_tool(work, {"n": 1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fixture": 3}, "fixture=3: expected the path of a file"),
        ({"fixture": ""}, "fixture='': expected the path of a file"),
        ({"record": 3}, "record=3: expected the path of a file"),
        ({"record": "."}, "is a folder; name a file in it"),
        ({"fixture": "."}, "is a folder; name a file in it"),
        (
            {"record": True, "replay_tools": ["wrok"]},
            "replay_tools: no tool of the run is named 'wrok'; tools: work",
        ),
        (
            {"overrides": {"wrok": tool_mock("wrok")}},
            "overrides: no tool of the run is named 'wrok'; tools: work",
        ),
    ],
)
async def test_an_option_that_cannot_be_is_told_before_anything_runs(options: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await run_workflow(Working, **options)
    assert said in str(caught.value)


async def test_numbers_are_compared_as_json_does() -> None:
    def script(n: Any) -> Any:
        return {"version": 3, "recordings": [{"tool": "work", "args": {"n": n}, "envelope": {"data": 1}}]}

    assert (await run_workflow(Working, replay=script(1.0))).status == "completed"
    for drifted in (True, "1", 2, None):
        run = await run_workflow(Working, replay=script(drifted))
        assert run.outcome.error is not None
        assert run.outcome.error.code == "replay_drift"


def test_a_cassette_is_not_a_tool_fixture() -> None:
    with pytest.raises(TypeError, match=r"load_fixture\(path\)"):
        replay("fixture.json")


async def test_tools_that_a_namespace_holds_are_found_by_name() -> None:
    class Looking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["n"] = await ctx.call_tool(held.work, {"n": 1})

    held = SimpleNamespace(work=work)
    run = await run_workflow(Looking, overrides={"work": tool_mock(work).returns({"data": 7})})
    assert run.result == {"n": 7}


async def test_a_single_transition_is_given_a_state() -> None:
    with pytest.raises(ConfigError, match="run_transition state=3: expected a mapping"):
        await run_transition(Working, "go", state=3)


def test_no_public_name_is_that_of_a_module() -> None:
    """A module that is imported takes its name in its package, and a name that is loaded late would be lost."""
    for package in (rulvar, testing):
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        assert not modules & set(package.__all__)


async def test_one_run_alone_may_be_asked_for_its_coverage() -> None:
    run = await run_workflow(Working)
    assert coverage(run, Working) == coverage([run], Working)
    for wrong in (3, [3], "run"):
        with pytest.raises(ConfigError, match=r"coverage runs\[0\]: expected a run"):
            coverage(wrong, Working)


async def test_a_mock_whose_responses_are_used_up_says_so() -> None:
    @tool
    def count(n: int) -> int:
        return n

    class Counting(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            for n in range(3):
                await ctx.call_tool(count, {"n": n})

    mock = testing.tool_mock(count)
    mock.side_effect = [{"data": 1}, {"data": 2}]
    run = await run_workflow(Counting, overrides={count: mock})
    assert run.error is not None
    assert "the mock of tool count has no response left at call 3" in run.error.message


async def test_a_tool_that_runs_an_agent_is_tested_in_a_run() -> None:
    expert = rulvar.Agent(
        id="expert", model=testing.scripted_model([testing.final("x")]), description="Knows."
    )
    with pytest.raises(ConfigError, match="run_tool: tool expert runs an agent"):
        await testing.run_tool(rulvar.agent_as_tool(expert), {"input": "x"})
