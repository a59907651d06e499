"""Shake: planted faults are found, with call site, field and condition; what is stable is left alone."""

from __future__ import annotations

import calendar
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pytest_project import Project

from rulvar.testing.report import read_report
from rulvar.testing.shake.conditions import moved_seconds

FAULTS = """
import asyncio
import datetime as dt
import glob
import locale
import os
import random
import socket
import time
import uuid
from datetime import date, datetime
from os import listdir
from pathlib import Path

from rulvar import workflow

NAMES = ["alpha", "beta", "gamma", "delta"]
TEAM = os.environ.get("TEAM", "core")


@workflow
async def set_order(ctx, args):
    await ctx.agent("Review " + ", ".join(set(NAMES)))  # here


@workflow
async def set_loop(ctx, args):
    for name in set(NAMES):
        await ctx.agent(f"Review {name}")  # here


@workflow
async def set_branches(ctx, args):
    await ctx.parallel([lambda name=name: ctx.agent(f"Review {name}") for name in set(NAMES)])  # here


@workflow
async def step_deps(ctx, args):
    await ctx.step("count", lambda: 3, deps=[list(frozenset(NAMES))])  # here


@workflow
async def built_in_hash(ctx, args):
    await ctx.agent(f"Bucket {hash('alpha') % 100_000}")  # here


@workflow
async def address(ctx, args):
    await ctx.agent(f"Object {id(ctx)}")  # here


@workflow
async def object_repr(ctx, args):
    await ctx.agent(f"Object {object()!r}")  # here


@workflow
async def directory_listing(ctx, args):
    await ctx.agent("Files " + ", ".join(listdir(args["folder"])))  # here


@workflow
async def directory_glob(ctx, args):
    await ctx.agent("Files " + ", ".join(path.name for path in Path(args["folder"]).glob("*.txt")))  # here


@workflow
async def directory_walk(ctx, args):
    await ctx.agent("Files " + str([files for _, _, files in os.walk(args["folder"])]))  # here


@workflow
async def old_glob(ctx, args):
    await ctx.agent("Files " + ", ".join(map(os.path.basename, glob.glob(args["folder"] + "/*.txt"))))  # here


@workflow
async def local_time_zone(ctx, args):
    await ctx.agent(f"It is {ctx.now().astimezone():%H} o'clock")  # here


@workflow
async def naive_epoch(ctx, args):
    await ctx.agent(f"Since {datetime.fromtimestamp(0)}")  # here


@workflow
async def environment(ctx, args):
    await ctx.agent("Region " + os.environ.get("REGION", "eu"))  # here


@workflow
async def environment_flag(ctx, args):
    if os.getenv("VERBOSE"):
        await ctx.agent("Tell me everything")  # here
    await ctx.agent("Tell me")


@workflow
async def environment_on_import(ctx, args):
    await ctx.agent("Team " + TEAM)  # here


@workflow
async def host(ctx, args):
    await ctx.agent("Host " + socket.gethostname())  # here


@workflow
async def working_directory(ctx, args):
    await ctx.agent(f"In {os.getcwd()}")  # here


@workflow
async def home_folder(ctx, args):
    await ctx.agent(f"Home {Path.home()} {os.path.expanduser('~')}")  # here


@workflow
async def from_import_in_a_closure(ctx, args):
    from datetime import date as today_in

    await ctx.agent(f"It is {today_in.today().year}")  # here


@workflow
async def year(ctx, args):
    await ctx.agent(f"It is {datetime.now().year}")  # here


@workflow
async def today(ctx, args):
    await ctx.agent(f"It is {dt.date.today()}")  # here


@workflow
async def half_of_the_day(ctx, args):
    if time.localtime().tm_hour < 12:
        await ctx.agent("Good morning")  # here
    else:
        await ctx.agent("Good evening")  # here


@workflow
async def fresh_id(ctx, args):
    await ctx.agent(f"Ticket {uuid.uuid4()}")  # here


@workflow
async def seeded_by_the_test(ctx, args):
    await ctx.agent(f"Draw {random.random()}")  # here


@workflow
async def number_format(ctx, args):
    await ctx.agent("Amount " + locale.format_string("%.2f", 1234.5, grouping=True))  # here


@workflow
async def collation(ctx, args):
    await ctx.agent(", ".join(sorted(["b", "B", "a", "A"], key=locale.strxfrm)))  # here


@workflow
async def completion_order(ctx, args):
    done = []

    async def look(name):
        await ctx.agent(f"Look at {name}")
        done.append(name)

    await ctx.parallel([lambda name=name: look(name) for name in NAMES])
    await ctx.agent("Merge " + ", ".join(done))  # here


@workflow
async def first_completed(ctx, args):
    tasks = [asyncio.ensure_future(ctx.agent(f"Look at {name}")) for name in NAMES]
    answers = [await answer for answer in asyncio.as_completed(tasks)]
    await ctx.agent("Merge " + ", ".join(answers))  # here


@workflow
async def shared_counter(ctx, args):
    count = 0

    async def look(name):
        nonlocal count
        answer = await ctx.agent(f"Look at {name}")
        count += 1
        await ctx.agent(f"Finding {count}: {answer}")  # here

    await asyncio.gather(*(look(name) for name in NAMES))


@workflow
async def threads(ctx, args):
    done = []
    loop = asyncio.get_running_loop()

    async def read(name):
        done.append(await asyncio.to_thread(str.upper, name))

    await asyncio.gather(*map(read, NAMES))
    await ctx.agent("Read " + ", ".join(done))  # here


@workflow
async def child_of_a_stable_parent(ctx, args):
    return await ctx.agent("Review " + ", ".join(set(NAMES)))  # here


@workflow
async def stable_parent(ctx, args):
    return await ctx.workflow(child_of_a_stable_parent, {"n": 1})


@workflow
async def result(ctx, args):
    await ctx.agent("Review")  # here
    return list(set(NAMES))


ALL = [value for value in list(globals().values()) if type(value).__name__ == "Workflow"]
"""
TEST = """
import random

import pytest

from flows import ALL


@pytest.mark.parametrize("flow", ALL, ids=[flow.name for flow in ALL])
async def test_flow(flow, rulvar_engine, tmp_path):
    random.seed(1)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name)
    engine = rulvar_engine(agents={"*": lambda call: "about: " + call.prompt})
    outcome = await engine.run(flow, {"folder": str(tmp_path)}).result()
    assert outcome.status == "ok", outcome.error
"""
PROCESS = "another process (hash seed, object addresses, what is read on import)"
EVERY_RUN = "any other run"
EXPECTED: dict[str, tuple[str, str | None, set[str]]] = {
    "set_order": ("identity", "prompt", {PROCESS}),
    "set_loop": ("order", "prompt", {PROCESS}),
    "set_branches": ("identity", "prompt", {PROCESS}),
    "step_deps": ("identity", "deps[0][0]", {PROCESS}),
    "built_in_hash": ("identity", "prompt", {PROCESS}),
    "address": ("identity", "prompt", {PROCESS, EVERY_RUN}),
    "object_repr": ("identity", "prompt", {PROCESS, EVERY_RUN}),
    "directory_listing": ("identity", "prompt", {"another directory order"}),
    "directory_glob": ("identity", "prompt", {"another directory order"}),
    "directory_walk": ("identity", "prompt", {"another directory order"}),
    "old_glob": ("identity", "prompt", {"another directory order"}),
    "local_time_zone": ("identity", "prompt", {"another time zone"}),
    "naive_epoch": ("identity", "prompt", {"another time zone"}),
    "environment": ("identity", "prompt", {"another environment"}),
    "environment_flag": ("identity", "prompt", {"another environment"}),
    "environment_on_import": ("identity", "prompt", {PROCESS}),
    "host": ("identity", "prompt", {"another environment"}),
    "working_directory": ("identity", "prompt", {"another environment"}),
    "home_folder": ("identity", "prompt", {"another environment"}),
    "from_import_in_a_closure": ("identity", "prompt", {"another clock"}),
    "year": ("identity", "prompt", {"another clock"}),
    "today": ("identity", "prompt", {"another clock", "another time zone"}),
    "half_of_the_day": ("identity", "prompt", {"another clock", "another time zone"}),
    "fresh_id": ("identity", "prompt", {EVERY_RUN}),
    "seeded_by_the_test": ("identity", "prompt", {EVERY_RUN, PROCESS, "another seed of random"}),
    "number_format": ("identity", "prompt", {"another locale"}),
    "collation": ("identity", "prompt", {"another locale"}),
    "completion_order": ("identity", "prompt", {"another order of completion"}),
    "first_completed": ("identity", "prompt", {"another order of completion", PROCESS, EVERY_RUN}),
    "shared_counter": ("identity", "prompt", {"another order of completion"}),
    "threads": ("identity", "prompt", {"another order of completion", PROCESS, EVERY_RUN}),
    "child_of_a_stable_parent": ("identity", "prompt", {PROCESS}),
    "stable_parent": ("identity", "prompt", {PROCESS}),
    "result": ("outcome", None, {PROCESS}),
}
STABLE = '''
import asyncio
import copy
import os
import pickle
import random
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from rulvar import tool, workflow
from rulvar.errors import AgentCallError

NAMES = ["alpha", "beta", "gamma"]
STARTED = time.time()


@dataclass
class Verdict:
    ok: bool
    note: str


@tool
def clock() -> str:
    """Tell the time."""
    return str(time.time())


@workflow
async def impure_in_steps(ctx, args):
    listed = await ctx.step("list", lambda: os.listdir(args["folder"]))
    region = await ctx.step("region", lambda: os.environ.get("REGION", str(random.random())))
    now = await ctx.step("now", lambda: datetime.now().isoformat())
    await ctx.agent(f"{listed} {region} {now}")


@workflow
async def ctx_values(ctx, args):
    await ctx.agent(f"{ctx.now().isoformat()} {ctx.time()} {ctx.random()} {ctx.random('k')} {ctx.uuid()} {ctx.run_id}")


@workflow
async def branches(ctx, args):
    async def look(name):
        first = await ctx.agent(f"Look at {name}")
        return await ctx.agent(f"Again: {first}")

    answers = await ctx.parallel([lambda name=name: look(name) for name in NAMES])
    settled = await ctx.parallel([ctx.agent(f"Once more at {name}") for name in NAMES], settle=True)
    return await ctx.agent("Merge " + ", ".join(answers) + str([item.status for item in settled]))


@workflow
async def plain_gather(ctx, args):
    async def look(name):
        return await ctx.agent(f"Again: {await ctx.agent(f'Look at {name}')}")

    return await ctx.agent("Merge " + ", ".join(await asyncio.gather(*map(look, NAMES))))


@workflow
async def stages(ctx, args):
    async def draft(name):
        return await ctx.agent(f"Draft {name}")

    async def polish(text):
        return await ctx.agent(f"Polish {text}")

    return await ctx.pipeline(NAMES, draft, polish)


@workflow
async def sorted_set(ctx, args):
    for name in sorted(set(NAMES)):
        await ctx.agent(f"Review {name}")
    return sorted(os.listdir(args["folder"]))


@workflow
async def seeded_chance(ctx, args):
    chance = random.Random(args["seed"])
    await ctx.agent(f"Sample {chance.sample(range(100), 5)}")


@workflow
async def typed(ctx, args):
    verdict = await ctx.agent("Judge", agent_type="judge", schema=Verdict)
    await ctx.agent(f"Explain {verdict.ok} {verdict.note}")


@workflow
async def with_a_tool(ctx, args):
    await ctx.agent("What time is it?", agent_type="teller", tools=[clock])
    await ctx.agent("Thanks")


@workflow
async def failures(ctx, args):
    missing = await ctx.agent("Fail", agent_type="broken", on_error="null")
    try:
        await ctx.agent("Fail again", agent_type="broken", memoize_outcome=True)
    except AgentCallError as error:
        await ctx.agent(f"It said {error}")
    await ctx.agent(f"Go on with {missing}")


@workflow
async def part(ctx, args):
    async with ctx.phase("part"):
        return await ctx.agent(f"Part {args['n']}")


@workflow
async def parent(ctx, args):
    first = await ctx.workflow(part, {"n": 1})
    both = await ctx.parallel([ctx.workflow(part, {"n": 2}), ctx.workflow(part, {"n": 3})])
    return await ctx.agent(f"Merge {first} {both}")


@workflow
async def slow(ctx, args):
    await asyncio.sleep(3600 if args["long"] else 0)
    await asyncio.to_thread(Path(args["folder"]).exists)
    async with asyncio.timeout(5):
        return await ctx.agent("Done")


@workflow
async def given_dates(ctx, args):
    given = datetime.fromisoformat("2026-01-02T03:04:05+00:00")
    day = date(2026, 1, 2)
    copied = pickle.loads(pickle.dumps([given, day, copy.deepcopy(given)]))
    assert isinstance(given, datetime) and isinstance(day, date) and issubclass(datetime, date)
    assert copied == [given, day, given] and given.date() == day and given > datetime(2025, 1, 1, tzinfo=UTC)
    match given:
        case datetime(year=year):
            await ctx.agent(f"{year} {given:%Y-%m-%d} {day} {datetime.strptime('2026', '%Y').isoformat()}")
    await ctx.agent(f"{datetime.fromtimestamp(0, UTC)} {datetime.combine(day, given.time())} {time.gmtime(0).tm_year}")
    await ctx.agent(f"{ctx.now():%Y} \\ud83d {os.path.basename(__file__)} {Path(__file__).resolve().name}")


@workflow
async def budgeted(ctx, args):
    left = ctx.budget.remaining().usd
    return await ctx.agent(f"Spend at most {left}")


ALL = [value for value in list(globals().values()) if type(value).__name__ == "Workflow"]
'''
STABLE_TEST = """
import pytest

from flows import ALL
from rulvar import workflow
from rulvar.testing import fake_tool_calls, replay_run


def teller(call):
    if any(message.role == "tool" for message in call.req.messages):
        return call.req.messages[-1].parts[0].result
    return fake_tool_calls(name="clock", args={})


def broken(call):
    raise ValueError("no")


@pytest.mark.parametrize("flow", ALL, ids=[flow.name for flow in ALL])
async def test_flow(flow, rulvar_engine, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    agents = {"judge": {"ok": True, "note": "fine"}, "teller": teller, "broken": broken}
    engine = rulvar_engine(agents={**agents, "*": lambda call: "about: " + call.prompt})
    args = {"folder": str(tmp_path), "seed": 7, "n": 1, "long": False}
    run = engine.run(flow, args, budget_usd=5)
    outcome = await run.result()
    assert outcome.status == "ok", outcome.error
    if flow.name != "failures":
        replayed = await replay_run(flow, args, journal=(engine.store, run.run_id), profiles=dict.fromkeys(agents, {}))
        assert replayed.preview.misses == 0


async def test_a_wait_that_is_answered_between_two_segments(rulvar_engine):
    @workflow(name="release")
    async def release(ctx, args):
        analysis = await ctx.agent("Analyze")
        gate = await ctx.await_external("gate")
        return await ctx.agent(f"{analysis} {gate}")

    engine = rulvar_engine(agents={"*": "ok"})
    first = engine.run(release)
    assert (await first.result()).status == "suspended"
    await first.resolve_external("gate", {"approved": True})
    assert (await engine.resume(first.run_id, release).result()).status == "ok"


async def test_a_patch_that_ends_with_its_block(rulvar_engine, monkeypatch):
    @workflow(name="patched")
    async def patched(ctx, args):
        return await ctx.agent(f"Look at {ALL}")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.repr", repr)
        patch.setitem(globals(), "ALL", "everything")
        engine = rulvar_engine(agents={"*": "ok"})
        assert (await engine.run(patched).result()).status == "ok"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def shaken(project: Project, *args: str, rounds: int = 1) -> tuple[Any, Any]:
    """Run pytest with a shake; return the process and the report."""
    options = (f"--rulvar-shake={rounds}", "--rulvar-shake-report=out/shake.json")
    done = project.pytest(*options, *args, PYTHONHASHSEED="0")
    path = project.folder / "out" / "shake.json"
    return done, json.loads(path.read_text("utf-8")) if path.exists() else None


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    project = Project(tmp_path_factory.mktemp("faults"))
    project.write("flows.py", FAULTS)
    project.write("test_flows.py", TEST)
    return shaken(project, rounds=2)


def moves_of(report: Any, name: str) -> list[Any]:
    return [move for move in report["moves"] if move["test"] == f"test_flows.py::test_flow[{name}]"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_fault_is_found_at_its_call_and_condition(faults: tuple[Any, Any], name: str) -> None:
    _, report = faults
    kind, field, conditions = EXPECTED[name]
    [move, *later] = moves_of(report, name)
    assert (move["kind"], move["field"]) == (kind, field)
    assert move["site"]["file"] == "flows.py"
    line = FAULTS.strip("\n").splitlines()[move["site"]["line"] - 1]
    assert line.endswith("# here"), line
    found = {condition for item in (move, *later) for condition in item["conditions"]}
    assert found and found <= conditions
    assert move["recorded"] != move["now"]


def test_faults_fail_the_run_and_are_told_of(faults: tuple[Any, Any]) -> None:
    done, report = faults
    assert done.returncode == 1
    assert f"{len(EXPECTED)} passed" in done.stdout
    assert "MOVED test_flows.py::test_flow[set_order]: workflow 'set_order'" in done.stdout
    assert "in set_order: agent call: another identity (prompt)" in done.stdout
    assert (report["rounds"], report["runs"], report["leftOut"]) == (2, len(EXPECTED), [])


def test_stable_workflows_do_not_move(project: Project) -> None:
    project.write("flows.py", STABLE)
    project.write("test_flows.py", STABLE_TEST)
    done, report = shaken(project, rounds=2)
    assert report["moves"] == [], done.stdout
    assert report["leftOut"] == []
    assert report["runs"] == 18
    assert report["calls"] > 50
    assert done.returncode == 0, done.stdout
    assert "nothing moved" in done.stdout


MACHINES = """
from rulvar import Input, MachineCtx, StateMachine, tool, transition, workflow
from rulvar.hitl import AskUser
from rulvar.testing import run_workflow

