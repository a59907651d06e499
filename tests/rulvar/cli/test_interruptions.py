"""Signals, closed pipes and full disks end a command cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.main import main

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
        "import sys, time\nfrom rulvar import workflow\n"
        "def work():\n    print('begun', file=sys.stderr, flush=True)\n    time.sleep(30)\n"
        "@workflow\nasync def deaf(ctx):\n    await ctx.step('s', work)\n"
    )
    done = signalled("run", "deaf.py:deaf", until="begun", send=[signal.SIGINT, signal.SIGINT])
    assert done.code == 130
    assert "Traceback" not in done.err


def test_a_second_ctrl_c_waits_for_no_thread(signalled: Any, project: Path) -> None:
    (project / "deaf.py").write_text(
        "import asyncio, time\nfrom rulvar import workflow\n@workflow\nasync def deaf(ctx):\n"
        "    await ctx.step('s', lambda: asyncio.to_thread(time.sleep, 1000))\n"
    )
    done = signalled("run", "deaf.py:deaf", until="deaf", send=[signal.SIGINT, signal.SIGINT])
    assert done.code == 130
    assert "Traceback" not in done.err


GREEDY = """
import asyncio
import sys
from rulvar import workflow

async def work():
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(60)

@workflow
async def greedy(ctx):
    while True:
        try:
            await ctx.step("s", work)
        except BaseException:
            pass
"""


def test_a_third_ctrl_c_ends_a_workflow_that_catches_everything(signalled: Any, project: Path) -> None:
    (project / "greedy.py").write_text(GREEDY)
    done = signalled("run", "greedy.py:greedy", until="begun", send=[signal.SIGINT] * 3)
    assert done.code == -signal.SIGINT
    assert "Traceback" not in done.err


def test_ctrl_c_at_a_question_begins_a_line_of_its_own(person: Any) -> None:
    at = person("run", "flows.py:release", "--arg", "version=1")
    at.expect("> ")
    time.sleep(0.5)  # reading begins a moment after the prompt
    at.type("\x03")
    at.expect("\r\nrulvar: interrupted")


def test_ctrl_c_while_a_command_is_being_loaded_is_no_traceback(capsys: Any, monkeypatch: Any) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("rulvar.cli.main._dispatch", interrupted)
    assert main(["runs", "ls"]) == 130
    assert capsys.readouterr().err == "rulvar: interrupted\n"


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


@pytest.fixture
def shell(project: Path) -> Callable[[str], tuple[int, str]]:
    """Runs a line of shell in which ``rulvar`` is the script; returns the exit code and stderr."""

    def run(line: str) -> tuple[int, str]:
        script = Path(sys.executable).parent / "rulvar"
        done = subprocess.run(
            ["/bin/sh", "-c", f'rulvar() {{ {script} "$@"; }}; {line}'],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stderr

    return run


@pytest.mark.parametrize(
    "line",
    [
        "runs ls", "runs ls --json", "inspect r1", "--version", "help", "run --help",
        "run flows.py:hello --quiet", "run flows.py:hello --json", "export r1 -o -",
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_a_stdout_that_is_closed_or_full_is_told_in_one_line(
    shell: Any, store: Any, entry: Any, line: str, where: str
) -> None:
    store.put("r1", entry.settled())
    code, err = shell(f"rulvar {line} {where}")
    assert code == 2
    assert err.splitlines() in (
        ["rulvar: error: stdout: Bad file descriptor"],
        ["rulvar: error: stdout: No space left on device"],
    )


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("run flows.py:hello", 0),
        ("run flows.py:boom", 1),
        ("run flows.py:nothing", 2),
        ("run flows.py:release --arg version=1", 3),
        ("nonsense --json", 2),
    ],
)
def test_a_stderr_that_is_closed_or_full_changes_no_exit_code(
    shell: Any, line: str, code: int, where: str
) -> None:
    assert shell(f"rulvar {line} {where}")[0] == code


def test_a_closed_stdin_is_empty(shell: Any) -> None:
    assert shell("rulvar run flows.py:release --arg version=1 <&-")[0] == 3
    assert shell("rulvar run flows.py:release --args - <&-")[0] == 2


def test_files_of_a_run_do_not_take_the_place_of_a_closed_stdout(shell: Any, project: Path) -> None:
    (project / "noisy.py").write_text(
        "import os\nfrom rulvar import workflow\n@workflow\nasync def noisy(ctx):\n"
        "    await ctx.step('a', lambda: 1)\n"
        "    return await ctx.step('b', lambda: os.system('echo noise'))\n"
    )
    shell("rulvar run noisy.py:noisy --run-id r1 >&-")
    for file in (project / ".rulvar").iterdir():
        if file.is_file():
            assert b"noise\n" not in file.read_bytes()
