"""Running tests: pytest as a child process of its own, for one node id, in the project's
interpreter.

The child has its own process group, no standard input, and its output goes to a file: a test that
leaves a daemon behind, asks for input or floods the terminal can neither block nor end the server.
Results are read from the replay report, never from text.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Literal

from rulvar_lsp.edge.reports import REPORT_FOLDER
from rulvar_lsp.edge.warm import Child, WarmRunner

Status = Literal["passed", "failed", "cancelled", "timeout", "error"]
OUTPUT_LIMIT = 64 * 1024
_GRACE_SECONDS = 1.0
_PYTEST_USAGE = 4
_NO_PYTEST = re.compile(r"No module named '?pytest'?(?:\. Did you mean: '\w+'\?)?\s*\Z")
_PYTEST_NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Request:
    """What to run: pytest node ids under a project root, by an interpreter."""

    root: str
    node_ids: tuple[str, ...]
    interpreter: str
    pytest_args: tuple[str, ...] = ()
    timeout_seconds: float = 300.0
    record: bool = False  # calls go out live and replace what the cassette fixture had recorded

    @property
    def report_path(self) -> str:
        """Where the report of these node ids goes; running them again replaces it."""
        name = hashlib.sha256("\n".join(self.node_ids).encode()).hexdigest()[:16]
        return os.path.join(self.root, REPORT_FOLDER, f"{name}.json")

    @property
    def command(self) -> list[str]:
        """The command line; nothing goes through a shell."""
        return [self.interpreter, "-m", "pytest", *self.arguments]

    @property
    def arguments(self) -> list[str]:
        """What pytest is given."""
        return [
            "--rulvar-record=all" if self.record else "--rulvar-replay=strict",
            f"--rulvar-report={self.report_path}",
            "--color=no",
            *self.pytest_args,
            *self.node_ids,
        ]


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended; `output` is the end of what it printed."""

    status: Status
    summary: str
    output: str
    report_path: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Say whether every test passed."""
        return self.status == "passed"


def find_interpreter(
    root: str, setting: str, environ: Mapping[str, str], folder: str | None = None
) -> str | None:
    """Return the project's interpreter: the setting, the project's virtual environment,
    `VIRTUAL_ENV`, then `python3` on PATH. None when there is none.

    A relative setting counts from `root`; `~` and `${workspaceFolder}` (`folder`, else `root`) are put in.
    """
    from shutil import which

    if setting:
        path = os.path.expanduser(setting.replace("${workspaceFolder}", folder or root))
        if os.path.dirname(path):
            return os.path.join(root, path)
        return which(path)
    binary = os.path.join("Scripts", "python.exe") if os.name == "nt" else os.path.join("bin", "python")
    candidates = [os.path.join(root, name, binary) for name in (".venv", "venv")]
    if environ.get("VIRTUAL_ENV"):
        candidates.append(os.path.join(environ["VIRTUAL_ENV"], binary))
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    return which("python3") or which("python")


@dataclass(slots=True)
class Run:
    """A run that is going on; through a warm runner where there is one."""

    request: Request
    warm: WarmRunner | None = None
    process: Child | None = None
    stopped: Literal["cancelled", "timeout"] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> None:
        """Stop the run; safe at any time."""
        if self.stopped is None:
            self.stopped = "cancelled"
        self._stop.set()

    async def finish(self, tick: Callable[[float], None] = lambda seconds: None) -> Result:
        """Run to the end and return how it went; never raises for what the child does."""
        from tempfile import NamedTemporaryFile

        request = self.request
        started = time.monotonic()
        with NamedTemporaryFile(prefix="rulvar-run-") as output:
            try:
                make_cache_folder(os.path.dirname(request.report_path))
                self.process = await self._started(output)
            except OSError as error:
                what = error.strerror or str(error)
                text = f"{request.interpreter} cannot be started: {what}"
                return self._result("error", text, "", started)
            if self.process is None:
                return self._read_result(output, started)
            try:
                await self._wait(started, tick)
            finally:
                self.kill()
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(self.process.wait(), _GRACE_SECONDS)
            return self._read_result(output, started)

    async def _started(self, output: IO[bytes]) -> Child | None:
        """The child; None where the run was stopped before there was one: an interpreter may hang, too."""
        starting = asyncio.ensure_future(self._start(output))
        stop = asyncio.ensure_future(self._stop.wait())
        limit = self.request.timeout_seconds
        try:
            await asyncio.wait({starting, stop}, timeout=limit, return_when="FIRST_COMPLETED")
            if starting.done():
                return starting.result()
            self.stopped = self.stopped or "timeout"
            return None
        finally:
            stop.cancel()
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})

    async def _start(self, output: IO[bytes]) -> Child:
        if self.warm is not None:
            child = await self.warm.start_run(self.request.arguments, output.name)
            if child is not None:
                return child
        return await asyncio.create_subprocess_exec(
            *self.request.command,
            cwd=self.request.root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=child_environment(os.environ),
        )

    async def _wait(self, started: float, tick: Callable[[float], None]) -> None:
        assert self.process is not None
        ended = asyncio.ensure_future(self.process.wait())
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            while not ended.done() and not stop.done():
                seconds = time.monotonic() - started
                if seconds > self.request.timeout_seconds:
                    self.stopped = "timeout"
                    break
                await asyncio.wait({ended, stop}, timeout=0.5, return_when="FIRST_COMPLETED")
                tick(seconds)
            if not ended.done():
                self._signal(signal.SIGTERM)
                await asyncio.wait({ended}, timeout=_GRACE_SECONDS)
        finally:
            stop.cancel()
            ended.cancel()

    def kill(self) -> None:
        """End the child and everything it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _read_result(self, output: IO[bytes], started: float) -> Result:
        text = _tail(output)
        code = self.process.returncode if self.process is not None else None
        if self.stopped == "cancelled":
            return self._result("cancelled", "cancelled", text, started)
        if self.stopped == "timeout":
            limit = f"stopped after {self.request.timeout_seconds:g} s (rulvar.runTimeoutSeconds)"
            return self._result("timeout", limit, text, started)
        if code == 0:
            return self._result("passed", _last_line(text) or "passed", text, started)
        if code == 1 and not _NO_PYTEST.search(text):
            return self._result("failed", _last_line(text) or "failed", text, started)
        return self._result("error", _explain(code, text, self.request.interpreter), text, started)

    def _result(self, status: Status, summary: str, output: str, started: float) -> Result:
        seconds = time.monotonic() - started
        return Result(status, summary, output, self.request.report_path, seconds)


