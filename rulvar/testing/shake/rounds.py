"""The two ends of a shake: what starts the processes of its rounds, and what each of them does."""

from __future__ import annotations

import contextlib
import locale
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulvar.contracts.ports.observer import SegmentRecord
from rulvar.engine.engine import Engine
from rulvar.engine.reach import ProjectFiles
from rulvar.engine.workflow import Workflow
from rulvar.testing.collector import site_report
from rulvar.testing.shake.comparison import Move
from rulvar.testing.shake.conditions import process_environment
from rulvar.testing.shake.environment import other_environment
from rulvar.testing.shake.examination import Examiner
from rulvar.testing.shake.files import (
    RoundResult,
    RoundTask,
    read_result,
    read_task,
    write_result,
    write_task,
)
from rulvar.testing.shake.report import ShakeMove, ShakeReport, merge_moves
from rulvar.testing.shake.trace import RecordedSegment

__all__ = ["Round", "run_rounds"]

_TAIL_LINES = 3
_STARTED_WITH = ("TZ", "LC_ALL", "LANG")


def run_rounds(
    number: int,
    recorded: Mapping[str, Sequence[RecordedSegment]],
    command: Callable[[Path], Sequence[str]],
    *,
    root: str,
    directory: str | os.PathLike[str],
    tell: Callable[[int], None] = lambda number: None,
) -> ShakeReport:
    """Run everything again in so many processes, one after the other, and put together what moved.

    Args:
        recorded: segments by test.
        command: makes the command line of a round from the path of its task.
        root: paths are shown relative to it.
        directory: where the commands run.
        tell: is called with the number of a round before it begins.
    """
    results: list[RoundResult] = []
    problems: list[str] = []
    home = {name: os.environ.get(name) for name in _STARTED_WITH}
    with tempfile.TemporaryDirectory(prefix="rulvar-shake-") as folder:
        for turn in range(1, number + 1):
            tell(turn)
            task = Path(folder, f"round-{turn}.task")
            write_task(task, RoundTask(number=turn, root=root, home=home, recorded=recorded))
            log = Path(folder, f"round-{turn}.log")
            with log.open("wb") as output:
                done = subprocess.run(
                    command(task),
                    cwd=directory,
                    env=process_environment(turn, os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            result = read_result(task.with_suffix(".result"))
            if result is None or not (result.examined or result.left_out):
                problems.append(
                    f"round {turn}: nothing came about in its process, which ended with code {done.returncode}: "
                    f"{_tail(log)}"
                )
            else:
                results.append(result)
    return _report(number, recorded, results, problems)


class Round:
    """What the process of one round does: it examines segments as they end.

    Args:
        path: of the task.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._task = read_task(self._path)
        self._examiner = Examiner(self._task.number, self._home)
        self._moves: list[ShakeMove] = []
        self._examined: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._left_out: dict[str, str] = {}
        self._taken: set[tuple[str, int]] = set()
        self._start: contextlib.ExitStack | None = None

    @property
    def tests(self) -> frozenset[str]:
        """The tests that have recorded segments."""
        return frozenset(self._task.recorded)

    def begin(self) -> None:
        """Let code that is imported from now on see another environment, in every second round."""
        if self._task.number % 2 == 0:
            self._start = contextlib.ExitStack()
            self._start.enter_context(other_environment(ProjectFiles(), kept=("HOME", "CI", "USER")))

    def see(self, test: str, record: SegmentRecord) -> None:
        """Examine the recorded segment that a segment of this process corresponds to."""
        recorded = self._counterpart(test, record)
        if recorded is not None:
            self._examine(test, record.engine, record.workflow, recorded)

    def examine_all(self, engine: Engine, workflow: Workflow[Any]) -> None:
        """Examine every recorded segment with this workflow."""
        for test, segments in self._task.recorded.items():
            for recorded in segments:
                self._examine(test, engine, workflow, recorded)

    def _examine(self, test: str, engine: Engine, workflow: Workflow[Any], recorded: RecordedSegment) -> None:
        found = self._examiner.examine(engine, workflow, recorded)
        if found.left_out is not None:
            self._left_out[test] = found.left_out
        self._examined[test] = self._examined.get(test, 0) + 1
        self._calls[test] = self._calls.get(test, 0) + found.calls
        self._moves += [
            self._move(test, recorded, workflow, condition, move) for workflow, condition, move in found.moves
        ]

    def end(self) -> None:
        """Write what was found."""
        if self._start is not None:
            self._start.close()
        write_result(
            self._path.with_suffix(".result"),
            RoundResult(
                moves=tuple(self._moves),
                examined=self._examined,
                calls=self._calls,
                left_out=self._left_out,
            ),
        )

    def _counterpart(self, test: str, record: SegmentRecord) -> RecordedSegment | None:
        """Return the first recorded segment of the same workflow that was not taken, best of the same arguments."""
        segments: Sequence[RecordedSegment] = self._task.recorded.get(test, ())
        free = [
            (position, segment)
            for position, segment in enumerate(segments)
            if (test, position) not in self._taken and segment.workflow == record.workflow.name
        ]
        if not free:
            return None
        position, segment = next((pair for pair in free if pair[1].args == record.args), free[0])
        self._taken.add((test, position))
        return segment

    def _move(
        self, test: str, recorded: RecordedSegment, workflow: str, condition: str, move: Move
    ) -> ShakeMove:
        return ShakeMove(
            test=test or None,
            run_id=recorded.run_id,
            workflow=workflow,
            kind=move.kind,
            position=move.position,
            call=move.call,
            site=site_report(move.site, self._task.root),
            field=move.field,
            recorded=move.recorded,
            now=move.now,
            conditions=(condition,),
        )

    @contextlib.contextmanager
    def _home(self) -> Iterator[None]:
        """Be again where the segments were recorded, while this process began somewhere else."""
        if self._task.number % 2:
            yield
            return
        environ: Any = os.environ
        kind, before = type(environ), {name: os.environ.get(name) for name in self._task.home}
        place = locale.setlocale(locale.LC_ALL)
        environ.__class__ = kind if self._start is None else kind.__mro__[1]
        _set(self._task.home)
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, "")
        try:
            yield
        finally:
            _set(before)
            environ.__class__ = kind
            locale.setlocale(locale.LC_ALL, place)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    time.tzset()


def _report(
    number: int,
    recorded: Mapping[str, Sequence[RecordedSegment]],
    results: Sequence[RoundResult],
    problems: Sequence[str],
) -> ShakeReport:
    left_out = list(problems)
    runs = calls = 0
    for test, segments in recorded.items():
        examined = max((result.examined.get(test, 0) for result in results), default=0)
        runs += examined
        calls += max((result.calls.get(test, 0) for result in results), default=0)
        told = next((result.left_out[test] for result in results if test in result.left_out), None)
        if told is not None:
            left_out.append(f"{test}: {told}" if test else told)
        if examined < len(segments):
            left_out.append(
                f"{test}: {len(segments) - examined} of {len(segments)} runs did not come about again; "
                "the test ends earlier, or needs what no round has"
            )
    order = {test: place for place, test in enumerate(recorded)}
    moves = [move for result in results for move in result.moves]
    moves.sort(key=lambda move: order.get(move.test or "", -1))
    return ShakeReport(
        rounds=number, runs=runs, calls=calls, moves=merge_moves(moves), left_out=tuple(left_out)
    )


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return " | ".join(line.strip() for line in lines[-_TAIL_LINES:]) or "it said nothing"