@tool
def look(what: str) -> str:
    "Look."
    return what

class Ticket(StateMachine):
    @transition(to="open")
    async def begin(self, ctx: MachineCtx):
        ctx.state["seen"] = await ctx.call_tool(look, {"what": "a"})
        ctx.start(AskUser, {"question": "Name?"}, on_done="named")

    @transition(from_="open", to="end", wait=True)
    async def named(self, ctx: MachineCtx, input: Input):
        ctx.result["seen"] = await ctx.step("again", lambda: "b")

@workflow(name="around")
async def around(ctx, args):
    return await ctx.workflow(Ticket)

ANSWERS = {"user_answered": {"answer": "Ana"}}

async def test_parked():
    assert (await run_workflow(Ticket)).status == "waiting"

async def test_done():
    assert (await run_workflow(Ticket, answers=ANSWERS)).status == "completed"

async def test_nested():
    assert (await run_workflow(around, answers=ANSWERS)).status == "completed"
"""


def test_what_a_machine_has_committed_does_not_move(project: Project) -> None:
    project.write("test_machines.py", MACHINES)
    done, report = shaken(project)
    assert report["moves"] == [], done.stdout
    assert report["calls"] > 10
    assert done.returncode == 0, done.stdout


def test_workers_shake_together_and_moves_are_warnings_in_the_replay_report(project: Project) -> None:
    project.write("flows.py", FAULTS)
    project.write("test_flows.py", TEST)
    options = ("-p", "xdist.plugin", "-n", "2", "-k", "year or host", "--rulvar-report=out/report.json")
    done, report = shaken(project, *options)
    assert {move["workflow"] for move in report["moves"]} == {"year", "host"}
    assert done.returncode == 1
    tests = read_report(project.folder / "out" / "report.json").tests
    noticed = {test.node_id: [item for item in test.warnings if item.code == "shake"] for test in tests}
    [warning] = noticed["test_flows.py::test_flow[host]"]
    assert warning.file == "flows.py"
    assert "agent call: another identity (prompt) under another environment: recorded Host" in warning.message


OWN_ADAPTER = """
import pytest