def make_cache_folder(folder: str) -> None:
    """Make a folder below `.rulvar_cache`, which git ignores as it does every tool's cache."""
    os.makedirs(folder, exist_ok=True)
    ignore = os.path.join(os.path.dirname(folder), ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The server's environment without what would tie the child to the server's own Python."""
    dropped = {
        "PYTHONHOME",
        "PYTHONSAFEPATH",
        "PYTHONINSPECT",
        "PYTHONSTARTUP",
        "PYTEST_CURRENT_TEST",
    }
    child = {key: value for key, value in environ.items() if key not in dropped}
    return child | {"PYTHONUNBUFFERED": "1"}


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_LIMIT))
    text = output.read().decode("utf-8", "replace")
    return text if size <= OUTPUT_LIMIT else f"[{size - OUTPUT_LIMIT} bytes left out]\n{text}"


def _last_line(text: str) -> str:
    lines = [line.strip("= ") for line in text.splitlines() if line.strip("= ")]
    return lines[-1] if lines else ""


def _explain(code: int | None, text: str, interpreter: str) -> str:
    """Say what an exit status means and what to do."""
    if "unrecognized arguments: --rulvar" in text or "no such option: --rulvar" in text:
        return (
            f"rulvar is not installed for {interpreter}, which runs the tests; "
            "install it there or set rulvar.interpreter"
        )
    if _NO_PYTEST.search(text):
        return f"pytest is not installed for {interpreter}; install it or set rulvar.interpreter"
    if code == _PYTEST_NO_TESTS:
        return "pytest collected no test here"
    if code == _PYTEST_USAGE:
        return f"pytest refused the command: {_last_line(text)}"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"the test process was ended by {signal.Signals(-code).name}"
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return " ".join(errors[-1:]) or _last_line(text) or f"pytest ended with status {code}"
