"""The machine part of the pytest plugin, as functions that the plugin calls.

``tool_recording``: the tool fixture of a test. ``criterion``: which acceptance criterion a test shows.
``--rulvar-coverage``: which transitions and parks of the machines no test of the run has exercised.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rulvar.engine.ambient import install_observer, uninstall_observer
from rulvar.machines.view import RunView
from rulvar.testing.fixture import ToolRecording, may_record
from rulvar.testing.machine_coverage import executed_and_parked
from rulvar.testing.pytest_names import COVERAGE

__all__ = [
    "CoverageCollector",
    "CoverageSession",
    "PytestToolRecording",
    "criteria_of",
    "open_tool_recording",
    "write_coverage",
]

FOLDER = "__recordings__"
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]-]")
_LONGEST_NAME = 120


class PytestToolRecording(ToolRecording):
    """The tool fixture of one test: pass it as ``fixture=tool_recording``.

    What is recorded replaces the file once the test has passed, and is set aside as ``*.failed`` otherwise.
    """

    def finish(self, *, passed: bool) -> None:
        """Put a recording in its place."""
        if not self.draft.exists():
            return
        os.replace(self.draft, self.path if passed else self.path.with_name(self.path.name + ".failed"))


def open_tool_recording(request: pytest.FixtureRequest) -> PytestToolRecording:
    """Return the tool fixture of the requesting test.

    The file lies under ``__recordings__/`` beside the test file and is named after the test. The option
    ``--rulvar-record`` says when it is recorded; without it a missing file is recorded, but not in CI unless
    ``RULVAR_RECORD=1``, and never in strict replay.
    """
    node = request.node
    folder = Path(node.path).parent / FOLDER / Path(node.path).stem
    path = folder / f"{_file_name(node.nodeid)}.json"
    draft = path.with_name(path.name + ".recording")
    draft.unlink(missing_ok=True)
    hint = f": record it with pytest --rulvar-record=once {node.nodeid!r}"
    if not may_record():
        hint += ", or set RULVAR_RECORD=1 to record it in CI"
    return PytestToolRecording(path, _mode(request.config), draft, hint)


def _mode(config: pytest.Config) -> str:
    if config.getoption("--rulvar-replay", None) == "strict":
        return "none"
    chosen = config.getoption("--rulvar-record", None)
    if chosen is None:
        return "once" if may_record() else "none"
    # a strict script is recorded as a whole or not at all
    return "once" if chosen == "new_episodes" else str(chosen)


def _file_name(node_id: str) -> str:
    name = ".".join(node_id.split("::")[1:])
    fit = _UNFIT.sub("-", name)[:_LONGEST_NAME]
    if fit != name:
        fit += "-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return fit


class CoverageCollector:
    """Watches the test runs of a session; install it as an engine observer.

    Attributes:
        machines: machine name to what its class declares and what the runs did.
        criteria: criterion to the tests that show it, and how they ended.
    """

    wants_sites = False
    wants_segments = False

    def __init__(self) -> None:
        self.machines: dict[str, dict[str, list[str]]] = {}
        self.criteria: dict[str, dict[str, str]] = {}

    def run_ended(self, view: RunView) -> None:
        """See a run that has ended or waits."""
        for node in view.tree():
            if node.definition is None:
                continue
            known = self.machines.setdefault(node.workflow, _declared(node.definition))
            executed, parked = executed_and_parked(node)
            known["executed"] = sorted({*known["executed"], *executed})
            known["parked"] = sorted({*known["parked"], *parked})

    def criterion(self, name: str, node_id: str, outcome: str) -> None:
        """Note how a test that shows a criterion ended."""
        self.criteria.setdefault(name, {})[node_id] = outcome

    def to_wire(self) -> dict[str, Any]:
        """Return plain data, for the controller of a distributed run."""
        return {"machines": self.machines, "criteria": self.criteria}

    def merge(self, wire: Mapping[str, Any]) -> None:
        """Take over what another process saw."""
        for name, facts in wire["machines"].items():
            known = self.machines.setdefault(name, {field: list(items) for field, items in facts.items()})
            for field in ("executed", "parked"):
                known[field] = sorted({*known[field], *facts[field]})
        for name, tests in wire["criteria"].items():
            self.criteria.setdefault(name, {}).update(tests)

    def lines(self) -> Iterator[str]:
        """Yield the report: what is missing per machine, and the criteria with their tests."""
        for name in sorted(self.machines):
            facts = self.machines[name]
            missing = [item for item in facts["transitions"] if item not in facts["executed"]]
            parks = [item for item in facts["parks"] if item not in facts["parked"]]
            done = len(facts["transitions"]) - len(missing)
            offered = len(facts["parks"]) - len(parks)
            yield (
                f"{name}: {done} of {len(facts['transitions'])} transitions, "
                f"{offered} of {len(facts['parks'])} parks"
            )
            if missing:
                yield f"  missing transitions: {', '.join(missing)}"
            if parks:
                yield f"  missing parks: {', '.join(parks)}"
        for name in sorted(self.criteria):
            tests = self.criteria[name]
            bad = [node for node, outcome in tests.items() if outcome != "passed"]
            verdict = "shown" if not bad else f"NOT shown: {', '.join(bad)}"
            yield f"{name}: {verdict} ({len(tests)} test{'' if len(tests) == 1 else 's'})"

    # what an engine observer has to have, and this one does not need

    def engine_created(self, adapters: Mapping[str, Any]) -> None:
        """See an engine."""

    def call_finished(self, record: Any) -> None:
        """See one call."""

    def run_settled(self, record: Any) -> None:
        """See one execution segment end."""

    def segment_ended(self, record: Any) -> None:
        """See what one execution segment appended."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """See nondeterminism."""


class CoverageSession:
    """The plugin object of ``--rulvar-coverage``; a pytest-xdist controller merges its workers into it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collector = CoverageCollector()
        install_observer(self._collector)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note how a test that shows a criterion ended; one whose set-up or tear-down failed shows nothing."""
        phase = yield
        if call.when == "call" or not phase.passed:
            for name in criteria_of(item):
                self._collector.criterion(name, item.nodeid, phase.outcome)
        return phase

    def pytest_sessionfinish(self) -> None:
        """Hand what a worker saw to its controller."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[COVERAGE] = self._collector.to_wire()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker saw."""
        sent = getattr(node, "workeroutput", {}).get(COVERAGE)
        if sent is not None:
            self._collector.merge(sent)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the report."""
        write_coverage(terminalreporter, self._collector)

    def pytest_unconfigure(self) -> None:
        """Stop watching."""
        uninstall_observer(self._collector)


def criteria_of(item: pytest.Item) -> list[str]:
    """Return the criteria that a test is marked with."""
    return [str(name) for marker in item.iter_markers("criterion") for name in marker.args]


def write_coverage(reporter: Any, collector: CoverageCollector) -> None:
    """Write the report into pytest's terminal summary."""
    lines = list(collector.lines())
    if lines:
        reporter.write_sep("-", "rulvar coverage")
        for line in lines:
            reporter.write_line(line)


def _declared(definition: Any) -> dict[str, list[str]]:
    parks = dict.fromkeys(item.name for item in definition.transitions if item.wait)
    return {"transitions": list(definition.names), "parks": list(parks), "executed": [], "parked": []}