from rulvar import Engine, workflow
from rulvar.testing import FakeAdapter


class Paid:
    id = "paid"
    caps = FakeAdapter().caps

    def stream(self, request, signal=None):
        with open("paid.txt", "a") as file:
            file.write("x")
        return FakeAdapter({"*": "ok"}).stream(request, signal)


@workflow
async def steady(ctx, args):
    return await ctx.agent(await ctx.agent("one"))


async def test_paid():
    async with Engine(adapters=[Paid()], routing={"loop": "paid:m"}) as engine:
        await engine.run(steady).result()


async def test_asserts_what_only_the_first_run_does():
    async with Engine(adapters=[Paid()], routing={"loop": "paid:m"}) as engine:
        assert (await engine.run(steady).result()).status == "ok"
        assert (await engine.run(steady).result()).status == "ok"
"""


def test_a_shake_pays_for_nothing(project: Project) -> None:
    project.write("test_paid.py", OWN_ADAPTER)
    done, report = shaken(project)
    assert (project.folder / "paid.txt").read_text() == "x" * 6
    assert report["moves"] == []
    [left_out] = report["leftOut"]
    assert left_out.startswith(
        "test_paid.py::test_asserts_what_only_the_first_run_does: 1 of 2 runs did not come about"
    )
    assert done.returncode == 0


HANGING = """
import asyncio

