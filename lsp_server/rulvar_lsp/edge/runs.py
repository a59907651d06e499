"""Runs that the user asked for: refused unless trusted, one per test, shown, and read back as
reports.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from rulvar_lsp.edge.protocol import REQUEST_FAILED, ResponseFault
from rulvar_lsp.edge.runner import Request, Result, Run, child_environment, find_interpreter
from rulvar_lsp.edge.uris import path_to_uri
from rulvar_lsp.edge.warm import WarmRunner, WarmRunners
from rulvar_lsp.features.recorded import counts, miss_sentence
from rulvar_lsp.snapshot import RecordedTest

if TYPE_CHECKING:
    from rulvar_lsp.edge.workbench import Workbench

logger = logging.getLogger(__name__)

UNTRUSTED = (
    "rulvar runs no tests here: the workspace is not trusted. In VS Code trust the workspace; "
    "elsewhere set the initialization option `trusted` to true."
)
AGREED = "Record"
KEPT = "What was recorded before is kept if the test does not pass."
ANSWER_SECONDS = 300.0
_TEST_NAME = re.compile(r"[^\W\d]\w*(::[^\W\d]\w*)*(\[.*\])?", re.DOTALL)

Target = tuple[str, str | None]  # a file or folder, and a test in it


class RunBoard:
    """The runs that are going on."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._running: dict[tuple[Target, ...], Run] = {}
        self._warm = WarmRunners()

    async def run(
        self,
        targets: Sequence[Target],
        token: int | str | None = None,
        quiet: bool = False,
        record: bool = False,
    ) -> dict[str, Any]:
        """Run replay-strict on tests (`TestCart::test_empty`), whole files or folders, and return how it
        went; `record` makes live calls and records them, if the user agrees. Raises `ResponseFault` when running
        is not allowed or not possible.
        """
        await self._bench.know_settings()
        key = tuple(targets)
        title = f"{'record' if record else 'replay-strict'} {_title(key)}"
        request = replace(self._request(key), record=record)
        if record and not await self._agrees(_title(key)):
            return {"ok": False, "status": "cancelled", "summary": "not recorded", "tests": []}
        if key in self._running:
            self._bench.show(lsp.MessageType.Info, f"{title} is running already")
            return {"ok": False, "status": "running", "summary": "running already", "tests": []}
        warm = self._warm_runner(request)
        run = self._running[key] = Run(request, warm)
        bar = None
        said = "ended"
        try:
            can_create = self._bench.session.client.has_progress
            bar = await self._bench.bars.begin(title, run.cancel, token, can_create)
            result = await run.finish(
                lambda s: self._bench.bars.report(bar, f"{s:.0f} s") if s >= 1 else None
            )
            said = result.status
            return await self._finished(title, result, quiet)
        finally:
            run.kill()
            if warm is not None:
                warm.busy = False
            self._running.pop(key, None)
            self._bench.bars.end(bar, said)

    def _warm_runner(self, request: Request) -> WarmRunner | None:
        if not self._bench.session.settings_for(request.root).warm_runner:
            return None
        environ = child_environment(os.environ)
        warm = self._warm.take(request.interpreter, request.root, environ)
        if warm is not None:
            warm.busy = True
        return warm

    def cancel(self, path: str | None, test: str | None) -> bool:
        """Cancel the runs of a test, of a file, or every run; says whether there was one."""
        chosen = [
            run
            for key, run in self._running.items()
            if any(path in (None, p) and (test is None or test == t) for p, t in key)
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

    def _request(self, targets: tuple[Target, ...]) -> Request:
        session = self._bench.session
        if not session.trusted:
            self._bench.show(lsp.MessageType.Warning, UNTRUSTED)
            raise ResponseFault(REQUEST_FAILED, UNTRUSTED)
        if not targets:
            raise ResponseFault(REQUEST_FAILED, "no test is known to run here")
        for path, test in targets:
            if test is not None and not _TEST_NAME.fullmatch(test):
                raise ResponseFault(REQUEST_FAILED, f"{test!r} is not the name of a test")
            if not (os.path.isfile(path) or (test is None and os.path.isdir(path))):
                raise ResponseFault(REQUEST_FAILED, f"{path}: no such file; save it first")
        path = targets[0][0]
        root, settings = session.root_of(path), session.settings_for(path)
        interpreter = find_interpreter(root, settings.interpreter, os.environ, session.folder_of(path))
        if interpreter is None:
            raise ResponseFault(REQUEST_FAILED, f"no Python interpreter for {root}; set rulvar.interpreter")
        node_ids = tuple(path if test is None else f"{path}::{test}" for path, test in targets)
        return Request(root, node_ids, interpreter, settings.pytest_args, settings.run_timeout_seconds)

    async def _agrees(self, title: str) -> bool:
        """Ask the user before money is spent; a client that cannot ask does not record."""
        message = f"Record {title}? Its model calls go out live and are paid for. {KEPT}"
        actions = [lsp.MessageActionItem(title=AGREED), lsp.MessageActionItem(title="Cancel")]
        params = lsp.ShowMessageRequestParams(type=lsp.MessageType.Warning, message=message, actions=actions)
        try:
            answer = await self._bench.protocol.ask(lsp.WINDOW_SHOW_MESSAGE_REQUEST, params, ANSWER_SECONDS)
        except (ResponseFault, TimeoutError):
            return False
        return isinstance(answer, dict) and answer.get("title") == AGREED

    async def _finished(self, title: str, result: Result, quiet: bool) -> dict[str, Any]:
        await self._bench.look_for_reports()
        ran = [t for t in self._bench.session.recorded.tests if t.report == result.report_path]
        runs = sorted(ran, key=lambda t: (t.file, t.run.line))
        if result.status in ("passed", "failed") and not runs:
            logger.warning("the run of %s wrote no report of it: %s", title, result.report_path)
        said = counts(call for t in runs for call in t.run.calls) or result.summary
        if result.status in ("error", "timeout"):
            said = result.summary
        if not quiet:
            good = result.ok or result.status == "cancelled"
            kind = lsp.MessageType.Info if good else lsp.MessageType.Error
            self._bench.show(kind, f"{title}: {result.status} ({said})")
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
            "uri": path_to_uri(test.file),
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
                    "message": miss_sentence(call),
                }
                for call in missed
                if call.site is not None
            ],
        }


def _title(targets: tuple[Target, ...]) -> str:
    if len(targets) > 1:
        return f"{len(targets)} tests"
    return next((test or os.path.basename(path) for path, test in targets), "")
