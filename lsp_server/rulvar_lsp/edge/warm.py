"""Warm runners: a process per interpreter and project that has imported what a test run needs.

A run that goes through one is a forked process of its own and is stopped like any other. Whatever goes wrong
with the warm process, the run is started cold instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

logger = logging.getLogger(__name__)

SCRIPT = str(Path(__file__).with_name("warm_child.py"))
READY_SECONDS = 30.0
MOST_RUNNERS = 2


class Child(Protocol):
    """A running test process."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def wait(self) -> int: ...


class WarmChild:
    """A forked run: known by its pid, ended when the warm process says so."""

    def __init__(self, pid: int, ended: asyncio.Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        """The exit code, None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the end."""
        return await asyncio.shield(self._ended)


class WarmProcess:
    """One warm process, with what it has been asked and has not answered yet."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._started: dict[int, asyncio.Future[int]] = {}
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, interpreter: str, root: str, environ: Mapping[str, str]) -> WarmProcess:
        """Start one; it is not ready yet."""
        process = await asyncio.create_subprocess_exec(
            interpreter,
            "-P",
            SCRIPT,
            cwd=root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=environ,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None

    async def wait(self) -> None:
        """Wait until it has ended."""
        await self._process.wait()

    async def run(self, number: int, request: Mapping[str, Any]) -> WarmChild:
        """Have it fork a run, once it is ready.

        Raises:
            ConnectionError, OSError, TimeoutError: it has left, or does not answer.
        """
        await asyncio.wait_for(asyncio.shield(self._ready), READY_SECONDS)
        loop = asyncio.get_running_loop()
        started = self._started[number] = loop.create_future()
        ended = self._ended[number] = loop.create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"run": number, **request}).encode() + b"\n")
        await self._process.stdin.drain()
        return WarmChild(await asyncio.wait_for(asyncio.shield(started), READY_SECONDS), ended)

    def stop(self) -> None:
        """End it, with its runs."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it and wait until it is gone."""
        self.stop()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with contextlib.suppress(ValueError, TypeError):
                self._take(json.loads(line))
        if self._process.stdin is not None:
            self._process.stdin.close()
        gone = ConnectionError("the warm process has left")
        unanswered: list[asyncio.Future[Any]] = [*self._started.values(), self._ready]
        for waiting in unanswered:
            if not waiting.done():
                waiting.set_exception(gone)
                waiting.exception()
        for ended in self._ended.values():
            if not ended.done():  # it went down with a run
                ended.set_result(-signal.SIGKILL)
        await self.wait()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("ready") and not self._ready.done():
            self._ready.set_result(None)
        elif (number := message.get("started")) in self._started:
            _settle(self._started.pop(number), message.get("pid"))
        elif (number := message.get("ended")) in self._ended:
            _settle(self._ended.pop(number), message.get("status"))


def _settle(future: asyncio.Future[int], value: Any) -> None:
    if not future.done() and isinstance(value, int):
        future.set_result(value)


class WarmRunner:
    """A warm process at a time. Runs one test process at a time."""

    def __init__(self, interpreter: str, root: str, environ: Mapping[str, str]) -> None:
        self._interpreter = interpreter
        self._root = root
        self._environ = dict(environ)
        self._process: WarmProcess | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._next = 0
        self.busy = False

    async def start_run(self, args: list[str], output: str) -> WarmChild | None:
        """Fork a run of pytest whose output is appended to a file; None where that does not work."""
        for _ in range(2):  # a process that finds itself out of date leaves; a new one takes its place
            try:
                return await self._start_run(args, output)
            except (OSError, TimeoutError, asyncio.CancelledError, ConnectionError) as error:
                self.stop()
                if isinstance(error, asyncio.CancelledError):
                    raise
                logger.debug("warm runner: %s", error)
        return None

    async def _start_run(self, args: list[str], output: str) -> WarmChild:
        if self._process is None or not self._process.is_alive:
            self._process = await WarmProcess.start(self._interpreter, self._root, self._environ)
        self._next += 1
        return await self._process.run(self._next, {"args": args, "cwd": self._root, "output": output})

    async def close(self) -> None:
        """End the warm process and wait until it is gone, with those that were ended before."""
        self.stop()
        while self._leaving:
            await asyncio.wait(self._leaving)

    def stop(self) -> None:
        """End the warm process. It is waited for, or it would be taken for one that still runs."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()
            leaving = asyncio.ensure_future(process.close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)


class WarmRunners:
    """The warm processes of all projects; the ones least used are ended."""

    def __init__(self) -> None:
        self._runners: dict[tuple[str, str], WarmRunner] = {}

    def take(self, interpreter: str, root: str, environ: Mapping[str, str]) -> WarmRunner | None:
        """The free warm runner of a project; None while it is busy, or where forking is no good idea."""
        if sys.platform != "linux":
            return None
        key = (interpreter, root)
        runner = self._runners.pop(key, None) or WarmRunner(interpreter, root, environ)
        self._runners[key] = runner
        for old in list(self._runners)[:-MOST_RUNNERS]:
            if not self._runners[old].busy:
                self._runners.pop(old).stop()
        return None if runner.busy else runner

    def stop_all(self) -> None:
        """End every warm process."""
        for runner in self._runners.values():
            runner.stop()
        self._runners.clear()