from rulvar import workflow


async def test_a_body_that_needs_the_test(rulvar_engine):
    released = asyncio.Event()

    @workflow
    async def waiting(ctx, args):
        await ctx.agent("one")
        await released.wait()
        return await ctx.agent("two")

    run = rulvar_engine(agents={"*": "ok"}).run(waiting)
    await asyncio.sleep(0.01)
    released.set()
    await run.result()
    released.clear()


async def test_a_body_that_waits_for_nobody(rulvar_engine):
    queue = asyncio.Queue()

    @workflow
    async def waiting(ctx, args):
        return await ctx.agent(await queue.get())

    queue.put_nowait("prompt")
    assert (await rulvar_engine(agents={"*": "ok"}).run(waiting).result()).status == "ok"
"""


def test_what_a_replay_cannot_reach_is_named_and_hangs_nothing(project: Project) -> None:
    project.write("test_hang.py", HANGING)
    done, report = shaken(project, "-k", "nobody")
    assert report["moves"] == []
    assert report["leftOut"] == [
        "test_hang.py::test_a_body_that_waits_for_nobody: workflow 'waiting': "
        "a replay waits for something that is not in its journal"
    ]
    assert done.returncode == 0


@pytest.mark.parametrize("value", ["0", "-1", "two", ""])
def test_a_number_of_rounds_that_makes_no_sense_is_refused(project: Project, value: str) -> None:
    project.write("test_it.py", "def test_it(): pass\n")
    done = project.pytest(f"--rulvar-shake={value}")
    assert done.returncode == 4
    assert "--rulvar-shake" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_workflow_there_is_nothing_to_shake(project: Project) -> None:
    project.write("test_it.py", "def test_it(): pass\n")
    done, report = shaken(project)
    assert (done.returncode, report) == (0, None)


def test_a_round_that_cannot_start_is_told_of(project: Project) -> None:
    project.write("flows.py", FAULTS)
    project.write("test_flows.py", TEST)
    project.write(
        "conftest.py",
        """
        import sys

        if any(word.startswith("--rulvar-shake-round") for word in sys.argv):
            raise RuntimeError("not again")
        """,
    )
    done, report = shaken(project, "-k", "year")
    assert report["runs"] == 0
    assert "round 1: nothing came about in its process" in report["leftOut"][0]
    assert "not again" in report["leftOut"][0]
    assert done.returncode == 1
    assert "no run could be compared" in done.stdout


def test_a_round_leaves_no_files_behind(project: Project) -> None:
    project.write("flows.py", FAULTS)
    project.write("test_flows.py", TEST)
    before = {path.name for path in project.folder.iterdir()}
    shaken(project, "-k", "year", "--junitxml=out/junit.xml")
    assert "1 passed" not in (project.folder / "out" / "junit.xml").read_text("utf-8")
    left = {path.name for path in project.folder.iterdir()} - before - {"__pycache__", "out"}
    assert left == set()


JOURNAL = """
import asyncio
import sys
from pathlib import Path

