"""Signals, closed pipes and full disks end a command cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rulvar = Callable[..., Any]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_cancels_the_run_and_settles_it(
    signalled: Any, project: Path, number: int, code: int
) -> None:
    done = signalled("run", "flows.py:slow", "--run-id", "r1", until="it waits", send=[number])
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    last = json.loads((project / ".rulvar" / "r1.jsonl").read_text().splitlines()[-1])
    assert last["value"]["runStatus"] == "cancelled"
    assert json.loads((project / ".rulvar" / "r1.meta.json").read_text())["status"] == "cancelled"


def test_a_signal_before_the_first_call_leaves_a_cancelled_run_that_can_be_resumed(
    signalled: Any, rulvar: Rulvar, project: Path
) -> None:
    done = signalled("run", "flows.py:slow", "--run-id", "r1", until="r1")
    assert done.code == 130, done.err
    assert json.loads((project / ".rulvar" / "r1.meta.json").read_text())["status"] == "cancelled"
    (project / "flows.py").write_text((project / "flows.py").read_text().replace("sleep(60)", "sleep(0)"))
    resumed = rulvar("resume", "r1", "flows.py:slow", "--json")
    assert (resumed.code, resumed.json["status"]) == (0, "ok"), resumed.err


def test_a_cancelled_run_is_resumed_where_it_stood(signalled: Any, rulvar: Rulvar, project: Path) -> None:
    signalled("run", "flows.py:slow", "--run-id", "r1", until="it waits")
    (project / "flows.py").write_text((project / "flows.py").read_text().replace("sleep(60)", "sleep(0)"))
    resumed = rulvar("resume", "r1", "flows.py:slow", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["preview"]["hits"] == 1


def test_a_second_ctrl_c_ends_a_step_that_hears_nothing(signalled: Any, project: Path) -> None:
    (project / "deaf.py").write_text(
        "import time\nfrom rulvar import workflow\n@workflow\nasync def deaf(ctx):\n"
        "    await ctx.step('s', lambda: time.sleep(30))\n"
    )
    done = signalled("run", "deaf.py:deaf", until="deaf", send=[signal.SIGINT, signal.SIGINT])
    assert done.code == 130
    assert "Traceback" not in done.err


def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(project: Path) -> None:
    store = project / ".rulvar"
    store.mkdir()
    for number in range(3000):
        meta = {"runId": f"r{number:05}", "status": "ok", "workflowName": "w" * 50, "segments": 1}
        (store / f"r{number:05}.meta.json").write_text(json.dumps(meta))
    script = Path(os.sys.executable).parent / "rulvar"  # type: ignore[attr-defined]
    process = subprocess.Popen(
        [script, "runs", "ls"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_full_disk_is_told_as_such(rulvar: Rulvar) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [Path(os.sys.executable).parent / "rulvar", "version"],  # type: ignore[attr-defined]
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_may_not_be_written_is_named(rulvar: Rulvar, project: Path) -> None:
    store = project / "locked"
    store.mkdir(mode=0o555)
    done = rulvar("run", "flows.py:hello", "--store", "locked")
    assert done.code == 2
    assert "locked" in done.err


def test_a_store_that_stops_taking_entries_ends_the_run_with_what_happened(
    rulvar: Rulvar, project: Path
) -> None:
    (project / "bad.py").write_text(
        "import shutil\nfrom rulvar import workflow\n@workflow\nasync def bad(ctx):\n"
        "    await ctx.step('a', lambda: 1)\n    shutil.rmtree('.rulvar')\n    open('.rulvar', 'w').close()\n"
        "    return 1\n"
    )
    done = rulvar("run", "bad.py:bad", "--json")
    assert done.code == 1
    assert done.json["error"]["code"] == "settlement"
