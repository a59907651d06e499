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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def rulvar(project: Path) -> Rulvar:
    """Runs the script in the project."""

    def run(*words: str | Path, stdin: str = "", cwd: Path | None = None, **env: str) -> Done:
        done = subprocess.run(
            [SCRIPT, *map(str, words)],
            input=stdin.encode(),
            cwd=cwd or project,
            env={**clean_environment(), **env},
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    return run


def clean_environment() -> dict[str, str]:
    """The environment without what changes how text is shown."""
    dropped = {"NO_COLOR", "RULVAR_TRACEBACK", "COLUMNS", "LINES"}
    return {**{k: v for k, v in os.environ.items() if k not in dropped}, "TERM": "xterm-256color"}


class Person:
    """Somebody at a pseudo-terminal on which a command runs."""

    def __init__(self, words: Sequence[str | Path], cwd: Path, env: dict[str, str]) -> None:
        self.fd, slave = pty.openpty()
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
        out, err = process.communicate(timeout=30)
        return Done(process.returncode, out.decode(), (told + err).decode())

    return run