from rulvar.contracts.canonical import encode_json
from rulvar.testing.shake.rounds import Round

task = Path(sys.argv[1])
shaking = Round(task)
shaking.begin()

from flows import ALL
from rulvar.testing import create_test_engine

shaking.examine_all(create_test_engine(agents={"*": "x"}), {flow.name: flow for flow in ALL}[sys.argv[2]])
shaking.end()
"""


@pytest.mark.parametrize(
    ("name", "expected"), [("set_order", "identity"), ("stable_parent", "identity"), ("sorted_names", None)]
)
async def test_a_recorded_run_is_shaken_without_a_test(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, expected: str | None
) -> None:
    from rulvar.testing import create_test_engine
    from rulvar.testing.shake.entrances import shake_journal

    extra = """

@workflow
async def sorted_names(ctx, args):
    return await ctx.agent("Review " + ", ".join(sorted(set(NAMES))))


ALL.append(sorted_names)
"""
    project.write("shaken_flows.py", FAULTS + extra)
    project.write("round.py", JOURNAL.replace("from flows", "from shaken_flows"))
    monkeypatch.syspath_prepend(project.folder)
    module = __import__("shaken_flows")
    try:
        engine = create_test_engine(agents={"*": "ok"})
        workflow = getattr(module, name)
        run = engine.run(workflow)
        await run.result()
        report = shake_journal(
            engine,
            workflow,
            journal=await engine.store.load(run.run_id),
            command=lambda task: [sys.executable, "round.py", str(task), name],
            rounds=2,
            root=project.folder,
        )
    finally:
        sys.modules.pop("shaken_flows")
    assert [move.kind for move in report.moves] == ([] if expected is None else [expected])
    assert report.runs == 1
    assert report.left_out == ()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_moved_clock_shows_another_minute_half_and_day_of_the_week_at_every_time(number: int) -> None:
    start = calendar.timegm((2026, 11, 30, 0, 0, 0))
    for second in range(start, start + 86_400, 61):
        now = time.gmtime(second)
        then = time.gmtime(second + moved_seconds(number, now))
        assert (then.tm_hour < 12) is not (now.tm_hour < 12)
        assert (then.tm_min, then.tm_wday) != (now.tm_min, now.tm_wday)
        assert then.tm_min != now.tm_min
        assert then.tm_wday != now.tm_wday
