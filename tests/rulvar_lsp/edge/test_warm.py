"""Warm runners: every run sees the project as it is, and nothing of the run before."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rulvar_lsp.edge.warm import WarmProcess, WarmRunner, WarmRunners

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm runners are for Linux")


@pytest.fixture
async def warm(tmp_path: Path) -> AsyncIterator[WarmRunner]:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:cacheprovider\nasyncio_default_fixture_loop_scope = function\n"
    )
    runner = WarmRunner(sys.executable, str(tmp_path), os.environ)
    yield runner
    await runner.close()


async def run(warm: WarmRunner, root: Path, *args: str) -> tuple[int, str]:
    output = root / "output.txt"
    output.write_text("")
    child = await warm.start_run(["-q", *args], str(output))
    assert child is not None
    status = await asyncio.wait_for(child.wait(), 30)
    assert child.returncode == status
    return status, output.read_text()


async def test_each_run_sees_the_files_as_they_are_then(warm: WarmRunner, tmp_path: Path) -> None:
    test, code = tmp_path / "test_a.py", tmp_path / "code_under_test.py"
    test.write_text("from code_under_test import n\n\ndef test_n():\n    assert n == 1\n")
    code.write_text("n = 1\n")
    assert (await run(warm, tmp_path, "test_a.py"))[0] == 0
    code.write_text("n = 22\n")
    status, said = await run(warm, tmp_path, "test_a.py")
    assert (status, "assert 22 == 1" in said) == (1, True)
    code.write_text("n = 1\n")
    assert (await run(warm, tmp_path, "test_a.py"))[0] == 0


async def test_runs_share_no_state(warm: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import json, os\n\ndef test_fresh():\n"
        "    assert not hasattr(json, 'touched') and 'TOUCHED' not in os.environ\n"
        "    json.touched = True\n    os.environ['TOUCHED'] = '1'\n"
    )
    for _ in range(3):
        status, said = await run(warm, tmp_path, "test_a.py")
        assert status == 0, said


async def test_plugins_that_were_loaded_before_are_no_warning(warm: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import rulvar.testing\n\ndef test_a(): pass\n")
    for _ in range(2):
        status, said = await run(warm, tmp_path, "-W", "error", "test_a.py")
        assert (status, "warning" in said) == (0, False), said


async def test_a_run_that_crashes_leaves_the_next_one_alone(warm: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import os, signal\n\ndef test_crash():\n    os.kill(os.getpid(), signal.SIGKILL)\n\n"
        "def test_fine(): pass\n"
    )
    assert (await run(warm, tmp_path, "test_a.py::test_crash"))[0] == -signal.SIGKILL
    assert (await run(warm, tmp_path, "test_a.py::test_fine"))[0] == 0


async def test_a_warm_process_that_was_killed_is_started_again(warm: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    assert (await run(warm, tmp_path, "test_a.py"))[0] == 0
    process = warm._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    assert (await run(warm, tmp_path, "test_a.py"))[0] == 0


async def test_an_interpreter_that_does_not_start_gives_no_run(tmp_path: Path) -> None:
    warm = WarmRunner("/no/such/python", str(tmp_path), os.environ)
    assert await warm.start_run([], str(tmp_path / "o")) is None
    warm = WarmRunner("/bin/false", str(tmp_path), os.environ)
    assert await warm.start_run([], str(tmp_path / "o")) is None
    await warm.close()


async def test_processes_that_failed_are_gone_when_the_runner_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[WarmProcess] = []
    start = WarmProcess.start

    async def counted(*args: Any) -> WarmProcess:
        started.append(await start(*args))
        return started[-1]

    monkeypatch.setattr(WarmProcess, "start", counted)
    mute = tmp_path / "python"
    mute.write_text("#!/bin/sh\nexec sleep 60 >&-\n")
    mute.chmod(0o755)
    warm = WarmRunner(str(mute), str(tmp_path), os.environ)
    assert await warm.start_run([], str(tmp_path / "o")) is None
    await warm.close()
    assert [process.is_alive for process in started] == [False, False]


async def test_a_busy_runner_is_not_given_twice_and_few_are_kept(tmp_path: Path) -> None:
    runners = WarmRunners()
    first = runners.take(sys.executable, "/a", {})
    assert first is not None
    first.busy = True
    assert runners.take(sys.executable, "/a", {}) is None
    for name in "bcdefg":
        runners.take(sys.executable, f"/{name}", {})
    assert len(runners._runners) <= 3
    assert runners.take(sys.executable, "/a", {}) is None
    runners.stop_all()
