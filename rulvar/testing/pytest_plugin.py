"""The pytest plugin: recorded runs, strict replay and the replay report.

Every pytest run of every user imports this module, so it loads nothing else of rulvar until an
option, a marker or a fixture asks for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from rulvar.testing.pytest_names import (
    COVERAGE,
    CRITERION_MARKER,
    RECORD_MODES,
    SESSION,
    STARTED,
    STARTED_INPUT,
    WORKER_OUTPUT,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rulvar.testing.engine import TestEngine
    from rulvar.testing.pytest_cassette import PytestCassette
    from rulvar.testing.pytest_machines import PytestToolRecording

_SHAKE = "rulvar-shake"
_MARKERS = (
    'rulvar_cassette(name=None, *, record_mode=None): the cassette of the test: a name under "cassettes/", and '
    "when to record (none, once, new_episodes, all)",
    "live(*keys): spends money; runs only with RULVAR_LIVE_TESTS=1 and the named keys in the environment",
    CRITERION_MARKER,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rulvar", "durable LLM workflows")
    group.addoption(
        "--rulvar-replay",
        choices=("strict",),
        default=None,
        help="strict: no live call can happen (passthrough and recording are refused, other hosts are blocked)",
    )
    group.addoption(
        "--rulvar-report", metavar="PATH", default=None, help="write what served each model call as JSON"
    )
    group.addoption(
        "--rulvar-record",
        type=lambda text: "all" if text == "rewrite" else text,
        choices=RECORD_MODES,
        default=None,
        help="when the fixtures cassette and tool_recording record: none (default in CI), once (default), "
        "new_episodes, all (or rewrite)",
    )
    group.addoption(
        "--rulvar-coverage",
        action="store_true",
        help="print which transitions and parks of state machines no test has shown, and the criteria that were",
    )
    group.addoption(
        "--rulvar-unused",
        choices=("ignore", "report", "fail"),
        default=None,
        help="what becomes of recorded rows that no passing test used (default: report)",
    )
    group.addoption(
        "--rulvar-shake",
        metavar="N",
        type=int,
        default=None,
        help="run the workflows of the tests again in N rounds under other conditions, and report calls that moved",
    )
    group.addoption(
        "--rulvar-shake-report", metavar="PATH", default=None, help="write what a shake found as JSON"
    )
    group.addoption("--rulvar-shake-round", metavar="TASK", default=None, help=argparse.SUPPRESS)
    parser.addini(
        "rulvar_offline_adapters",
        "ids of the project's own adapters that never leave the machine; strict replay admits them",
        type="args",
        default=[],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    task = early_config.known_args_namespace.rulvar_shake_round
    if task is not None:  # before any module of the project is imported
        from rulvar.testing.pytest_shake import ShakenSession

        early_config.pluginmanager.register(ShakenSession(task), _SHAKE)
    elif _is_watched(early_config):
        start_session(early_config)  # a conftest may make an engine while it is imported


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = getattr(config, "workerinput", {}).get(STARTED_INPUT, time.time())
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("--rulvar-shake-round") is not None:
        return  # a round watches for itself
    rounds = config.getoption("--rulvar-shake")
    if rounds is not None:
        if rounds < 1:
            raise pytest.UsageError(f"--rulvar-shake={rounds}: expected a number of rounds, 1 or more")
        from rulvar.testing.pytest_shake import ShakeSession

        config.pluginmanager.register(ShakeSession(config, rounds), _SHAKE)
    if config.getoption("--rulvar-replay") == "strict" and config.getoption("--rulvar-record") not in (
        None,
        "none",
    ):
        raise pytest.UsageError("--rulvar-replay=strict never records; leave --rulvar-record out")
    if config.getoption("--rulvar-coverage"):
        from rulvar.testing.pytest_machines import CoverageSession

        config.pluginmanager.register(CoverageSession(config), COVERAGE)
    if _is_watched(config):
        start_session(config)


def _is_watched(config: pytest.Config) -> bool:
    asked = config.known_args_namespace
    return bool(asked.rulvar_replay or asked.rulvar_report or asked.rulvar_unused)


def start_session(config: pytest.Config) -> Any:
    """Return what watches this pytest run; it is started when the first option or fixture needs it."""
    session = config.pluginmanager.get_plugin(SESSION)
    if session is None:
        from rulvar.testing.pytest_session import ReplaySession

        session = ReplaySession(config)
        config.pluginmanager.register(session, SESSION)
    return session


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("live")
    if marker is None:
        return
    from rulvar.testing.live import SWITCH, live_test_enabled

    keys = [str(key) for key in marker.args]
    if item.config.getoption("--rulvar-replay") == "strict":
        pytest.skip("live tests do not run in strict replay")
    if not live_test_enabled(*keys):
        pytest.skip(f"live test: set {SWITCH}=1" + (f" and {', '.join(keys)}" if keys else ""))


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Let a failure show the user's line; rulvar's frames are shown with --full-trace or a debugger.

    Not the first of its kind: the failure of a unittest.TestCase is put in the place of another before.
    """
    asked = item.config.getoption
    if call.excinfo is None or asked("fulltrace", False) or asked("usepdb", False):
        return
    if "rulvar.errors" in sys.modules:
        from rulvar.testing.pytest_frames import hide_frames

        hide_frames(call.excinfo)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a pytest-xdist worker when the run began."""
    node.workerinput[STARTED_INPUT] = node.config.stash[STARTED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Take over what a pytest-xdist worker saw."""
    sent = getattr(node, "workeroutput", {}).get(WORKER_OUTPUT)
    if sent is not None:
        start_session(node.config).merge(sent)


@pytest.fixture
def rulvar_engine(request: pytest.FixtureRequest) -> Callable[..., TestEngine]:
    """Build test engines: ``rulvar_engine(agents={...}, ...)`` is ``create_test_engine``.

    The test's failure section says which of their calls were not served, and why.
    """
    from rulvar.testing.engine import create_test_engine

    start_session(request.config).attach(request.node)
    return create_test_engine


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[PytestCassette]:
    """The cassette of the test: a path, and ``cassette.adapters(...)`` that replay or record it.

    The file lies under ``cassettes/`` beside the test file and is named after the test; the marker
    ``rulvar_cassette`` names another one. A recording is put in place when the test has passed.
    """
    from rulvar.testing.pytest_cassette import open_cassette

    session = start_session(request.config)
    session.attach(request.node)
    tape = open_cassette(request, session.note_moved)
    yield tape
    tape.finish()


@pytest.fixture
def tool_recording(request: pytest.FixtureRequest) -> Iterator[PytestToolRecording]:
    """The tool fixture of the test: ``run_workflow(..., fixture=tool_recording)`` replays or records it.

    The file lies under ``__recordings__/`` beside the test file and is named after the test. A recording is
    put in place when the test has passed, and set aside otherwise.
    """
    from rulvar.testing.pytest_machines import open_tool_recording
    from rulvar.testing.pytest_session import PASSED

    start_session(request.config).attach(request.node)
    recording = open_tool_recording(request)
    yield recording
    recording.finish(passed=request.node.stash.get(PASSED, False))
