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


class WarmRunner:
    """One warm process. Runs one test process at a time."""

    def __init__(self, interpreter: str, root: str, environ: Mapping[str, str]) -> None:
        self._interpreter = interpreter
        self._root = root
        self._environ = dict(environ)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._started: dict[int, asyncio.Future[int]] = {}
        self._ended: dict[int, asyncio.Future[int]] = {}
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
        if self._process is None or self._process.returncode is not None:
            await self._start()
        assert self._process is not None and self._process.stdin is not None
        assert self._ready is not None
        await asyncio.wait_for(asyncio.shield(self._ready), READY_SECONDS)
        loop = asyncio.get_running_loop()
        self._next += 1
        started = self._started[self._next] = loop.create_future()
        ended = self._ended[self._next] = loop.create_future()
        request = {"run": self._next, "args": args, "cwd": self._root, "output": output}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()
        return WarmChild(await asyncio.wait_for(asyncio.shield(started), READY_SECONDS), ended)

    async def _start(self) -> None:
        self._ready = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            self._interpreter,
            "-P",
            SCRIPT,
            cwd=self._root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=self._environ,
        )
        self._reader = asyncio.ensure_future(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(ValueError, TypeError):
                self._take(json.loads(line))
        if process.stdin is not None:
            process.stdin.close()
        gone = ConnectionError("the warm process has left")
        for waiting in (*self._started.values(), self._ready):
            if waiting is not None and not waiting.done():
                waiting.set_exception(gone)
                waiting.exception()
        for ended in self._ended.values():
            if not ended.done():  # it went down with a run
                ended.set_result(-signal.SIGKILL)
        self._started.clear()
        self._ended.clear()
        await process.wait()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("ready") and self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        elif (number := message.get("started")) in self._started:
            self._settle(self._started.pop(number), message.get("pid"))
        elif (number := message.get("ended")) in self._ended:
            self._settle(self._ended.pop(number), message.get("status"))

    @staticmethod
    def _settle(future: asyncio.Future[int], value: Any) -> None:
        if not future.done() and isinstance(value, int):
            future.set_result(value)

    async def close(self) -> None:
        """End the warm process and wait until it is gone."""
        process, reader = self._process, self._reader
        self.stop()
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()
        if reader is not None:
            await reader

    def stop(self) -> None:
        """End the warm process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


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
