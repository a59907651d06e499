"""The command line as processes: in pipes, and on a pseudo-terminal with a person at it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.main import main

SCRIPT = Path(sys.executable).parent / "rulvar"
FLOWS = """
    import asyncio
    from rulvar import Ctx, workflow

    @workflow
    async def hello(ctx):
        return await ctx.step("hi", lambda: "hello")

    @workflow
    async def echo(ctx, args):
        return args

    @workflow
    async def boom(ctx, args):
        raise ValueError("it broke")

    @workflow(name="release")
    async def release(ctx, args):
        notes = await ctx.step("notes", lambda: f"notes for {args['version']}")
        schema = {"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}}
        answer = await ctx.await_external("gate", schema=schema, prompt="Ship it?")
        return {"notes": notes, "approved": answer["approved"]}

    @workflow
    async def slow(ctx, args):
        await ctx.step("quick", lambda: 1)
        ctx.log("info", "it waits")
        await ctx.step("wait", lambda: asyncio.sleep(60))
"""


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


Rulvar = Callable[..., Done]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a few workflows."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "flows.py").write_text(textwrap.dedent(FLOWS))
    return folder


@pytest.fixture(scope="session")
def script() -> Path:
    """The console script."""
    return SCRIPT


@pytest.fixture(scope="session")
def run_in() -> Callable[..., Done]:
    """Runs the script in a folder."""

    def run(folder: Path, *words: str | Path, stdin: str = "", **env: str) -> Done:
        done = subprocess.run(
            [SCRIPT, *map(str, words)],
            input=stdin.encode(),
            cwd=folder,
            env={**clean_environment(), **env},
            capture_output=True,
            timeout=180,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    return run


@pytest.fixture
def rulvar(project: Path, run_in: Callable[..., Done]) -> Rulvar:
    """Runs the script in the project."""

    def run(*words: str | Path, cwd: Path | None = None, stdin: str = "", **env: str) -> Done:
        return run_in(cwd or project, *words, stdin=stdin, **env)

    return run


@pytest.fixture
def look(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rulvar:
    """Calls the script's function in this process: for what ends before a workflow runs."""

    def call(*words: str | Path) -> Done:
        monkeypatch.chdir(project)
        monkeypatch.setattr(sys, "path", list(sys.path))
        before = set(sys.modules)
        capsys.readouterr()
        code = main(list(map(str, words)))
        said = capsys.readouterr()
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and project.parent in Path(file).parents:
                del sys.modules[name]
        return Done(code, said.out, said.err)

    return call


@pytest.fixture
def store(project: Path) -> Store:
    """A store of runs that a test writes line by line."""
    return Store(project / ".rulvar")


class Store:
    """A folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def journal(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.jsonl"

    def meta(self, run_id: str) -> dict[str, Any]:
        meta: dict[str, Any] = json.loads((self.folder / f"{run_id}.meta.json").read_text())
        return meta

    def put(self, run_id: str, *entries: dict[str, Any], meta: dict[str, Any] | None = None) -> None:
        """Write a run; entries get their seqs."""
        lines = [json.dumps({"hashVersion": 2, "seq": seq, **entry}) for seq, entry in enumerate(entries)]
        self.journal(run_id).write_text("".join(f"{line}\n" for line in lines))
        row = {"runId": run_id, "status": "ok", "segments": 1, "workflowName": "w", **(meta or {})}
        row.setdefault("updatedAt", "2026-01-01T00:00:00.000Z")
        (self.folder / f"{run_id}.meta.json").write_text(json.dumps(row))


def opened(kind: str = "step", key: str = "k", scope: str = "", **more: Any) -> dict[str, Any]:
    """An entry that begins an operation."""
    return {
        "scope": scope, "key": key, "ordinal": 0, "kind": kind, "status": "running", "spanId": "s1",
        "startedAt": "2026-01-01T00:00:00.000Z", **more,
    }  # fmt: skip


def closed(ref: int, value: Any = 1, status: str = "ok", **more: Any) -> dict[str, Any]:
    """An entry that ends one."""
    return {
        **opened(),
        "ref": ref,
        "status": status,
        "value": value,
        "endedAt": "2026-01-01T00:00:01.000Z",
        **more,
    }


def settled(status: str = "ok", segment: int = 1, **more: Any) -> dict[str, Any]:
    """An entry that settles a run."""
    value = {"decisionType": "run_settle", "runStatus": status, "segment": segment, **more}
    return {**opened("decision", "settle"), "status": "ok", "value": value}


def waiting(key: str = "gate", **more: Any) -> dict[str, Any]:
    """An entry that waits for an answer."""
    return {**opened("external", key), "status": "suspended", "value": {"key": key, **more}}


@pytest.fixture
def entry() -> Any:
    """What entries of journals are made with."""
    return types.SimpleNamespace(opened=opened, closed=closed, settled=settled, waiting=waiting)


def clean_environment() -> dict[str, str]:
    """The environment without what changes how text is shown."""
    dropped = {"NO_COLOR", "RULVAR_TRACEBACK", "COLUMNS", "LINES"}
    return {**{k: v for k, v in os.environ.items() if k not in dropped}, "TERM": "xterm-256color"}


class Person:
    """Somebody at a pseudo-terminal on which a command runs."""

    def __init__(self, words: Sequence[str | Path], cwd: Path, env: dict[str, str]) -> None:
        try:
            self.fd, slave = pty.openpty()
        except OSError as error:
            pytest.skip(f"this machine gives no pseudo-terminal ({error}): mount devpts")
        self.process = subprocess.Popen(
            [SCRIPT, *map(str, words)],
            cwd=cwd,
            env={**clean_environment(), "COLUMNS": "100", "LINES": "40", **env},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self.seen = ""
        self._read_to = 0

    def expect(self, text: str, seconds: float = 20) -> None:
        """Wait until a text has come that was not expected before."""
        end = time.monotonic() + seconds
        while text not in self.plain[self._read_to :]:
            if not self._read(end):
                raise AssertionError(
                    f"{text!r} did not come; the terminal shows {self.plain[self._read_to :]!r}"
                )
        self._read_to = self.plain.index(text, self._read_to) + len(text)

    def type(self, text: str) -> None:
        """Type keys: a line needs its line feed, Ctrl-C is ``\\x03``, Ctrl-D ``\\x04``."""
        os.write(self.fd, text.encode())

    def wait(self, seconds: float = 20) -> int:
        """Wait for the command's end and return its exit code."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass
        return self.process.wait(max(end - time.monotonic(), 0.1))

    @property
    def plain(self) -> str:
        """What was shown, without the styles and redrawings that the command itself makes."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def leave(self) -> None:
        """Close the terminal."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.fd)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def person(project: Path) -> Iterator[Callable[..., Person]]:
    """Starts the script on a pseudo-terminal."""
    people: list[Person] = []

    def start(*words: str | Path, cwd: Path | None = None, **env: str) -> Person:
        people.append(Person(words, cwd or project, env))
        return people[-1]

    yield start
    for one in people:
        one.leave()


def _heed_signals() -> None:
    """Undo what children inherit from a job in the background, which ignores Ctrl-C, and from nohup."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def signalled(project: Path) -> Callable[..., Done]:
    """Runs the script, and sends it signals once its output holds a text."""

    def run(*words: str, until: str, send: Sequence[int] = (signal.SIGINT,)) -> Done:
        process = subprocess.Popen(
            [SCRIPT, *words],
            cwd=project,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_heed_signals,
        )
        assert process.stderr is not None
        told = b""
        while until.encode() not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        for number in send:
            process.send_signal(number)
            time.sleep(0.3)
        out, err = process.communicate(timeout=120)
        return Done(process.returncode, out.decode(), (told + err).decode())

    return run
