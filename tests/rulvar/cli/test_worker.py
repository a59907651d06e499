"""A worker is started from the shell, over a real PostgreSQL; what it does is seen, answered and cancelled from there."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from postgres_server import postgres  # noqa: F401

pytest.importorskip("procrastinate")
from worker_database import database  # noqa: F401

Rulvar = Callable[..., Any]
CONFIG = """
import os
from flows import hello, release, slow
from rulvar import Engine, PostgresStore
from rulvar.workers import ProcrastinateQueue

def engine():
    dsn = os.environ["RUNS_DSN"]
    return Engine(
        journal=PostgresStore(dsn), queue=ProcrastinateQueue(dsn), workflows=[hello, release, slow], lease_ttl_s=3
    )
"""
SUBMIT = """
import asyncio, sys
from rulvar_config import engine

async def main():
    async with engine() as shop:
        await shop.enqueue(sys.argv[1], {"version": 1} if sys.argv[1] == "release" else None, run_id=sys.argv[2])

asyncio.run(main())
"""


@pytest.fixture
def submit(
    project: Path,
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    script: Path,
) -> Callable[..., None]:
    """Hands a run to the queue."""
    monkeypatch.setenv("RUNS_DSN", database)
    (project / "rulvar_config.py").write_text(CONFIG)
    (project / "submit.py").write_text(SUBMIT)

    def call(workflow: str, run_id: str) -> None:
        subprocess.run(
            [script.with_name("python"), "submit.py", workflow, run_id], cwd=project, check=True, timeout=60
        )

    return call


def test_a_worker_drives_what_was_submitted_and_what_is_answered(
    submit: Any, rulvar: Rulvar, look: Rulvar
) -> None:
    submit("release", "r1")
    first = rulvar("worker", "--until-idle", "--json")
    assert first.code == 0, first.err
    assert (first.json["driven"], first.json["suspended"]) == (1, 1)
    assert "suspended  r1" in first.err
    listed = look("runs", "ls")
    assert "suspended" in listed.out, listed.err
    answered = look("answer", "r1", "gate", '{"approved": true}')
    assert "a worker goes on with it" in answered.out, answered.err
    second = rulvar("worker", "--until-idle")
    assert second.out == "1 driven, 0 suspended, 0 failed, 0 retried, 0 adopted\n"
    assert look("inspect", "r1", "--json").json["meta"]["status"] == "ok"


def test_a_run_in_the_queue_is_cancelled_before_it_begins(submit: Any, rulvar: Rulvar, look: Rulvar) -> None:
    submit("hello", "r1")
    assert look("cancel", "r1").out == "cancelled  r1\n"
    assert rulvar("worker", "--until-idle", "--json").json["driven"] == 0
    assert look("inspect", "r1").code == 2


def test_a_run_that_a_worker_drives_is_cancelled_there(
    submit: Any, look: Rulvar, project: Path, script: Path
) -> None:
    submit("slow", "r1")
    with subprocess.Popen([script, "worker"], cwd=project, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Ctrl-C ends it" in process.stderr.readline()
        _wait_for(lambda: look("inspect", "r1", "--json").code == 0)
        assert look("cancel", "r1").out in ("cancelling  r1\n", "cancelled  r1\n")
        assert "cancelled  r1" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert look("inspect", "r1", "--json").json["meta"]["status"] == "cancelled"


def test_an_engine_without_a_queue_is_refused(rulvar: Rulvar, project: Path) -> None:
    for words in ([], ["--concurrency", "0"]):
        done = rulvar("worker", *words)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert "Engine(queue=ProcrastinateQueue(dsn)" in done.err


def _wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)
