"""The machine part of the pytest plugin, in real pytest processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = """
import pytest
from rulvar import MachineCtx, StateMachine, tool, transition
from rulvar.testing import run_workflow

executions = []


@tool
def look(what: str) -> str:
    executions.append(what)
    return f"saw {what}"


class Looking(StateMachine):
    @transition("looked")
    async def begin(self, ctx: MachineCtx) -> None:
        ctx.result["saw"] = await ctx.call_tool(look, {"what": "it"})

    @transition("end", "looked", wait=True)
    def approve(self, ctx: MachineCtx) -> None: ...

    @transition("end", "looked", wait=True)
    def decline(self, ctx: MachineCtx) -> None: ...


@pytest.mark.criterion("C1")
@pytest.mark.parametrize("name", ["a b", "c"])
async def test_looking(tool_recording, name):
    run = await run_workflow(Looking, fixture=tool_recording, answers={"approve": None})
    assert run.result == {"saw": "saw it"}
    print("EXECUTIONS", len(executions))


@pytest.mark.criterion("C2")
async def test_failing(tool_recording):
    await run_workflow(Looking, fixture=tool_recording)
    assert False
"""


class Project:
    """A folder with tests, and pytest runs over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(
            "[pytest]\nasyncio_mode = auto\naddopts = --strict-markers\n", "utf-8"
        )
        (folder / "test_machines.py").write_text(textwrap.dedent(TESTS), "utf-8")

    def pytest(self, *args: str, **environment: str) -> str:
        kept = {name: text for name, text in os.environ.items() if name not in ("CI", "RULVAR_RECORD")}
        kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        plugins = ("-p", "rulvar.testing.pytest_plugin", "-p", "pytest_asyncio.plugin")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-s", *plugins, *args]
        done = subprocess.run(
            command, cwd=self.folder, env={**kept, **environment}, capture_output=True, text=True, timeout=120
        )
        return done.stdout + done.stderr

    def recordings(self) -> list[str]:
        folder = self.folder / "__recordings__"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_recording_is_kept_when_its_test_passes_and_replayed_ever_after(project: Project) -> None:
    out = project.pytest()
    assert out.count("EXECUTIONS") == 2
    kept = project.recordings()
    assert [name for name in kept if name.startswith("test_machines/test_looking[a-b]-")]
    assert "test_machines/test_looking[c].json" in kept
    assert "test_machines/test_failing.json.failed" in kept
    assert len(kept) == 3
    recorded = json.loads(
        (project.folder / "__recordings__" / "test_machines" / "test_looking[c].json").read_text()
    )
    assert recorded["recordings"][0]["tool"] == "look"
    out = project.pytest("-k", "looking")
    assert out.count("EXECUTIONS 0") == 2


def test_a_missing_recording_is_an_error_in_ci_and_where_nothing_may_be_recorded(project: Project) -> None:
    out = project.pytest("-k", "looking and c", CI="1")
    assert "RULVAR_RECORD=1" in out
    assert "EXECUTIONS" not in out
    assert "--rulvar-record=once" in project.pytest("-k", "looking", "--rulvar-record=none")
    assert "--rulvar-record=once" in project.pytest("-k", "looking", "--rulvar-replay=strict")
    assert "EXECUTIONS 1" in project.pytest("-k", "looking", CI="1", RULVAR_RECORD="1")


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_everything_can_be_recorded_anew(project: Project, mode: str) -> None:
    project.pytest("-k", "looking")
    out = project.pytest("-k", "looking", f"--rulvar-record={mode}")
    assert "EXECUTIONS 2" in out
    assert len(project.recordings()) == 2


def test_coverage_tells_what_no_test_has_shown(project: Project) -> None:
    out = project.pytest("--rulvar-coverage")
    for line in (
        "looking: 2 of 3 transitions, 2 of 2 parks",
        "missing transitions: decline",
        "C1: shown (2 tests)",
        "C2: NOT shown: test_machines.py::test_failing (1 test)",
    ):
        assert line in out
    assert "missing parks" not in out


def test_workers_record_side_by_side_and_tell_their_controller_what_they_covered(project: Project) -> None:
    pytest.importorskip("xdist")
    out = project.pytest("-p", "xdist.plugin", "-n2", "--rulvar-coverage")
    assert "looking: 2 of 3 transitions, 2 of 2 parks" in out
    assert "C1: shown (2 tests)" in out
    assert "C2: NOT shown: test_machines.py::test_failing (1 test)" in out
    assert len(project.recordings()) == 3


def test_a_criterion_whose_test_could_not_begin_is_not_shown(project: Project) -> None:
    broken = """
        import pytest

        @pytest.fixture
        def broken():
            raise RuntimeError("no")

        @pytest.mark.criterion("C3", "C4")
        def test_begin(broken): ...

        @pytest.mark.criterion("C4")
        @pytest.mark.skip
        def test_skipped(): ...
    """
    (project.folder / "test_machines.py").write_text(textwrap.dedent(broken), "utf-8")
    out = project.pytest("--rulvar-coverage")
    assert "C3: NOT shown: test_machines.py::test_begin (1 test)" in out
    assert "C4: NOT shown: test_machines.py::test_begin, test_machines.py::test_skipped (2 tests)" in out


def test_a_recording_cut_short_is_told_with_its_file(project: Project) -> None:
    project.pytest("-k", "looking and c")
    path = project.folder / "__recordings__" / "test_machines" / "test_looking[c].json"
    path.write_text(path.read_text()[:40])
    out = project.pytest("-k", "looking and c")
    assert f"{path}: not JSON" in out
    assert "record it again" in out
