"""What watches a pytest run: collects calls per test, explains misses, writes the report."""

from __future__ import annotations

import ast
import linecache
import os
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rulvar.contracts.canonical import decode_json, encode_json
from rulvar.contracts.redaction import default_redact
from rulvar.engine.ambient import install_observer, uninstall_observer
from rulvar.errors import ConfigError
from rulvar.testing.collector import RunCollector
from rulvar.testing.pytest_explain import explain
from rulvar.testing.pytest_names import WORKER_OUTPUT
from rulvar.testing.report import (
    REPORT_KIND,
    REPORT_VERSION,
    CallReport,
    ReplayMode,
    ReplayReport,
    TestOutcome,
    TestReport,
    WarningReport,
    relative_path,
    site_digest,
    write_report,
)
from rulvar.testing.row_use import row_use
from rulvar.testing.strict import NetworkGuard, admit_offline, engines_made, refuse_live_calls

if TYPE_CHECKING:
    from rulvar.contracts.ports.provider import Adapter
    from rulvar.engine.engine import Engine
    from rulvar.testing.shake.report import ShakeMove

__all__ = ["PASSED", "ReplaySession"]

PASSED = pytest.StashKey[bool]()
"""Whether the call phase of a test passed."""

_MESSAGE_LINES = 5
_WORDS = {
    "hit": ("hit", "hits"),
    "miss": ("miss", "misses"),
    "exhausted": ("exhausted", "exhausted"),
    "fake": ("fake", "fake"),
    "journal": ("from the journal", "from the journal"),
    "passthrough": ("passed through", "passed through"),
    "live": ("live", "live"),
}
_FROM_STASH = pytest.StashKey["Watched"]()


@dataclass(frozen=True, slots=True)
class TestSource:
    """Where a test function stands, and the digest of its lines."""

    __test__ = False

    file: str
    line: int
    end_line: int | None = None
    digest: str | None = None


@dataclass(slots=True)
class Watched:
    """A test under way."""

    started: float
    source: TestSource
    outcome: TestOutcome = "passed"
    duration_ms: float = 0.0
    message: str | None = None


