"""A client for real server processes that sends what no library would, and a project."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pytest

SERVER = [sys.executable, "-m", "rulvar_lsp"]
PULL: dict[str, Any] = {
    "textDocument": {
        "diagnostic": {},
        "publishDiagnostics": {"relatedInformation": True, "codeDescriptionSupport": True},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}},
            "isPreferredSupport": True,
            "resolveSupport": {"properties": ["edit"]},
            "dataSupport": True,
        },
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "inlayHint": {"resolveSupport": {"properties": ["tooltip"]}},
    },
    "workspace": {
        "diagnostics": {"refreshSupport": True},
        "inlayHint": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
        "workspaceEdit": {"documentChanges": True},
        "configuration": True,
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
}
PUSH: dict[str, Any] = {
    "textDocument": {
        **{k: v for k, v in PULL["textDocument"].items() if k != "diagnostic"},
    },
    "workspace": {k: v for k, v in PULL["workspace"].items() if k != "diagnostics"},
    "window": PULL["window"],
}


class Gone(Exception):
    """The server has closed its output."""


class LspClient:
    """Drives one server process; every message that comes is kept in `seen`."""

    def __init__(self, root: Path, log: Path, env: dict[str, str] | None = None) -> None:
        self.root = root
        self.log = log
        self.settings: Any = None
        self.offered: dict[str, Any] = {}  # the server's capabilities
        self.choice: str | None = None  # the button that is pressed when the server asks
        self.seen: list[dict[str, Any]] = []
        self.silent: set[str] = set()  # methods of the server that are not answered
        self._answers: dict[Any, dict[str, Any]] = {}
        self._inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._next = 0
        self._stderr = log.open("wb")
        self.process = subprocess.Popen(
            SERVER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            # a job in the background of a script is told to ignore Ctrl-C, and its children inherit that
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, **(env or {})},
        )
        threading.Thread(target=self._read, daemon=True).start()

    # -- bytes ----------------------------------------------------------------------------------
    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        with contextlib.suppress(ValueError):  # the test has closed the stream meanwhile
            while (message := self._next_message(stream)) is not None:
                if "method" in message and "id" in message:
                    self._answer(message)
                self._inbox.put(message)
        self._inbox.put(None)

    @staticmethod
    def _next_message(stream: IO[bytes]) -> dict[str, Any] | None:
        length = None
        while line := stream.readline().strip():
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
        if length is None:
            return None
        message: dict[str, Any] = json.loads(stream.read(length))
        return message

    def _answer(self, message: dict[str, Any]) -> None:
        if message["method"] in self.silent:
            return
        result: Any = None
        if message["method"] == "workspace/configuration":
            result = [self.settings for _ in message["params"]["items"]]
        elif message["method"] == "window/showDocument":
            result = {"success": True}
        elif message["method"] == "window/showMessageRequest" and self.choice is not None:
            result = {"title": self.choice}
        with contextlib.suppress(OSError, ValueError):  # the test has ended the server meanwhile
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    # -- messages -------------------------------------------------------------------------------
    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def start(self, method: str, params: Any = None) -> int:
        """Send a request and return its id."""
        self._next += 1
        self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        return self._next

    def answer(self, msg_id: Any, timeout: float = 10.0) -> dict[str, Any]:
        """Wait for the whole answer (`result` or `error`) to a request."""
        self._until(lambda: msg_id in self._answers, timeout, f"no answer to {msg_id}")
        return self._answers.pop(msg_id)

    def request(self, method: str, params: Any = None, timeout: float = 10.0) -> Any:
        """Send a request and return its result; an error fails the test."""
        answer = self.answer(self.start(method, params), timeout)
        assert "error" not in answer, answer["error"]
        return answer.get("result")

    def error(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request that must be refused and return the error."""
        answer = self.answer(self.start(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def _pump(self, timeout: float) -> bool:
        try:
            message = self._inbox.get(timeout=max(timeout, 0.001))
        except queue.Empty:
            return False
        if message is None:
            raise Gone(f"exit code {self.process.poll()}: {self.log.read_text()[-2000:]}")
        if "method" in message:
            self.seen.append(message)
        else:
            self._answers[message.get("id")] = message
        return True

    def _until(self, done: Callable[[], bool], timeout: float, what: str) -> None:
        end = time.monotonic() + timeout
        while not done():
            left = end - time.monotonic()
            if left <= 0 or (not self._pump(left) and not done()):
                raise AssertionError(f"{what}; log:\n{self.log.read_text()[-2000:]}")

    def wait(self, method: str, want: Callable[[Any], bool] = lambda p: True) -> Any:
        """Wait for a message of the server (also an earlier one) and return its params."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [m.get("params") for m in self.seen if m["method"] == method and want(m.get("params"))]
            return bool(found)

        self._until(look, 10.0, f"no {method}")
        return found[-1]

    def settle(self, seconds: float = 0.2) -> None:
        """Take in whatever comes during this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._pump(left)

    def messages(self, method: str) -> list[Any]:
        """Params of all messages of this method seen so far."""
        return [m.get("params") for m in self.seen if m["method"] == method]

    # -- editor ---------------------------------------------------------------------------------
    def initialize(self, capabilities: Any = None, **options: Any) -> Any:
        """Open the session on the root folder; options are initialization options."""
        result = self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": self.root.as_uri(),
                "capabilities": PUSH if capabilities is None else capabilities,
                "initializationOptions": options,
            },
        )
        self.offered = result["capabilities"]
        self.notify("initialized")
        return result

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def open(self, name: str, text: str | None = None, version: int = 1) -> str:
        """Open a file of the root folder, with its text on disk or another one."""
        path = self.root / name
        if text is None:
            text = path.read_bytes().decode()
        uri = path.as_uri()
        self.notify(
            "textDocument/didOpen",
            {
                "textDocument": {
                    "uri": uri,
                    "languageId": "python",
                    "version": version,
                    "text": text,
                }
            },
        )
        return uri

    def change(self, uri: str, version: int, *changes: Any) -> None:
        """Send changes: (line, character, end line, end character, text), or a whole text."""
        sent = []
        for change in changes:
            if isinstance(change, str):
                sent.append({"text": change})
            else:
                a, b, c, d, text = change
                start, end = {"line": a, "character": b}, {"line": c, "character": d}
                sent.append({"range": {"start": start, "end": end}, "text": text})
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": sent},
        )

    def diagnostics(self, uri: str, version: int | None = 1) -> list[dict[str, Any]]:
        """Wait for pushed diagnostics of this version."""
        params = self.wait(
            "textDocument/publishDiagnostics",
            lambda p: p["uri"] == uri and p.get("version") == version,
        )
        return params["diagnostics"]

    def hints(self, uri: str) -> list[dict[str, Any]]:
        return self.request("textDocument/inlayHint", {**self.doc(uri), "range": self.range(0, 0, 9999, 0)})

    @staticmethod
    def doc(uri: str) -> dict[str, Any]:
        return {"textDocument": {"uri": uri}}

    @staticmethod
    def range(a: int, b: int, c: int, d: int) -> dict[str, Any]:
        return {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}}

    @classmethod
    def at(cls, uri: str, line: int, character: int) -> dict[str, Any]:
        return {**cls.doc(uri), "position": {"line": line, "character": character}}

    def actions(self, uri: str, place: Any, only: list[str] | None = None) -> list[dict[str, Any]]:
        """Ask for the code actions at a range."""
        context = {"diagnostics": [], **({"only": only} if only else {})}
        return self.request("textDocument/codeAction", {**self.doc(uri), "range": place, "context": context})

    def stop(self) -> int:
        """Shut down in order and return the exit code."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(10)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


@pytest.fixture(scope="session")
def lsp_class() -> type[LspClient]:
    """The client itself, for a server that many tests share."""
    return LspClient


@pytest.fixture(scope="session")
def digest_of() -> Callable[[list[str]], str]:
    """The digest of source lines, as a report has it."""
    return lambda lines: hashlib.sha256("\n".join(x.strip() for x in lines).encode()).hexdigest()[:16]


@pytest.fixture(scope="session")
def push_capabilities() -> dict[str, Any]:
    """A client that has diagnostics pushed."""
    return PUSH


@pytest.fixture(scope="session")
def pull_capabilities() -> dict[str, Any]:
    """A client that pulls diagnostics and can be asked to pull again."""
    return PULL


@pytest.fixture
def lsp(tmp_path: Path) -> Iterator[Callable[..., LspClient]]:
    """Start servers: `lsp(root, **env)`; all of them are gone after the test."""
    started: list[LspClient] = []

    def start(root: Path | None = None, **env: str) -> LspClient:
        if root is None:
            root = tmp_path / "project"
            root.mkdir(exist_ok=True)
        client = LspClient(root, tmp_path / f"server-{len(started)}.log", env)
        started.append(client)
        return client

    yield start
    for client in started:
        client.kill()


FLOW = """from datetime import datetime

