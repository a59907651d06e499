"""The event loop of a replay: nothing waits for a timer, and what runs in threads ends in any order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

__all__ = ["ReplayLoop"]

_GRACE_S = 0.2
"""How long nothing at all may happen before a replay counts as stuck."""


class ReplayLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when nobody else can move.

    Args:
        lateness: draws how late jobs in threads end; None leaves them alone.

    Attributes:
        is_stuck: whether it was stopped because nothing could happen any more.
    """

    def __init__(self, lateness: random.Random | None = None) -> None:
        self._jump_s = 0.0
        self._jobs = 0
        self._lateness = lateness
        workers = 1 if lateness is None else None  # one thread ends its jobs in order
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="rulvar shake")
        self._stop_stuck: Callable[[], object] | None = None
        self.is_stuck = False
        super().__init__(_Selector(self))
        self.set_exception_handler(lambda loop, context: None)

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return super().time() + self._jump_s

    def on_stuck(self, stop: Callable[[], object]) -> None:
        """Say what ends a replay in which nothing can happen any more."""
        self._stop_stuck = stop

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function in a thread."""
        late_s = 0.0 if self._lateness is None else self._lateness.random() / 100

        def job() -> Any:
            result = func(*args)
            time.sleep(late_s)
            return result

        self._jobs += 1
        future = super().run_in_executor(executor or self._threads, job)
        future.add_done_callback(self._job_ended)
        return future

    def wait_or_jump(self, select: Callable[[float | None], Any], timeout: float | None) -> Any:
        """Wait for I/O and for threads; where there is nothing to wait for, move the clock."""
        events = select(0)
        if events or timeout == 0 or (timeout is not None and timeout < 0):
            return events
        if self._jobs:
            return select(timeout)
        if timeout is not None:
            self._jump_s += timeout
            return events
        events = select(_GRACE_S)
        if not events and self._stop_stuck is not None:
            self.is_stuck = True
            stop, self._stop_stuck = self._stop_stuck, None
            stop()
        return events

    def finish(self) -> None:
        """End what still runs, and close the loop."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(Exception):
            if tasks:
                self.run_until_complete(asyncio.wait(tasks, timeout=1))
            self.run_until_complete(self.shutdown_asyncgens())
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.close()

    def _job_ended(self, future: asyncio.Future[Any]) -> None:
        self._jobs -= 1


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: ReplayLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        return self._loop.wait_or_jump(super().select, timeout)
