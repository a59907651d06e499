"""State machines on the command line, as processes over a folder of runs."""

from __future__ import annotations

import importlib.util
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rulvar import JsonlFileStore
from rulvar.machines.report import prompt_of, read_run
from rulvar.testing import coverage, diff_traces, run_workflow

MACHINES = """
    from pydantic import BaseModel
    from rulvar import Input, MachineCtx, StateMachine, document, tool, transition
    from rulvar.hitl import AskUser, ask_clarification

    class Ticket(BaseModel):
        text: str

    class Approval(BaseModel):
        approved: bool

    executions = []

    @tool
    def classify_ticket(text: str):
        executions.append(text)
        return {"severity": "high" if "down" in text.lower() else "normal"}

    @document
    class Report(BaseModel):
        text: str

    class TriageTicket(StateMachine, args=Ticket):
        @transition(to="classified")
        async def classify(self, ctx: MachineCtx):
            ctx.state["severity"] = (await ctx.call_tool(classify_ticket, {"text": ctx.args.text}))["severity"]

        @transition(from_="classified", to="awaiting_approval")
        def report(self, ctx: MachineCtx):
            ctx.save(Report(text=ctx.state["severity"]), key="report")

        @transition(from_="awaiting_approval", to="end", wait=True, payload=Approval)
        def approve(self, ctx: MachineCtx, input: Input):
            ctx.result.update(severity=ctx.state["severity"], approved=input.data.approved)

    class AskName(StateMachine):
        @transition(to="asking")
        def begin(self, ctx: MachineCtx):
            ctx.start(AskUser, {"question": "Name?"}, on_done="on_answer")

        @transition(from_="asking", to="end", wait=True)
        def on_answer(self, ctx: MachineCtx, input: Input):
            ctx.result["greeting"] = f"Hello, {input.data['answer']}"

    class Clarify(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx):
            ctx.result.update(await ctx.call_tool(ask_clarification, {"question": "?"}))

    class Broken(StateMachine):
        @transition
        def go(self, ctx: MachineCtx):
            raise RuntimeError("broken")

    @document(internal=True)
    class Note(BaseModel):
        text: str

    @document
    class Fork(BaseModel):
        title: str
        roads: list[str]

    class Choose(StateMachine):
        @transition(to="at_the_fork")
        def begin(self, ctx: MachineCtx):
            ctx.save(Note(text="nobody sees this"))
            ctx.save(Fork(title="Which way?", roads=["left", "right"]))

        @transition(from_="at_the_fork", to="end", wait=True)
        def left(self, ctx: MachineCtx, input: Input):
            ctx.result["went"] = "left"

        @transition(from_="at_the_fork", to="end", wait=True, payload=Approval)
        def right(self, ctx: MachineCtx, input: Input):
            ctx.result["went"] = ["right", input.data.approved]

    class Base(StateMachine, abstract=True): ...
"""
FORK = "title: Which way?\nroads: left, right"
DOWN = {"text": "Production is down!"}