from rulvar import Ctx, workflow


@workflow(name="triage")
async def triage(ctx: Ctx, args: dict) -> dict:
    started = datetime.now()
    kind = await ctx.agent(f"Classify: {args['text']}", label="classify")
    answer = await ctx.agent(
        "Draft an answer",
        label="draft",
    )
    return {"kind": kind, "answer": answer, "at": str(started)}
"""

TESTS = """import os


def test_replay():
    assert os


class TestDraft:
    def test_short(self):
        assert os
"""

ROW = '{"adapterId":"fake"}'


# Stands in for rulvar's pytest plugin: takes its options, and writes a report from `calls.json`.
PLUGIN = """
import json, pathlib, time

RUNS = []


def pytest_addoption(parser):
    parser.addoption("--rulvar-replay")
    parser.addoption("--rulvar-report")


def pytest_runtest_logreport(report):
    if report.when == "call":
        RUNS.append(report)


def pytest_sessionfinish(session):
    target = session.config.getoption("--rulvar-report")
    if not target:
        return
    assert session.config.getoption("--rulvar-replay") == "strict"
    root = pathlib.Path(str(session.config.rootpath))
    calls = root / "calls.json"
    tests = [
        {
            "nodeId": run.nodeid,
            "file": run.nodeid.partition("::")[0],
            "line": run.location[1] + 1,
            "outcome": run.outcome,
            "durationMs": run.duration * 1000,
            "message": run.longreprtext.splitlines()[-1] if run.failed else None,
            "calls": json.loads(calls.read_text()) if calls.exists() else [],
        }
        for run in RUNS
    ]
    now = time.time()
    body = {
        "v": 1,
        "kind": "rulvar-replay-report",
        "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f"{now % 1:.3f}Z"[1:],
        "root": str(root),
        "tests": tests,
    }
    temporary = pathlib.Path(target + ".new")
    temporary.write_text(json.dumps(body))
    temporary.replace(target)
