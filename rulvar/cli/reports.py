"""The replay report of a replayed run: what served each call, with its place in the source."""

from __future__ import annotations

import inspect
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rulvar.cli.version import installed_version

if TYPE_CHECKING:
    from rulvar.cli.replaying import ReplayReport
    from rulvar.engine.workflow import Workflow
    from rulvar.testing.collector import Collected, RunCollector
    from rulvar.testing.report import TestReport

__all__ = ["Recording"]


class Recording:
    """Watches one replay; does nothing when no report is wanted."""

    def __init__(self, path: str | None, collector: RunCollector | None) -> None:
        self._path = path
        self._collector = collector
        self._started = time.perf_counter()

    @classmethod
    def start(cls, path: str | None) -> Recording:
        """Begin to watch."""
        if path is None:
            return cls(None, None)
        from rulvar.engine.ambient import install_observer
        from rulvar.testing.collector import RunCollector

        collector = RunCollector(str(Path.cwd()))
        install_observer(collector)
        return cls(path, collector)

    def stop(self) -> None:
        """Stop watching."""
        if self._collector is not None:
            from rulvar.engine.ambient import uninstall_observer

            uninstall_observer(self._collector)

    def write(self, replay: ReplayReport, workflow: Workflow[Any]) -> None:
        """Write the report.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self._collector is None or self._path is None:
            return
        from rulvar.testing import report

        collector = self._collector
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        report.write_report(
            self._path,
            report.ReplayReport(
                v=report.REPORT_VERSION,
                kind=report.REPORT_KIND,
                created_at=now,
                rulvar=installed_version(),
                root=collector.root.replace(os.sep, "/"),
                mode="strict",
                tests=(self._test(collector, collector.take(), replay, workflow),),
            ),
        )

    def _test(
        self, collector: RunCollector, collected: Collected, replay: ReplayReport, workflow: Workflow[Any]
    ) -> TestReport:
        from rulvar.testing.report import TestReport, relative_path

        file, line = _defined_at(workflow)
        passed, error = replay.exit_code == 0, replay.outcome.error
        return TestReport(
            node_id=f"rulvar replay {replay.run_id}",
            file=relative_path(file, collector.root),
            line=line,
            outcome="passed" if passed else "failed",
            duration_ms=round((time.perf_counter() - self._started) * 1000, 3),
            mode="strict",
            message=None if passed or error is None else error.message,
            cassettes=(),
            calls=collector.calls(collected),
            replays=collector.replays(collected),
            warnings=tuple(collected.warnings),
        )


def _defined_at(workflow: Workflow[Any]) -> tuple[str, int]:
    body = inspect.unwrap(workflow.body)
    code = getattr(body, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 1)
