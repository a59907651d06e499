"""Runs that nobody drives are cancelled without their workflow."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.kernel.keys import hash_args

Rulvar = Callable[..., Any]


@pytest.fixture(params=[".rulvar", "runs.db"])
def place(request: pytest.FixtureRequest, project: Path) -> str:
    (project / "pyproject.toml").write_text(f'[tool.rulvar]\nstore = "{request.param}"\n')
    return str(request.param)


def test_a_run_that_waits_is_cancelled_and_can_be_resumed(place: str, rulvar: Rulvar, look: Rulvar) -> None:
    assert rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", "--no-input").code == 3
    told = look("cancel", "r1", "--reason", "not needed", "--json").json
    assert (told["runId"], told["status"], told["error"]["message"]) == ("r1", "cancelled", "not needed")
    [run] = look("runs", "ls", "--json").json["runs"]
    assert run["status"] == "cancelled"
    assert look("runs", "audit").code == 0
    again = look("cancel", "r1")
    assert (again.code, again.out) == (0, "cancelled  r1\n")
    assert rulvar("resume", "r1", "flows.py:release", "--no-input").code == 3


def test_a_run_whose_process_was_killed_is_cancelled(place: str, signalled: Any, look: Rulvar) -> None:
    signalled("run", "flows.py:slow", "--run-id", "r1", until="it waits", send=[9])
    assert look("cancel", "r1").out == "cancelled  r1\n"
    assert look("inspect", "r1", "--json").json["settles"][-1]["status"] == "cancelled"


def test_a_run_that_has_ended_is_left_as_it_is(place: str, rulvar: Rulvar, look: Rulvar) -> None:
    assert rulvar("run", "flows.py:hello", "--run-id", "r1").code == 0
    done = look("cancel", "r1")
    assert (done.code, "has ended already: ok" in done.err) == (2, True)
    assert look("cancel", "nope").code == 2


def test_a_run_that_a_process_drives_is_left_to_it(
    place: str, project: Path, look: Rulvar, script: Path
) -> None:
    words = [script, "run", "flows.py:slow", "--run-id", "r1"]
    with subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "it waits" not in process.stderr.readline():
            time.sleep(0)
        done = look("cancel", "r1")
        process.kill()
    assert done.code == 2
    if place == "runs.db":  # a folder's lock does not say whose it is
        assert f":{process.pid}" in done.err
    assert "with Ctrl-C or SIGTERM" in done.err


def test_arguments_that_nobody_kept_are_asked_for(look: Rulvar, store: Any, entry: Any) -> None:
    meta = {"status": "suspended", "argsProvided": True, "argsHash": "x"}
    store.put("r1", entry.waiting(), entry.settled("suspended"), meta=meta)
    done = look("cancel", "r1")
    assert (done.code, "--args" in done.err) == (2, True)


def test_a_submitted_run_brings_its_arguments_along(look: Rulvar, store: Any, entry: Any) -> None:
    args = {"n": 1}
    meta = {"status": "suspended", "argsProvided": True, "argsHash": hash_args(args)}
    store.put("r1", entry.waiting(), entry.settled("suspended"), meta=meta)
    kept = store.folder / "transcripts" / "r1" / "submission.bin"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"run_id": "r1", "workflow": "w", "args": json.dumps(args)}))
    assert look("cancel", "r1").out == "cancelled  r1\n"


@pytest.mark.parametrize("status", [["ok"], {"a": 1}, None, 3])
def test_a_run_whose_row_has_an_odd_status_is_cancelled(
    look: Any, store: Any, entry: Any, status: Any
) -> None:
    store.put("r1", entry.waiting(), meta={"status": status})
    done = look("cancel", "r1")
    assert done.code == 0, done.err
    assert store.meta("r1")["status"] == "cancelled"