"""


class Project:
    """A project on disk with a workflow, tests, a cassette and replay reports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.write("pyproject.toml", "[project]\nname='x'\nversion='0'\n")
        self.write("flow.py", FLOW)
        self.write("test_flow.py", TESTS)
        self.write("cassettes/triage.jsonl", "\n".join([ROW] * 4) + "\n")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def plug(self, *calls: dict[str, Any]) -> None:
        """Make the project's tests runnable: every test makes these calls."""
        self.write("conftest.py", PLUGIN)
        self.write("calls.json", json.dumps(calls))
        self.write("pytest.ini", "[pytest]\naddopts = -p no:rulvar -p no:cacheprovider\n")

    def site(self, line: int, end_line: int | None = None, name: str = "flow.py") -> dict[str, Any]:
        """The call that stands on these lines (from 1), from `ctx.` to the last parenthesis."""
        end_line = end_line or line
        lines = (self.root / name).read_text("utf-8").split("\n")
        body = "\n".join(text.strip() for text in lines[line - 1 : end_line])
        return {
            "file": name,
            "line": line,
            "column": lines[line - 1].index("ctx.") + 1,
            "endLine": end_line,
            "endColumn": lines[end_line - 1].rindex(")") + 2,
            "function": "triage",
            "digest": hashlib.sha256(body.encode()).hexdigest()[:16],
        }

    def call(self, served: str, site: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        defaults = {
            "hit": {"requestHash": "3f9ac2" + "0" * 58, "occurrence": 0, "occurrences": 1},
            "miss": {"requestHash": "81b0d4" + "0" * 58},
        }
        fields = {
            "kind": "agent",
            "site": site,
            "scope": "",
            "label": "classify",
            "model": "fake-1",
            "adapter": "fake",
            "cassette": "cassettes/triage.jsonl" if served == "hit" else None,
            "row": 2 if served == "hit" else None,
            "usage": {"inputTokens": 1200, "outputTokens": 34} if served == "hit" else None,
            "nearest": self.nearest() if served == "miss" else None,
        }
        return {**fields, "served": served, **defaults.get(served, {}), **more}

    def nearest(self) -> dict[str, Any]:
        return {
            "cassette": "cassettes/triage.jsonl",
            "row": 3,
            "requestHash": "aabbcc" + "0" * 58,
            "distance": 0.25,
            "differences": [
                {
                    "path": "messages[1].parts[0].text",
                    "recorded": "Draft a reply",
                    "actual": "Draft an answer",
                }
            ],
        }

    def test(self, name: str = "test_replay", **more: Any) -> dict[str, Any]:
        fields = {
            "nodeId": f"test_flow.py::{name}",
            "file": "test_flow.py",
            "line": 4,
            "outcome": "passed",
            "durationMs": 12.5,
            "mode": "strict",
            "message": None,
            "cassettes": [],
            "calls": [self.call("hit", self.site(9)), self.call("miss", self.site(10, 13))],
            "replays": [],
            "warnings": [],
        }
        return {**fields, **more}

    def report(
        self, *tests: dict[str, Any], name: str = "r", created: str | None = None, **more: Any
    ) -> Path:
        """Write a report of these tests, made now unless said otherwise."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = {
            "v": 1,
            "kind": "rulvar-replay-report",
            "createdAt": created or moment.replace("+00:00", "Z"),
            "rulvar": "0.1.0",
            "root": str(self.root),
            "mode": "strict",
            "tests": list(tests),
            **more,
        }
        return self.write(f".rulvar_cache/reports/{name}.json", json.dumps(body))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a workflow of two calls, and tests."""
    return Project(tmp_path / "project")
