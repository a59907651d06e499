"""``rulvar shake``: tests and recorded runs, run again under other conditions."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

FLOWS = """
    import os
    from rulvar import workflow

    @workflow
    async def steady(ctx, args):
        return await ctx.agent("Review " + ", ".join(sorted(set(args["names"]))))

    @workflow
    async def restless(ctx, args):
        return await ctx.agent("Region " + os.environ.get("REGION", "eu"))
"""
CONFIG = """
    from rulvar import Engine
    from rulvar.testing import FakeAdapter

    def engine():
        return Engine(adapters=[FakeAdapter({"*": "ok"})], routing={"loop": "fake:m"})
"""
TEST = """
    import flows

    async def test_restless(rulvar_engine):
        outcome = await rulvar_engine(agents={"*": "ok"}).run(flows.restless, {}).result()
        assert outcome.status == "ok"

    async def test_steady(rulvar_engine):
        outcome = await rulvar_engine(agents={"*": "ok"}).run(flows.steady, {"names": ["a", "b"]}).result()
        assert outcome.status == "ok"
"""


@pytest.fixture
def shaky(project: Path, rulvar: Any) -> Path:
    """A project with a run of each of two workflows, one of which reads the environment."""
    for name, text in (("flows.py", FLOWS), ("rulvar_config.py", CONFIG), ("test_flows.py", TEST)):
        (project / name).write_text(textwrap.dedent(text))
    (project / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\npythonpath = .\n"
    )
    for name in ("steady", "restless"):
        done = rulvar("run", f"flows:{name}", "--arg", 'names=["b", "a"]', "--run-id", name)
        assert done.code == 0, done.err
    return project


def test_a_workflow_is_shaken_on_its_latest_run(shaky: Path, rulvar: Any) -> None:
    moved = rulvar("shake", "flows:restless", "--rounds", "1")
    assert moved.code == 1
    assert "MOVED restless: workflow 'restless'" in moved.out
    assert "flows.py:11 in restless: agent call: another identity (prompt)" in moved.out
    assert "now:      Region eu-shaken" in moved.out
    assert "under: another environment" in moved.out
    quiet = rulvar("shake", "flows.py:steady", "--rounds", "2")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out == "shaken: 1 run with 1 call in 2 rounds: nothing moved\n"


def test_a_run_that_made_no_call_is_judged_by_its_result(shaky: Path, rulvar: Any) -> None:
    (shaky / "idle.py").write_text(
        "import os\nfrom rulvar import workflow\n@workflow\nasync def idle(ctx, args):\n    return os.environ.get('REGION', 'eu')\n"
    )
    assert rulvar("run", "idle:idle", "--run-id", "idle").code == 0
    moved = rulvar("shake", "idle:idle", "--rounds", "1")
    assert moved.code == 1, moved.err
    assert "the end: another result, although every call is the same" in moved.out


def test_a_run_can_be_named_or_be_a_file_and_json_has_it_all(shaky: Path, rulvar: Any) -> None:
    assert rulvar("export", "restless").code == 0
    done = rulvar("shake", "flows:restless", "--run", "restless.run.json", "--rounds", "1", "--json")
    assert done.code == 1
    [move] = done.json["report"]["moves"]
    assert (move["field"], move["conditions"]) == ("prompt", ["another environment"])
    assert (done.json["runId"], move["site"]["line"]) == ("restless", 11)
    assert rulvar("shake", "flows:steady", "--run", "steady", "--rounds", "1").code == 0


def test_a_test_is_shaken_by_pytest(shaky: Path, rulvar: Any) -> None:
    done = rulvar("shake", "test_flows.py", "--rounds", "1")
    assert done.code == 1
    assert "MOVED test_flows.py::test_restless" in done.out
    assert "test_steady: workflow" not in done.out
    one = rulvar("shake", "test_flows.py::test_steady", "--rounds", "1", "--json")
    assert (one.code, one.json["pytestExitCode"], one.json["report"]["moves"]) == (0, 0, [])
    assert one.json["report"]["runs"] == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("flows:steady", "--rounds", "0"), "rounds"),
        (("flows:steady", "--rounds", "many"), "--rounds"),
        (("flows:nothing",), "nothing"),
        (("flows:steady", "--run", "nope"), "nope"),
        (("flows:steady", "--run", "restless"), "does not replay on its journal"),
        (("nowhere",), "nowhere"),
        (("test_flows.py", "--run", "r1"), "--run is for a workflow"),
        (("test_flows.py", "--arg", "a=1"), "--arg is for a workflow"),
        ((), "TARGET"),
    ],
)
def test_what_cannot_be_shaken_is_refused(
    shaky: Path, rulvar: Any, words: tuple[str, ...], named: str
) -> None:
    done = rulvar("shake", *words)
    assert done.code == 2
    assert named in done.err
    assert "Traceback" not in done.err


def test_a_workflow_without_a_run_is_told_so(project: Path, rulvar: Any) -> None:
    assert rulvar("run", "flows:hello").code == 0
    done = rulvar("shake", "flows:boom")
    assert done.code == 2
    assert "no recorded run of workflow 'boom'" in done.err


def test_nothing_is_written(shaky: Path, rulvar: Any) -> None:
    def files() -> dict[str, bytes]:
        kept = (path for path in shaky.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {str(path): path.read_bytes() for path in kept}

    before = files()
    rulvar("shake", "flows:restless", "--rounds", "1")
    assert files() == before
