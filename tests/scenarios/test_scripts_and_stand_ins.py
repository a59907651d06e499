"""More scenarios of recordings and stand-ins: what a script asserts, where it stands, what bypasses it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import MachineCtx, Retry, StateMachine, ToolRefusal, tool, transition
from rulvar.errors import ConfigError, ReplayLeftoverError
from rulvar.testing import contract_fake, load_fixture, replay, run_workflow, tool_mock

Entry = dict[str, Any]


def script(*entries: Entry, version: Any = 3) -> dict[str, Any]:
    return {"version": version, "recordings": list(entries)}


def entry(name: str, data: Any = None, **facts: Any) -> Entry:
    envelope = facts.pop("envelope", {"data": data})
    return {"tool": name, **facts, "envelope": envelope}


class Calls:
    """Three tools that count, and machines that call them."""

    def __init__(self) -> None:
        self.made: list[str] = []

        @tool
        def one(n: int = 0) -> int:
            self.made.append("one")
            return n

        @tool
        def two(where: dict[str, Any]) -> str:
            self.made.append("two")
            return "live"

        @tool(effects="write")
        def three() -> str:
            self.made.append("three")
            raise ToolRefusal("closed")

        self.one, self.two, self.three = one, two, three

    def machine(self, *calls: Any, **options: Any) -> Any:
        class Caller(StateMachine):
            @transition(to="end", **options)
            async def go(self, ctx: MachineCtx) -> None:
                ctx.result["told"] = [await ctx.call_tool(*call) for call in calls]

        return Caller

    def nested(self) -> Any:
        one = self.one

        class Inner(StateMachine):
            @transition
            async def ask(self, ctx: MachineCtx) -> None:
                ctx.result["n"] = await ctx.call_tool(one, {"n": ctx.args})

        class Outer(StateMachine):
            @transition(to="waiting")
            async def begin(self, ctx: MachineCtx) -> None:
                ctx.state["n"] = await ctx.call_tool(one, {"n": 1})
                ctx.start(Inner, 2, on_done="done")

            @transition(from_="waiting", to="end", wait=True)
            async def done(self, ctx: MachineCtx, input: Any) -> None:
                last = await ctx.call_tool(one, {"n": 3})
                ctx.result = [ctx.state["n"], input.data["n"], last]

        return Outer


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def drifted(machine: Any, fixture: Any, *parts: str, **options: Any) -> Any:
    run = await run_workflow(machine, replay=fixture, **options)
    assert run.outcome.error is not None
    assert (run.status, run.outcome.status, run.outcome.error.code) == ("failed", "error", "replay_drift")
    for part in parts:
        assert part in run.outcome.error.message, (part, run.outcome.error.message)
    return run


async def test_a_recording_of_a_tree_is_in_call_order_under_each_ones_name(
    calls: Calls, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "folder" / "tree.json"
    run = await run_workflow(calls.nested(), record=path)
    assert run.result == [1, 2, 3]
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["version"] == 3
    assert [(r["tool"], r["workflow"], r["transition"], r["args"]) for r in told["recordings"]] == [
        ("one", "outer", "begin", {"n": 1}),
        ("one", "inner", "ask", {"n": 2}),
        ("one", "outer", "done", {"n": 3}),
    ]
    assert [r["envelope"] for r in told["recordings"]] == [{"data": 1}, {"data": 2}, {"data": 3}]
    assert "config" not in told["recordings"][0]
    assert path.read_text(encoding="utf-8").startswith('{\n  "version": 3,\n  "recordings": [\n    {\n')
    assert path.read_text(encoding="utf-8").endswith("}\n")
    calls.made.clear()
    again = await run_workflow(calls.nested(), replay=path)
    assert (again.result, calls.made) == ([1, 2, 3], [])


async def test_a_recording_that_is_kept_in_memory_is_the_same(calls: Calls, tmp_path: Path) -> None:
    run = await run_workflow(calls.nested(), record=True)
    assert run.recordings is not None
    await run_workflow(calls.nested(), record=tmp_path / "f.json")
    assert run.recordings.to_wire() == json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert (await run_workflow(calls.nested())).recordings is None
    assert len(load_fixture(tmp_path / "f.json")) == 3


async def test_a_child_in_another_place_is_told_by_both_positions(calls: Calls) -> None:
    entries = [
        entry("one", 1, workflow="outer", transition="begin"),
        entry("one", 2, workflow="outer", transition="done"),
        entry("one", 3),
    ]
    await drifted(calls.nested(), script(*entries), "#2", "outer.done", "inner.ask")


@pytest.mark.parametrize(
    ("fact", "part"), [({"workflow": "other"}, "other"), ({"transition": "elsewhere"}, "elsewhere")]
)
async def test_a_position_that_is_written_down_is_asserted(calls: Calls, fact: Any, part: str) -> None:
    run = await drifted(
        calls.machine((calls.one, {"n": 1})), script(entry("one", 1, **fact)), "#1", "one", part
    )
    assert (run.path, run.place, calls.made) == (["go"], "start", [])


async def test_what_is_not_written_down_is_not_asserted(calls: Calls) -> None:
    machine = calls.machine((calls.one, {"n": 1}), (calls.two, {"where": {}}))
    run = await run_workflow(machine, replay=script(entry("one", 10), entry("two", "x", transition="go")))
    assert (run.status, run.result) == ("completed", {"told": [10, "x"]})


async def test_keys_are_sorted_at_every_depth_and_lists_are_not(calls: Calls) -> None:
    sent = {"where": {"a": {"x": 1, "y": [1, {"p": 1, "q": 2}]}, "b": None}}
    recorded = {"where": {"b": None, "a": {"y": [1, {"q": 2, "p": 1}], "x": 1}}}
    run = await run_workflow(
        calls.machine((calls.two, sent)), replay=script(entry("two", "x", args=recorded))
    )
    assert run.result == {"told": ["x"]}
    other = {"where": {"b": None, "a": {"y": [{"q": 2, "p": 1}, 1], "x": 1}}}
    await drifted(
        calls.machine((calls.two, sent)), script(entry("two", "x", args=other)), "#1", "two", "args"
    )


@pytest.mark.parametrize("recorded", [{}, {"n": 2}, {"n": "1"}, {"n": 1, "m": 1}, None])
async def test_other_arguments_are_drift(calls: Calls, recorded: Any) -> None:
    machine = calls.machine((calls.one, {"n": 1}))
    await drifted(machine, script(entry("one", 1, args=recorded)), "#1", "one", "caller", "go", "args")


async def test_another_config_is_drift_and_a_missing_one_is_not() -> None:
    @tool
    def ask(q: str) -> str:
        raise AssertionError("live")

    class Asking(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["a"] = await ctx.call_tool(
                ask, {"q": "x"}, config={"system": "Be brief.", "model": "m"}
            )

    given = {"model": "m", "system": "Be brief."}
    for facts in ({}, {"config": given}):
        assert (await run_workflow(Asking, replay=script(entry("ask", "y", **facts)))).result == {"a": "y"}
    changed = {**given, "system": "Be long."}
    await drifted(Asking, script(entry("ask", "y", config=changed)), "config", "ask", "Be brief.", "Be long.")


async def test_a_call_too_many_names_its_number_and_place(calls: Calls) -> None:
    machine = calls.machine(*[(calls.one, {"n": n}) for n in range(3)])
    run = await drifted(
        machine, script(entry("one", 1), entry("one", 2)), "exhausted", "3", "one", "caller.go"
    )
    assert ([e.type for e in run.tool_calls], calls.made) == (
        ["tool.completed", "tool.completed", "tool.failed"],
        [],
    )


@pytest.mark.parametrize("left", [1, 4])
async def test_responses_left_over_name_how_many_and_the_next(calls: Calls, left: int) -> None:
    entries = [entry("one", 1), *[entry("two", "x", workflow="caller", transition="go")] * left]
    with pytest.raises(ReplayLeftoverError) as caught:
        await run_workflow(calls.machine((calls.one, {"n": 1})), replay=script(*entries))
    for part in (str(left), "two", "caller.go"):
        assert part in str(caught.value)
    assert caught.value.code == "replay_leftover"


async def test_a_failed_run_may_leave_responses(calls: Calls) -> None:
    entries = [entry("one", envelope={"error": "503"}), entry("one", 1)]
    run = await run_workflow(
        calls.machine((calls.one, {"n": 1}), (calls.one, {"n": 1})), replay=script(*entries)
    )
    assert run.outcome.error is not None
    assert (run.status, run.outcome.error.code) == ("failed", "tool_failed")
    assert "503" in run.outcome.error.message


async def test_attempts_take_the_next_response_each(calls: Calls) -> None:
    machine = calls.machine((calls.one, {"n": 1}), retry=Retry(attempts=3), error_place="broken")
    entries = [entry("one", envelope={"error": text}) for text in ("first", "second")] + [entry("one", 5)]
    run = await run_workflow(machine, replay=script(*entries))
    assert (run.status, run.path, run.result) == ("completed", ["go"] * 3, {"told": [5]})
    errors = [event.error for event in run.trace if event.type == "transition.failed"]
    assert ["first" in errors[0], "second" in errors[1]] == [True, True]


async def test_drift_is_neither_retried_nor_routed(calls: Calls) -> None:
    machine = calls.machine((calls.one, {"n": 1}), retry=Retry(attempts=3), error_place="broken")
    run = await drifted(machine, script(entry("two", 1)), "two", "one")
    assert (run.path, run.place, run.available_transitions) == (["go"], "start", [])
    [failed] = [event for event in run.trace if event.type == "transition.failed"]
    assert failed.will_retry is False


async def test_drift_cannot_be_swallowed(calls: Calls) -> None:
    one = calls.one

    class Swallowing(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            try:
                await ctx.call_tool(one, {"n": 1})
            except BaseException:
                ctx.result["hidden"] = True

    run = await drifted(Swallowing, script(entry("one", 1, args={"n": 2})), "one")
    assert run.result is None


async def test_drift_in_a_child_fails_the_whole_run(calls: Calls) -> None:
    entries = [entry("one", 1), entry("one", 2, args={"n": 99})]
    run = await drifted(calls.nested(), script(*entries), "#2", "inner.ask", "99")
    assert run.path == ["begin"]


async def test_an_answer_goes_on_with_the_same_script(calls: Calls) -> None:
    one = calls.one

    class Pausing(StateMachine):
        @transition(to="open")
        async def begin(self, ctx: MachineCtx) -> None:
            ctx.state["n"] = await ctx.call_tool(one, {"n": 1})

        @transition(from_="open", to="end", wait=True)
        async def more(self, ctx: MachineCtx) -> None:
            ctx.result = [ctx.state["n"], await ctx.call_tool(one, {"n": 1})]

    parked = await run_workflow(Pausing, replay=script(entry("one", 7), entry("one", 8)))
    assert (parked.status, len(parked.tool_calls)) == ("waiting", 1)
    assert (await parked.answer("more")).result == [7, 8]
    with pytest.raises(ReplayLeftoverError):
        await run_workflow(Pausing, replay=script(*[entry("one", 1)] * 3), answers={"more": None})
    whole = await run_workflow(Pausing, answers={"more": None}, record=True)
    assert whole.recordings is not None
    assert len(whole.recordings) == 2


async def test_calls_side_by_side_take_their_places_as_they_start() -> None:
    gate = asyncio.Event()

    @tool
    async def wait(n: int) -> int:
        if n == 1:
            await gate.wait()
        else:
            gate.set()
        return n * 10

    class Parallel(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            calls = [lambda n=n: ctx.call_tool(wait, {"n": n}) for n in (1, 2)]
            ctx.result["told"] = await ctx.parallel(calls)

    recorded = await run_workflow(Parallel, record=True)
    assert recorded.recordings is not None
    wire = recorded.recordings.to_wire()
    assert [item["args"]["n"] for item in wire["recordings"]] == [1, 2]
    assert (await run_workflow(Parallel, replay=wire)).result == {"told": [10, 20]}


async def test_a_refusal_is_recorded_and_replays_as_the_failure_it_was(calls: Calls) -> None:
    recorded = await run_workflow(calls.machine((calls.three,)), record=True)
    assert (recorded.status, calls.made) == ("failed", ["three"])
    assert recorded.recordings is not None
    [only] = recorded.recordings.to_wire()["recordings"]
    assert only["envelope"] == {"error": "closed"}
    replayed = await run_workflow(calls.machine((calls.three,)), replay=recorded.recordings)
    assert replayed.error is not None
    assert (replayed.status, calls.made, "closed" in replayed.error.message) == ("failed", ["three"], True)


async def test_a_boundary_may_be_named_by_ids(calls: Calls) -> None:
    machine = calls.machine((calls.one, {"n": 4}), (calls.two, {"where": {}}))
    run = await run_workflow(machine, replay=script(entry("two", "scripted")), replay_tools=["two"])
    assert (run.result, calls.made) == ({"told": [4, "scripted"]}, ["one"])
    recorded = await run_workflow(machine, record=True, replay_tools=["one"])
    assert recorded.recordings is not None
    assert [item.tool for item in recorded.recordings.recordings] == ["one"]


async def test_a_call_outside_the_boundary_is_no_drift(calls: Calls) -> None:
    machine = calls.machine((calls.one, {"n": 1}), (calls.one, {"n": 2}), (calls.two, {"where": {}}))
    run = await run_workflow(machine, replay=script(entry("two", "x")), replay_tools=[calls.two])
    assert run.result == {"told": [1, 2, "x"]}


async def test_a_result_schema_gives_its_defaults_to_a_replayed_response_too() -> None:
    class Out(BaseModel):
        n: int
        unit: str = "EUR"

    @tool(result_schema=Out)
    def price() -> Any:
        return {"n": 1}

    class Pricing(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            got = await ctx.call_tool(price)
            ctx.result.update(n=got.n, unit=got.unit)

    recorded = await run_workflow(Pricing, record=True)
    assert recorded.recordings is not None
    assert recorded.recordings.to_wire()["recordings"][0]["envelope"] == {"data": {"n": 1}}
    replayed = await run_workflow(Pricing, replay=script(entry("price", {"n": 9})))
    assert (recorded.result, replayed.result) == ({"n": 1, "unit": "EUR"}, {"n": 9, "unit": "EUR"})
    stale = await run_workflow(Pricing, replay=script(entry("price", {"m": 9})))
    assert stale.outcome.error is not None
    assert (stale.status, stale.outcome.error.code) == ("failed", "invalid_output")
    assert "price" in stale.outcome.error.message
    assert "n" in stale.outcome.error.message


@pytest.mark.parametrize(
    ("wire", "parts"),
    [
        (script(version=1), ("1", "3", "record")),
        (script(version="3"), ("3", "record")),
        ({"recordings": []}, ("3", "record")),
        ({"version": 3}, ("recordings",)),
        ({"version": 3, "recordings": {}}, ("recordings",)),
        (script({"envelope": {"data": 1}}), ("#1", "tool")),
        (script(entry("a", 1), {"tool": "b"}), ("#2", "b", "envelope")),
        (script(entry("a", 1), entry("b", envelope=[])), ("#2", "b")),
        (
            script(entry("a", 1), entry("b", 1), entry("c", envelope={"pending": {"workflowId": "w"}})),
            ("#3", "c"),
        ),
        (script(entry("a", 1, workflow=7)), ("#1", "workflow")),
    ],
)
async def test_a_fixture_is_checked_before_anything_runs(
    calls: Calls, tmp_path: Path, wire: Any, parts: Any
) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps(wire), encoding="utf-8")
    for options in ({"replay": wire}, {"replay": path}, {"fixture": path}):
        with pytest.raises(ConfigError) as caught:
            await run_workflow(calls.machine((calls.one, {"n": 1})), **options)
        for part in parts:
            assert part in str(caught.value)
    assert calls.made == []


async def test_a_fixture_that_is_not_there(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path / "none.json")):
        await run_workflow(calls.machine((calls.one, {"n": 1})), replay=tmp_path / "none.json")
    with pytest.raises(TypeError, match="load_fixture"):
        replay(str(tmp_path / "none.json"))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("ci", "allow", "records"), [("true", None, False), ("1", "1", True), ("", None, True)]
)
async def test_recording_in_continuous_integration(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, allow: Any, records: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("RULVAR_RECORD", raising=False)
    if allow:
        monkeypatch.setenv("RULVAR_RECORD", allow)
    path = tmp_path / "f.json"
    machine = calls.machine((calls.one, {"n": 1}))
    if records:
        assert (await run_workflow(machine, fixture=path)).status == "completed"
        assert path.exists()
        monkeypatch.setenv("CI", "true")  # what is there is replayed everywhere
        assert (await run_workflow(machine, fixture=path)).status == "completed"
        assert calls.made == ["one"]
        return
    with pytest.raises(ConfigError) as caught:
        await run_workflow(machine, fixture=path)
    assert str(path.absolute()) in str(caught.value)
    assert "RULVAR_RECORD" in str(caught.value)
    assert (path.exists(), calls.made) == (False, [])


async def test_a_fixture_of_a_parked_run_is_written(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # nothing is recorded there
    one = calls.one

    class Pausing(StateMachine):
        @transition(to="open")
        async def begin(self, ctx: MachineCtx) -> None:
            await ctx.call_tool(one, {"n": 1})

        @transition(from_="open", to="end", wait=True)
        def more(self, ctx: MachineCtx) -> None: ...

    path = tmp_path / "f.json"
    assert (await run_workflow(Pausing, fixture=path)).status == "waiting"
    assert len(load_fixture(path)) == 1
    assert (await run_workflow(Pausing, fixture=path)).status == "waiting"
    assert calls.made == ["one"]


# -- stand-ins -------------------------------------------------------------------------------


class Total(BaseModel):
    total: int
    unit: str = "EUR"


@tool(result_schema=Total)
def total_of(a: int, b: int) -> Any:
    """Add."""
    raise AssertionError("live")


class Adding(StateMachine):
    @transition
    async def add(self, ctx: MachineCtx) -> None:
        made = [await ctx.call_tool(total_of, {"a": 1, "b": n}) for n in range(3)]
        ctx.result["totals"] = [item["total"] if isinstance(item, dict) else item.total for item in made]


async def test_a_mock_answers_one_after_another() -> None:
    mock = tool_mock(total_of)
    mock.side_effect = [{"data": {"total": n}} for n in (5, 6, 7)]
    run = await run_workflow(Adding, overrides={total_of: mock})
    assert run.result == {"totals": [5, 6, 7]}
    assert [call.args[0] for call in mock.await_args_list] == [{"a": 1, "b": n} for n in range(3)]


async def test_a_mock_may_fail_a_call() -> None:
    mock = tool_mock(total_of).returns({"error": "upstream 503"})
    run = await run_workflow(Adding, overrides={total_of: mock})
    assert run.error is not None
    assert (run.status, "upstream 503" in run.error.message) == ("failed", True)
    mock.assert_awaited_once_with({"a": 1, "b": 0})


async def test_a_mock_stands_for_the_whole_pipeline() -> None:
    seen: list[str] = []

    @tool(id="guarded", effects="write", result_schema=Total)
    def guarded(a: int) -> Any:
        raise AssertionError("live")

    class Wrong(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["told"] = await ctx.call_tool(guarded, {"a": "no number"})

    mock = tool_mock("guarded").returns({"data": "anything"})
    run = await run_workflow(Wrong, overrides={"guarded": mock}, record=True)
    assert (run.result, seen) == ({"told": "anything"}, [])
    assert run.recordings is not None
    assert len(run.recordings) == 0
    with pytest.raises(ReplayLeftoverError):
        await run_workflow(Wrong, overrides={guarded: mock}, replay=script(entry("guarded", {"total": 1})))


async def test_a_mock_that_nobody_scripted_names_the_tool() -> None:
    mock = tool_mock(total_of)
    run = await run_workflow(Adding, overrides={total_of: mock})
    assert run.error is not None
    assert (run.status, "total_of" in run.error.message) == ("failed", True)


async def test_a_fake_answers_from_its_queue_and_then_as_it_stands() -> None:
    fake = contract_fake(total_of).returns_once({"data": {"total": 1}}).returns({"data": {"total": 2}})
    run = await run_workflow(Adding, overrides={total_of: fake})
    assert run.result == {"totals": [1, 2, 2]}
    assert fake.call.await_count == 3
    fake.call.assert_any_await({"a": 1, "b": 2})


async def test_a_fake_gives_what_the_tool_would_have_given() -> None:
    class Unit(StateMachine):
        @transition
        async def add(self, ctx: MachineCtx) -> None:
            made = await ctx.call_tool(total_of, {"a": 1, "b": 2})
            ctx.result["unit"] = made.unit

    fake = contract_fake(total_of).returns({"data": {"total": 1}})
    assert (await run_workflow(Unit, overrides={total_of: fake})).result == {"unit": "EUR"}


async def test_a_fake_whose_queue_is_used_up_says_so() -> None:
    fake = contract_fake(total_of).returns_once({"data": {"total": 1}})
    run = await run_workflow(Adding, overrides={total_of: fake})
    assert run.error is not None
    assert (run.status, "total_of" in run.error.message, "returns" in run.error.message) == (
        "failed",
        True,
        True,
    )


@pytest.mark.parametrize(
    "envelope",
    [
        {"data": {"total": "x"}},
        {"data": {}},
        {"data": None},
        {"error": "e"},
        {"pending": {"workflowId": "w"}},
        {"datum": 1},
        {"data": {"total": 1}, "error": "e"},
    ],
)
@pytest.mark.parametrize("how", ["returns", "returns_once"])
def test_a_fake_refuses_what_the_tool_could_never_give(envelope: Any, how: str) -> None:
    with pytest.raises(ConfigError, match="total_of"):
        getattr(contract_fake(total_of), how)(envelope)
