"""Runs that the user asked for: refused unless trusted, one per test, shown, and read back as
reports.
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.protocol import REQUEST_FAILED, ResponseFault
from rulvar_lsp.edge.runner import Request, Result, Run, child_environment, find_interpreter
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.edge.warm import WarmRunner, WarmRunners
from rulvar_lsp.features.recorded import call_label, counts
from rulvar_lsp.snapshot import RecordedTest

if TYPE_CHECKING:
    from rulvar_lsp.edge.server import RulvarServer

logger = logging.getLogger(__name__)

UNTRUSTED = (
    "rulvar runs no tests here: the workspace is not trusted. In VS Code trust the workspace; "
    "elsewhere set the initialization option `trusted` to true."
)
_TEST_NAME = re.compile(r"[^\W\d]\w*(::[^\W\d]\w*)*(\[.*\])?", re.DOTALL)

Key = tuple[str, str | None]


class RunBoard:
    """The runs that are going on."""

    def __init__(self, server: RulvarServer) -> None:
        self._server = server
        self._running: dict[Key, Run] = {}
        self._warm = WarmRunners()

    async def run(
        self, path: str, test: str | None, token: int | str | None = None, quiet: bool = False
    ) -> dict[str, Any]:
        """Run replay-strict on a test (`TestCart::test_empty`), or on the whole file, and return
        how it went. Raises `ResponseFault` when running is not allowed or not possible.
        """
        request = self._request(path, test)
        key = (path, test)
        if key in self._running:
            self._server.show(lsp.MessageType.Info, f"{_title(path, test)} is running already")
            return {"ok": False, "status": "running", "summary": "running already", "tests": []}
        warm = self._warm_runner(request)
        run = self._running[key] = Run(request, warm)
        bar = None
        said = "ended"
        try:
            bar = await self._server.bars.begin(
                f"replay-strict {_title(path, test)}",
                run.cancel,
                token,
                self._server.session.client.has_progress,
            )
            result = await run.finish(
                lambda s: self._server.bars.report(bar, f"{s:.0f} s") if s >= 1 else None
            )
            said = result.status
            return await self._finished(path, test, result, quiet)
        finally:
            run.kill()
            if warm is not None:
                warm.busy = False
            self._running.pop(key, None)
            self._server.bars.end(bar, said)

    def _warm_runner(self, request: Request) -> WarmRunner | None:
        if not self._server.session.settings_for(request.root).warm_runner:
            return None
        environ = child_environment(os.environ)
        warm = self._warm.take(request.interpreter, request.root, environ)
        if warm is not None:
            warm.busy = True
        return warm

    def cancel(self, path: str | None, test: str | None) -> bool:
        """Cancel the run of a test, of a file, or every run; says whether there was one."""
        chosen = [
            run
            for (its_path, its_test), run in self._running.items()
            if (path is None or path == its_path) and (test is None or test == its_test)
        ]
        for run in chosen:
            run.cancel()
        return bool(chosen)

    def kill_all(self) -> None:
        """End every child at once: the server is leaving."""
        for run in self._running.values():
            run.cancel()
            run.kill()
        self._warm.stop_all()

    def _request(self, path: str, test: str | None) -> Request:
        session = self._server.session
        if not session.trusted:
            self._server.show(lsp.MessageType.Warning, UNTRUSTED)
            raise ResponseFault(REQUEST_FAILED, UNTRUSTED)
        if test is not None and not _TEST_NAME.fullmatch(test):
            raise ResponseFault(REQUEST_FAILED, f"{test!r} is not the name of a test")
        if not os.path.isfile(path):
            raise ResponseFault(REQUEST_FAILED, f"{path}: no such file; save it first")
        root, settings = session.root_of(path), session.settings_for(path)
        interpreter = find_interpreter(root, settings.interpreter, os.environ)
        if interpreter is None:
            raise ResponseFault(REQUEST_FAILED, f"no Python interpreter for {root}; set rulvar.interpreter")
        node_id = path if test is None else f"{path}::{test}"
        return Request(root, (node_id,), interpreter, settings.pytest_args, settings.run_timeout_seconds)

    async def _finished(self, path: str, test: str | None, result: Result, quiet: bool) -> dict[str, Any]:
        await self._server.look_for_reports()
        title = _title(path, test)
        runs = sorted(
            (
                t
                for t in self._server.session.recorded.tests_in.get(path, ())
                if t.report == result.report_path and (test is None or test in (t.name, t.function))
            ),
            key=lambda t: t.run.line,
        )
        if result.status in ("passed", "failed") and not runs:
            logger.warning("the run of %s wrote no report of it: %s", title, result.report_path)
        said = counts(call for t in runs for call in t.run.calls) or result.summary
        if result.status in ("error", "timeout"):
            said = result.summary
        if not quiet:
            good = result.ok or result.status == "cancelled"
            kind = lsp.MessageType.Info if good else lsp.MessageType.Error
            self._server.show(kind, f"replay-strict {title}: {result.status} ({said})")
        if not result.ok:
            logger.info("output of %s:\n%s", title, result.output)
        return {
            "ok": result.ok,
            "status": result.status,
            "summary": said,
            "seconds": round(result.seconds, 3),
            "report": result.report_path,
            "output": result.output,
            "tests": [self._told(t) for t in runs],
        }

    def _told(self, test: RecordedTest) -> dict[str, Any]:
        """One test of a result, as data for a client with a test view."""
        missed = [c for c in test.run.calls if c.served in ("miss", "exhausted")]
        return {
            "name": test.name,
            "outcome": test.run.outcome,
            "message": test.run.message,
            "durationMs": test.run.duration_ms,
            "calls": counts(test.run.calls),
            "misses": [
                {
                    "uri": path_to_uri(test.absolute(call.site.file)),
                    "line": call.site.line - 1,
                    "character": call.site.column - 1,
                    "message": call.message or call_label(call),
                    "differences": [
                        {"path": d.path, "recorded": d.recorded, "actual": d.actual}
                        for d in (call.nearest.differences if call.nearest else ())
                    ],
                }
                for call in missed
                if call.site is not None
            ],
        }


def _title(path: str, test: str | None) -> str:
    return test or os.path.basename(path)
