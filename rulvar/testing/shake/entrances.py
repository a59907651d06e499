"""The ways in: a shake of a recorded run, and one of tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rulvar.contracts.entries import JournalEntry, as_entries
from rulvar.contracts.jsonable import journal_form
from rulvar.engine.engine import Engine
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.testing.shake.report import ShakeMove, ShakeReport
from rulvar.testing.shake.rounds import Round, run_rounds
from rulvar.testing.shake.segments import journal_segment
from rulvar.testing.shake.trace import RecordedSegment, Trace

__all__ = [
    "DEFAULT_ROUNDS",
    "Round",
    "ShakeMove",
    "ShakeReport",
    "ShakenTests",
    "shake_journal",
    "shake_tests",
]

DEFAULT_ROUNDS = 4
"""Two strings in a set keep their order in every second process; four rounds leave one chance in sixteen."""


@dataclass(frozen=True, slots=True)
class ShakenTests:
    """What ``pytest --rulvar-shake`` came to.

    Attributes:
        exit_code: of pytest: 0 when the tests passed and nothing moved.
        report: None when no workflow ran.
    """

    exit_code: int
    report: ShakeReport | None


def shake_journal(
    engine: Engine,
    workflow: Workflow[Any],
    *,
    journal: Iterable[JournalEntry | Mapping[str, Any]],
    command: Callable[[Path], Sequence[str]],
    args: Any = None,
    run_id: str = "shaken",
    budget_usd: float | None = None,
    rounds: int = DEFAULT_ROUNDS,
    root: str | os.PathLike[str] = ".",
    tell: Callable[[int], None] = lambda number: None,
) -> ShakeReport:
    """Shake a recorded run.

    Args:
        engine: with the profiles and the routing of the recorded run.
        journal: entries, or their JSON objects.
        command: makes the command line of a round's process from the path of its task. The process
            does ``shaking = Round(path)``, ``shaking.begin()``, then loads workflow and engine, and
            ``shaking.examine_all(engine, workflow)``, ``shaking.end()``.
        args: of the recorded run.
        rounds: how many processes, one after the other.
        root: where the processes run; paths are shown relative to it.

    Raises:
        ConfigError: the journal does not replay as it is, or an option is wrong.
    """
    check_rounds(rounds)
    recorded = RecordedSegment(
        run_id=run_id,
        workflow=workflow.name,
        args=None if args is None else journal_form(args, "args"),
        journal=tuple(as_entries(journal)),
        budget_usd=budget_usd,
        trace=Trace(claims=()),
    )
    segment = journal_segment(engine, workflow, recorded)
    last = segment.trace.claims[-1] if segment.trace.claims else None
    if last is not None and last.action == "live":
        raise ConfigError(
            f"run {run_id!r}: workflow {workflow.name!r} does not replay on its journal even without a shake; "
            "see what differs with: rulvar replay",
            data={"field": "journal", "runId": run_id},
        )
    where = os.path.abspath(root)
    return run_rounds(rounds, {"": [segment]}, command, root=where, directory=where, tell=tell)


def shake_tests(
    targets: Sequence[str],
    *,
    rounds: int = DEFAULT_ROUNDS,
    directory: str | os.PathLike[str] = ".",
    quiet: bool = False,
) -> ShakenTests:
    """Run tests with ``pytest --rulvar-shake``; its output goes where this process's output goes.

    Args:
        targets: node ids, files or folders.
        quiet: send the output to stderr.

    Raises:
        ConfigError: an option is wrong.
    """
    check_rounds(rounds)
    with tempfile.TemporaryDirectory(prefix="rulvar-shake-") as folder:
        report = Path(folder, "report.json")
        arguments = [f"--rulvar-shake={rounds}", f"--rulvar-shake-report={report}", "-q", *targets]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=directory,
            stdout=sys.stderr.fileno() if quiet else None,
            check=False,
        )
        found = msgspec.convert(json.loads(report.read_bytes()), ShakeReport) if report.exists() else None
    return ShakenTests(done.returncode, found)


def check_rounds(rounds: int) -> None:
    """Refuse a number of rounds that makes no sense.

    Raises:
        ConfigError: not an integer, or less than 1.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ConfigError(f"rounds={rounds!r}: expected an integer, 1 or more", data={"field": "rounds"})
