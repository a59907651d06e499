"""A clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Generator
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["TestClock"]

_MICRO = 1_000_000


class TestClock:
    """An engine clock that stands still until it is told to move.

    Timeouts and retry delays wait for it: ``await clock.wait_for_scheduled()`` until one is armed, then
    ``clock.advance(0.05)``. Nothing really waits.

    Args:
        now: seconds since the epoch at the start.
    """

    __test__ = False

    def __init__(self, now: float = 0.0) -> None:
        self._now = _micros(now, "now")
        self._timers: list[tuple[int, int, _Timer]] = []
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._now / _MICRO

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._now // 1000

    @property
    def scheduled(self) -> int:
        """How many timers are armed."""
        return sum(not timer.is_done for _, _, timer in self._timers)

    def schedule(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once the clock has moved that far; return what forgets it."""
        timer = _Timer(callback)
        due = self._now + max(0, round(seconds * _MICRO))
        heapq.heappush(self._timers, (due, next(self._numbers), timer))
        self._wake()
        return timer.forget

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved that far; no time at all returns at once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = self.schedule(seconds, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            forget()

    def set(self, now: float) -> Moved:
        """Move to a time, and call back whatever is due by then, in the order in which it is due.

        Awaiting what is returned lets everything that was called back run; it need not be awaited.

        Raises:
            ConfigError: the time lies in the past; names both.
        """
        target = _micros(now, "now")
        if target < self._now:
            raise ConfigError(
                f"TestClock.set({now!r}): the clock stands at {self.now()!r} and does not go back",
                data={"field": "now"},
            )
        while self._timers and self._timers[0][0] <= target:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due) if not timer.is_done else self._now
            timer.fire()
        self._now = target
        return Moved()

    def advance(self, seconds: float) -> Moved:
        """Move on by some seconds; see :meth:`set`."""
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds >= 0:
            raise ConfigError(
                f"TestClock.advance({seconds!r}): expected seconds from 0 up", data={"field": "seconds"}
            )
        return self.set((self._now + round(seconds * _MICRO)) / _MICRO)

    async def wait_for_scheduled(self, count: int = 1) -> None:
        """Wait until that many timers are armed."""
        while self.scheduled < count:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((count, future))
            await future

    def _wake(self) -> None:
        if len(self._timers) > 64 and 2 * self.scheduled < len(self._timers):
            self._timers = [item for item in self._timers if not item[2].is_done]
            heapq.heapify(self._timers)
        if not self._waiting:
            return
        armed = self.scheduled
        for count, future in self._waiting:
            if armed >= count and not future.done():
                future.set_result(None)
        self._waiting = [(count, future) for count, future in self._waiting if not future.done()]


class Moved:
    """May be awaited, so that what the clock has called back runs."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        for _ in range(10):
            yield from asyncio.sleep(0).__await__()


class _Timer:
    __slots__ = ("_callback", "is_done")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self.is_done = False

    def forget(self) -> None:
        self.is_done = True

    def fire(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._callback()


def _micros(seconds: Any, field: str) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds - seconds != 0:
        raise ConfigError(
            f"TestClock {field}: expected seconds since the epoch, got {seconds!r}", data={"field": field}
        )
    return round(seconds * _MICRO)