@pytest.fixture
def machines(project: Path) -> Any:
    """The machines' module, in the project and in this process."""
    path = project / "machines.py"
    path.write_text(textwrap.dedent(MACHINES))
    spec = importlib.util.spec_from_file_location("machines_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


async def test_a_machine_runs_waits_is_answered_and_ends(rulvar: Any, machines: Any, project: Path) -> None:
    begin = ("run", "machines.py:TriageTicket", "--arg", f"text={DOWN['text']}", "--run-id", "r", "--trace")
    waiting = rulvar(*begin, "--json")
    assert waiting.code == 3, waiting.err
    told = waiting.json
    assert (told["runId"], told["status"], told["result"], told["error"]) == ("r", "suspended", None, None)
    assert (told["place"], told["availableTransitions"]) == ("awaiting_approval", ["approve"])
    assert isinstance(told["durationMs"], int)

    refused = rulvar("answer", "r", "approve", '{"approved": "maybe"}')
    assert refused.code == 2
    assert "approved" in refused.err
    parked = await run_workflow(machines.TriageTicket, DOWN, run_id="r")
    await agree(parked, machines.TriageTicket, project)

    assert rulvar("answer", "r", "approve", '{"approved": true}').code == 0
    done = rulvar("resume", "r", "machines.py:TriageTicket", "--json")
    assert (done.code, done.json["result"]) == (0, {"severity": "high", "approved": True})
    assert done.json["path"] == ["classify", "report", "approve"]
    run = await run_workflow(machines.TriageTicket, DOWN, answers={"approve": {"approved": True}}, run_id="r")
    await agree(run, machines.TriageTicket, project)

    recorded = rulvar("runs", "r", "--record", "f.json", "--json")
    assert (recorded.code, recorded.json["recordings"], recorded.json["skippedPending"]) == (0, 1, 0)
    machines.executions.clear()
    replayed = await run_workflow(
        machines.TriageTicket, DOWN, answers={"approve": {"approved": True}}, replay=project / "f.json"
    )
    assert (replayed.result, machines.executions) == (run.result, [])
    wrong = rulvar("runs", "r", "--record", "f.json", "--tools", "nosuch")
    assert wrong.code == 2
    assert "classify_ticket" in wrong.err


def test_inspect_shows_where_machines_stand_as_the_tree_does(rulvar: Any, machines: Any) -> None:
    rulvar("run", "machines.py:AskName", "--run-id", "r")
    shown, tree = rulvar("inspect", "r").out, rulvar("runs", "r").out
    assert "".join(f"  {line}\n" for line in tree.splitlines()) in shown
    told = rulvar("inspect", "r", "--json").json
    assert (told["place"], told["path"], told["availableTransitions"]) == ("asking", ["begin"], ["on_answer"])
    bad = rulvar("run", "machines.py:TriageTicket", "--arg", "note=x", "--run-id", "bad", "--json")
    assert (bad.code, bad.json["error"]["code"]) == (2, "config")
    assert rulvar("runs", "bad").code == 2  # nothing has been recorded


async def agree(run: Any, machine: Any, project: Path) -> None:
    """A test run and the run in the store did the same and show the same."""
    view = await read_run(JsonlFileStore(project / ".rulvar"), "r")
    assert prompt_of(view) == run.park_view()
    assert coverage([view], machine) == coverage([run], machine)
    assert diff_traces(run, view) is None
    for child, other in zip(run.children, view.children, strict=True):
        assert diff_traces(child, other) is None


async def test_a_child_is_answered_by_the_name_of_its_transition(
    rulvar: Any, machines: Any, project: Path
) -> None:
    assert rulvar("run", "machines.py:AskName", "--run-id", "r", "--json").code == 3
    await agree(await run_workflow(machines.AskName, run_id="r"), machines.AskName, project)
    shown = rulvar("runs", "r")
    lines = shown.out.splitlines()
    assert lines[0] == "ask_name suspended at asking"
    assert "  ask_user suspended at waiting_for_user" in lines
    assert lines[-2:] == ["    asks:", "      Name?"]
    told = rulvar("runs", "r", "--json").json
    assert (told["status"], told["children"][0]["status"]) == ("suspended", "suspended")
    assert told["prompt"]["status"] == "suspended"
    assert told["prompt"]["workflowId"] == told["children"][0]["runId"]
    assert rulvar("answer", "r", "user_answered", '{"answer": "Ada"}').code == 0
    done = rulvar("resume", "r", "machines.py:AskName", "--json")
    assert (done.code, done.json["result"]) == (0, {"greeting": "Hello, Ada"})
    run = await run_workflow(machines.AskName, run_id="r", answers={"user_answered": {"answer": "Ada"}})
    await agree(run, machines.AskName, project)


def test_what_cannot_be_recorded_is_told(rulvar: Any, machines: Any, project: Path) -> None:
    rulvar("run", "machines.py:TriageTicket", "--arg", "text=hm", "--run-id", "r")
    untraced = rulvar("runs", "r", "--record", "f.json")
    assert untraced.code == 2
    assert "--trace" in untraced.err
    assert "RULVAR_TRACE" in untraced.err
    assert not (project / "f.json").exists()
    assert rulvar("runs", "r", "--tools", "x").code == 2
    assert rulvar("runs", "nosuch").code == 2
    rulvar("run", "machines.py:Clarify", "--run-id", "c", RULVAR_TRACE="1")
    rulvar("answer", "c", "user_answered", '{"answer": 1}')
    rulvar("resume", "c", "machines.py:Clarify")
    told = rulvar("runs", "c", "--record", "c.json", "--json").json
    assert (told["recordings"], told["skippedPending"]) == (0, 1)


def test_a_failed_machine_and_what_is_none(rulvar: Any, machines: Any) -> None:
    failed = rulvar("run", "machines.py:Broken", "--json")
    assert (failed.code, failed.json["errorMessage"]) == (1, "broken")
    run_id = failed.json["runId"]
    assert rulvar("runs", run_id).out.startswith("broken error at")
    assert rulvar("runs", run_id, "--json").json["status"] == failed.json["status"] == "error"
    none = rulvar("run", "machines.py:Base", "--json")
    assert none.code == 2
    assert "not as an abstract base" in json.loads(none.out)["error"]["message"]


def test_what_a_machine_asks_is_shown_wherever_it_can_be_answered(rulvar: Any, machines: Any) -> None:
    ran = rulvar("run", "machines.py:Choose", "--run-id", "r")
    shown = [ran.out, rulvar("answer", "r").out, rulvar("inspect", "r").out, rulvar("runs", "r").out]
    for text in shown:
        assert "title: Which way?\n" in text
        assert "roads: left, right\n" in text
        assert "nobody sees this" not in text
    for words in (["answer", "r"], ["inspect", "r"], ["runs", "r"]):
        pending = rulvar(*words, "--json").json["pending"]
        assert [(way["transition"], way["prompt"]) for way in pending] == [("left", FORK), ("right", FORK)]


def test_a_person_chooses_between_the_ways_out_of_a_place(rulvar: Any, machines: Any, person: Any) -> None:
    at = person("run", "machines.py:Choose", "--run-id", "r")
    at.expect("? left or right")
    at.expect("Which way?")
    at.expect("one of left, right followed by yes or no (approved)")
    for wrong, told in (("up", "'up' is none of them"), ("right", "right takes a value")):
        at.type(f"{wrong}\n")
        at.expect(told)
    at.type("right yes\n")
    at.expect('{"went": ["right", true]}')
    assert at.wait() == 0


def test_a_person_is_asked_by_the_child_and_not_by_the_machine_that_waits_for_it(
    machines: Any, person: Any
) -> None:
    at = person("run", "machines.py:AskName")
    at.expect("? user_answered")
    at.expect("Name?")
    at.type("Ada\n")
    at.expect("Hello, Ada")
    assert at.wait() == 0
    assert "? on_answer" not in at.plain


def test_the_one_field_of_an_answer_need_not_be_named(rulvar: Any, machines: Any) -> None:
    rulvar("run", "machines.py:TriageTicket", "--arg", "text=hm", "--run-id", "r")
    assert rulvar("answer", "r", "approve", "maybe").code == 2
    assert rulvar("answer", "r", "approve", "yes").code == 0
    assert rulvar("resume", "r", "machines.py:TriageTicket", "--json").json["result"]["approved"] is True


def test_no_never_fires_a_transition_that_takes_no_value(rulvar: Any, machines: Any) -> None:
    rulvar("run", "machines.py:Choose", "--run-id", "r")
    refused = rulvar("answer", "r", "left", "no")
    assert (refused.code, refused.out) == (2, "")
    assert "write yes to do so" in refused.err
    answered = rulvar("answer", "r", "left", "yes")
    assert answered.code == 0
    assert "still waits" not in answered.out
    assert rulvar("resume", "r", "machines.py:Choose", "--json").json["result"] == {"went": "left"}


AGENTS = """
    from rulvar import Agent
    from rulvar.testing import final, scripted_model

    clerk = Agent(id="clerk", model=scripted_model([final("It has shipped.")]))

    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(f"no {name}")

    odd = Odd()
"""


def test_an_agent_is_run_by_its_name_as_a_workflow_is(rulvar: Any, project: Path) -> None:
    (project / "agents.py").write_text(textwrap.dedent(AGENTS))
    done = rulvar("run", "agents.py:clerk", "--args", '"Where is it?"', "--run-id", "r", "--json")
    assert (done.code, done.json["workflow"], done.json["value"]) == (0, "agent:clerk", "It has shipped.")
    assert rulvar("replay", "r", "agents.py:clerk", "--json").json["status"] == "ok"
    assert "did you mean 'clerk'?" in rulvar("run", "agents.py:cleark").err
    assert "agents.py:odd is no workflow but an Odd" in rulvar("run", "agents.py:odd").err
    assert "; workflows there: clerk" in rulvar("run", "agents.py:nothing_like_it").err


def test_machines_are_among_the_workflows_of_a_file(rulvar: Any, machines: Any) -> None:
    assert "workflows there: AskName, AskUser, Broken, Choose" in rulvar("run", "machines.py:zzz").err
