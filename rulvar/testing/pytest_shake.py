"""``pytest --rulvar-shake=N``: keeps what the tests' workflows did, and runs it again under other conditions."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.ports.observer import CallRecord, RunRecord, SegmentRecord
from rulvar.contracts.ports.provider import Adapter
from rulvar.engine.ambient import install_observer, uninstall_observer
from rulvar.errors import ConfigError
from rulvar.testing.pytest_names import SESSION, SHAKE_FOLDER
from rulvar.testing.shake.arguments import round_arguments
from rulvar.testing.shake.files import RoundTask, read_task, write_task
from rulvar.testing.shake.report import ShakeReport
from rulvar.testing.shake.rounds import Round, run_rounds
from rulvar.testing.shake.segments import recorded_segment
from rulvar.testing.shake.trace import RecordedSegment
from rulvar.testing.strict import NetworkGuard, refuse_live_calls

__all__ = ["ShakeSession", "ShakenSession"]


class _Watcher:
    """An observer that takes segments by the test in which they end."""

    wants_sites = True
    wants_segments = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._test: str | None = None
        install_observer(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """See a test begin."""
        self._test = item.nodeid

    def pytest_runtest_logfinish(self) -> None:
        """See a test end."""
        self._test = None

    def pytest_unconfigure(self) -> None:
        """Stop watching."""
        uninstall_observer(self)

    def segment_ended(self, record: SegmentRecord) -> None:
        """See a segment end; strict replays in tests are left alone."""
        test = self._test
        if test is None or record.strict:
            return
        with self._lock:
            self.take(test, record)

    def take(self, test: str, record: SegmentRecord) -> None:
        """Do something with a segment of a test."""
        raise NotImplementedError

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """See an engine."""

    def call_finished(self, record: CallRecord) -> None:
        """Calls are not looked at one by one."""

    def run_settled(self, record: RunRecord) -> None:
        """The segment tells more."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """The guard reports elsewhere."""


class ShakeSession(_Watcher):
    """The plugin object of a run that is asked to shake; also of its pytest-xdist workers."""

    def __init__(self, config: pytest.Config, rounds: int) -> None:
        super().__init__()
        self._config = config
        self._rounds = rounds
        self._recorded: dict[str, list[RecordedSegment]] = {}
        self._folder = Path(os.path.realpath(_folder(config)))
        self._report: ShakeReport | None = None
        self._problem: str | None = None

    def take(self, test: str, record: SegmentRecord) -> None:
        """Keep a segment."""
        self._recorded.setdefault(test, []).append(recorded_segment(record))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where it leaves what it kept."""
        node.workerinput[SHAKE_FOLDER] = str(self._folder)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Shake what was kept, or leave it for the controller; the replay report is written after this."""
        worker = getattr(self._config, "workerinput", None)
        if worker is not None:
            task = RoundTask(number=0, root="", home={}, recorded=self._recorded)
            write_task(Path(worker[SHAKE_FOLDER], f"{worker['workerid']}.kept"), task)
            return
        for path in sorted(self._folder.glob("*.kept")):
            self._recorded.update(read_task(path).recorded)
        if not self._recorded or session.exitstatus in (
            pytest.ExitCode.INTERRUPTED,
            pytest.ExitCode.USAGE_ERROR,
        ):
            return
        try:
            self._report = self._shake()
        except KeyboardInterrupt:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            return
        if not self._report.runs:
            self._problem = "no run could be compared"
        self._write_report()
        watching = self._config.pluginmanager.get_plugin(SESSION)
        if watching is not None:
            watching.note_moves(self._report.moves)
        if (self._report.moves or self._problem) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what moved."""
        if self._report is None:
            return
        terminalreporter.section("rulvar shake", sep="-", blue=True)
        for line in self._report.lines:
            terminalreporter.line(line, red=line.startswith("MOVED"))
        if self._problem is not None:
            terminalreporter.line(f"ERROR: {self._problem}", red=True)

    def _shake(self) -> ShakeReport:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")

        def tell(number: int) -> None:
            if terminal is not None:
                terminal.ensure_newline()
                terminal.write_line(f"rulvar shake: round {number} of {self._rounds}")

        arguments = round_arguments(self._config, self._folder)
        return run_rounds(
            self._rounds,
            self._recorded,
            lambda task: [sys.executable, "-m", "pytest", *arguments, f"--rulvar-shake-round={task}"],
            root=str(self._config.rootpath),
            directory=self._config.invocation_params.dir,
            tell=tell,
        )

    def _write_report(self) -> None:
        path = self._config.getoption("--rulvar-shake-report")
        if not path or self._report is None:
            return
        try:
            target = Path(self._config.invocation_params.dir, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(encode_json(self._report.to_wire()) + b"\n")
        except OSError as error:
            self._problem = str(
                ConfigError(f"{path}: cannot write the shake report: {error.strerror or error}")
            )


class ShakenSession(_Watcher):
    """The plugin object of the process of one round: it runs the same tests, and examines what they do."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self._round = Round(task)
        self._guard = NetworkGuard(lambda: self._test or "rulvar shake")
        self._guard.install()
        self._round.begin()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Run only the tests that have something to examine."""
        kept = self._round.tests
        left_out = [item for item in items if item.nodeid not in kept]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid in kept]

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """Make live calls impossible."""
        refuse_live_calls(adapters)

    def take(self, test: str, record: SegmentRecord) -> None:
        """Examine a segment."""
        self._round.see(test, record)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        self._round.end()
        self._guard.uninstall()


def _folder(config: pytest.Config) -> str:
    import tempfile

    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return str(worker[SHAKE_FOLDER])
    folder = tempfile.TemporaryDirectory(prefix="rulvar-shake-")
    config.add_cleanup(folder.cleanup)
    return folder.name