class ReplaySession:
    """The plugin object of one pytest run; also what a pytest-xdist controller merges its workers into."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._root = str(config.rootpath)
        asked = config.known_args_namespace  # options are not in place yet when initial conftests are loaded
        self._mode: ReplayMode = "strict" if asked.rulvar_replay == "strict" else "default"
        self._unused = asked.rulvar_unused or "report"
        self._item: pytest.Item | None = None
        self._tests: list[tuple[float, TestReport]] = []
        self._read: dict[str, tuple[list[str], dict[int, int]]] = {}
        self._problems: list[str] = []
        self._collector = RunCollector(self._root, self._admit if self._mode == "strict" else None)
        self._guard = NetworkGuard(self._where) if self._mode == "strict" else None
        install_observer(self._collector)
        config.add_cleanup(self._stop)
        self._put_back: list[Callable[[], None]] = []
        for engine in engines_made():
            self._watch_made(engine)
        if self._guard is not None:
            self._guard.install()

    def attach(self, item: pytest.Item) -> None:
        """Watch a test whose set-up began before this plugin was there."""
        if self._item is not item:
            self._begin(item)

    def merge(self, sent: str) -> None:
        """Take over the tests of a worker."""
        for started, wire in decode_json(sent):
            self._tests.append((started, msgspec.convert(wire, TestReport)))

    def note_moves(self, moves: Iterable[ShakeMove]) -> None:
        """Add what a shake found to the warnings of its tests."""
        noted: dict[str | None, list[WarningReport]] = {}
        for move in moves:
            if move.site is not None:
                warning = WarningReport(
                    file=move.site.file, line=move.site.line, code="shake", message=move.sentence
                )
                noted.setdefault(move.test, []).append(warning)
        self._tests = [
            (started, msgspec.structs.replace(test, warnings=(*test.warnings, *noted.get(test.node_id, ()))))
            for started, test in self._tests
        ]

    def note_moved(self, source: str, target: str) -> None:
        """See a recording of the running test put in its place."""
        self._collector.current.moved[source] = target

    # -- a test --------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """See a test begin."""
        self._begin(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """See a phase end: note its outcome, and explain misses where it failed."""
        phase = yield
        watched = item.stash.get(_FROM_STASH, None)
        if watched is None:
            return phase
        if call.when == "call":
            watched.duration_ms = call.duration * 1000
            item.stash[PASSED] = phase.passed
        _note_outcome(watched, phase)
        if phase.failed:
            text = explain(self._collector.current, self._collector)
            if text:
                phase.sections.append(("rulvar", text))
        if call.when == "teardown":
            self._end(item, watched)
        return phase

    def _begin(self, item: pytest.Item) -> None:
        self._item = item
        item.stash[_FROM_STASH] = Watched(time.time(), self._source_of(item))
        item.stash[PASSED] = False
        self._collector.begin()

    def _source_of(self, item: pytest.Item) -> TestSource:
        """Return where a test is; the lines of its text are asked for by readers of the report alone."""
        file = os.path.join(item.config.rootpath, item.location[0])
        number = (item.location[1] or 0) + 1
        if not self._config.getoption("--rulvar-report"):
            return TestSource(file, number)
        lines = linecache.getlines(file)
        known = self._read.get(file)
        if known is None or known[0] is not lines:
            known = self._read[file] = (lines, _last_lines("".join(lines)))
        return _source_of(file, number, getattr(item, "originalname", None) or item.name, *known)

    def _end(self, item: pytest.Item, watched: Watched) -> None:
        self._item = None
        collected = self._collector.take()
        test = TestReport(
            node_id=item.nodeid,
            file=relative_path(watched.source.file, self._root),
            line=watched.source.line,
            end_line=watched.source.end_line,
            digest=watched.source.digest,
            outcome=watched.outcome,
            duration_ms=round(watched.duration_ms, 3),
            mode=self._mode,
            message=watched.message,
            cassettes=self._collector.cassettes(collected),
            calls=self._collector.calls(collected),
            replays=self._collector.replays(collected),
            warnings=tuple(collected.warnings),
        )
        self._tests.append((watched.started, test))

    # -- the end -------------------------------------------------------------------------

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, or hand the tests to the controller."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            tests = [[started, msgspec.to_builtins(test)] for started, test in self._tests]
            output[WORKER_OUTPUT] = encode_json(tests).decode("ascii", "backslashreplace")
            return
        path = self._config.getoption("--rulvar-report")
        if path:
            try:
                write_report(os.path.join(self._config.invocation_params.dir, path), self.report())
            except ConfigError as error:
                self._problems.append(str(error))
        if self._unused == "fail" and self.unused_rows():
            self._problems.append("recorded rows were not used (--rulvar-unused=fail)")
        if self._problems and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say in a line what served the calls, and which rows nobody used."""
        calls = [call for _, test in self._tests for call in test.calls if call.kind == "agent"]
        unused = self.unused_rows() if self._unused != "ignore" else {}
        if not calls and not unused and not self._problems:
            return
        terminalreporter.section("rulvar", sep="-", blue=True)
        terminalreporter.line(summary_line(calls, sum(map(len, unused.values()))))
        for path, lines in unused.items():
            terminalreporter.line(f"unused: {path} line{_s(lines)} {_ranges(lines)}")
        for problem in self._problems:
            terminalreporter.line(f"ERROR: {problem}", red=True)

    def _watch_made(self, engine: Engine) -> None:
        """Watch an engine that was made before this session began."""
        observers, adapters = engine.observers, engine._adapters
        if self._collector in observers:
            return
        engine.observers = (*observers, self._collector)
        refused: dict[str, Adapter] = {}
        if self._mode == "strict":
            refused = refuse_live_calls(adapters, listed=self._listed, where="strict replay")

        def put_back() -> None:
            engine.observers = observers
            adapters.update(refused)

        self._put_back.append(put_back)

    def _stop(self) -> None:
        """Stop watching, also when pytest could not even begin."""
        uninstall_observer(self._collector)
        for put_back in self._put_back:
            put_back()
        if self._guard is not None:
            self._guard.uninstall()

    def report(self) -> ReplayReport:
        """Return the report of the run so far."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return ReplayReport(
            v=REPORT_VERSION,
            kind=REPORT_KIND,
            created_at=now,
            rulvar=metadata.version("rulvar"),
            root=self._root.replace(os.sep, "/"),
            mode=self._mode,
            tests=tuple(test for _, test in sorted(self._tests, key=lambda pair: pair[0])),
        )

    def unused_rows(self) -> dict[str, list[int]]:
        """Return, per cassette, the lines that no test used; cassettes of failed tests are left out."""
        uses = row_use(test for _, test in self._tests)
        return {path: use.unused for path, use in sorted(uses.items()) if use.unused and not use.failed}

    # -- strict replay -------------------------------------------------------------------

    def _admit(self, adapters: Any) -> None:
        admit_offline(adapters, listed=self._listed, where=self._where())

    @property
    def _listed(self) -> list[str]:
        listed: list[str] = self._config.getini("rulvar_offline_adapters")
        return listed

    def _where(self) -> str:
        return self._item.nodeid if self._item is not None else "outside a test"


def summary_line(calls: Iterable[CallReport], unused: int) -> str:
    """Return the one line of the terminal summary."""
    counts: dict[str, int] = {}
    avoided = 0.0
    total = 0
    for call in calls:
        total += 1
        counts[call.served] = counts.get(call.served, 0) + 1
        if call.served in ("hit", "journal"):
            avoided += call.cost_usd or 0.0
    parts = [f"{counts[how]} {words[counts[how] > 1]}" for how, words in _WORDS.items() if how in counts]
    if unused:
        parts.append(f"{unused} unused row{'s' if unused != 1 else ''}")
    if avoided:
        parts.append(f"{avoided:.4f} USD not spent")
    return f"{total} model call{'s' if total != 1 else ''}" + (f": {', '.join(parts)}" if parts else "")


def _note_outcome(watched: Watched, phase: pytest.TestReport) -> None:
    if phase.failed:
        watched.outcome = "failed" if phase.when == "call" else "error"
        watched.message = _first_lines(phase)
    elif phase.skipped and watched.outcome == "passed":
        watched.outcome = "skipped"


def _first_lines(phase: pytest.TestReport) -> str:
    crash = getattr(phase.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else phase.longreprtext
    return default_redact("\n".join(text.splitlines()[:_MESSAGE_LINES]))


def _source_of(file: str, number: int, name: str, lines: list[str], last: dict[int, int]) -> TestSource:
    """Return where a test function is defined: from its ``def``, also where it is decorated, to its last line."""
    for place in range(number - 1, min(number + 99, len(lines))):
        words = lines[place].split("(", 1)[0].split()
        if words[-2:] == ["def", name] and words[:-2] in ([], ["async"]):
            end = last.get(place + 1, place + 1)
            return TestSource(file, place + 1, end, site_digest(lines[place:end]))
    return TestSource(file, number)


def _last_lines(text: str) -> dict[int, int]:
    """Return where the functions of a file end, by the line of their ``def``; none in text that cannot be read."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, SystemError):  # changed since; the last is gh-106905
        return {}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.lineno: node.end_lineno or node.lineno for node in ast.walk(tree) if isinstance(node, kinds)}


def _s(lines: list[int]) -> str:
    return "" if len(lines) == 1 else "s"


def _ranges(lines: list[int]) -> str:
    """Write ``2-4, 7`` for lines 2, 3, 4 and 7."""
    parts: list[str] = []
    start = previous = lines[0]
    for line in [*lines[1:], -1]:
        if line == previous + 1:
            previous = line
            continue
        parts.append(f"{start}-{previous}" if previous > start else str(start))
        start = previous = line
    return ", ".join(parts)
