"""A time limit on the engine's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rulvar.contracts.ports.clock import Clock
from rulvar.errors import ControlFlow

__all__ = ["Deadline"]


class Deadline:
    """Cancels what runs in its block when the time is up: ``with deadline: await ...``.

    Whatever the block does about its cancellation, it is over then: an exception that it raises is
    dropped. ``expired`` tells afterwards. A cancellation from outside passes through.

    Args:
        seconds: None is no limit.
        is_idle: asked when the time is up; while it is true (a human thinks) the limit starts anew.
    """

    __slots__ = ("_cancelled", "_cancelling", "_clock", "_forget", "_is_idle", "_seconds", "_task", "expired")

    def __init__(
        self, clock: Clock, seconds: float | None, is_idle: Callable[[], bool] | None = None
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._is_idle = is_idle
        self._forget: Callable[[], None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._cancelled = False
        self.expired = False

    def __enter__(self) -> Deadline:
        if self._seconds is not None:
            self._task = asyncio.current_task()
            assert self._task is not None
            self._cancelling = self._task.cancelling()
            self._arm(self._seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._forget is not None:
            self._forget()
        if not self.expired:
            return False
        assert self._task is not None
        cancelled_by_us = self._cancelled and self._task.uncancel() <= self._cancelling
        if kind is None or issubclass(kind, ControlFlow):
            return False
        return cancelled_by_us if issubclass(kind, asyncio.CancelledError) else issubclass(kind, Exception)

    def _arm(self, seconds: float) -> None:
        schedule = getattr(self._clock, "schedule", None)
        if schedule is None:
            self._forget = asyncio.get_running_loop().call_later(seconds, self._expire).cancel
        else:
            self._forget = schedule(seconds, self._expire)

    def _expire(self) -> None:
        assert self._task is not None
        assert self._seconds is not None
        if self._is_idle is not None and self._is_idle():
            self._arm(self._seconds)
            return
        self.expired = True
        if asyncio.current_task() is not self._task:  # a block that moves the clock itself just ends
            self._cancelled = True
            self._task.cancel()
