"""Timeouts: nearly all of them are forgotten long before they are due.

A timer of the event loop costs a handle, a copy of the context and a place in a heap, and more once it is
cancelled. Timeouts of one length come due in the order in which they were set, so a queue of them needs one
timer for its head; setting and forgetting one is then an entry in a dictionary.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextvars import Context
from functools import partial
from weakref import WeakKeyDictionary

__all__ = ["Later", "Timers"]

Callback = Callable[[], object]
Later = Callable[[float, Callback], Callable[[], object]]


class Timers:
    """Calls back after a time, on the clock of the event loop that is running.

    One object serves any number of loops. A timeout holds nothing of the context that it was set in.
    """

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _Queue]] = WeakKeyDictionary()

    def later(self, seconds: float, callback: Callback) -> Callable[[], object]:
        """Call back once that many seconds have passed; return what forgets it, however often it is called."""
        loop = asyncio.get_running_loop()
        queues = self._queues.get(loop)
        if queues is None:
            queues = self._queues[loop] = {}
        queue = queues.get(seconds)
        if queue is None:
            queue = queues[seconds] = _Queue(seconds, queues)
        return queue.add(loop, callback)


class _Queue:
    """Timeouts of one length, in the order in which they come due."""

    __slots__ = ("_due", "_is_armed", "_number", "_others", "_seconds")

    def __init__(self, seconds: float, others: dict[float, _Queue]) -> None:
        self._seconds = seconds
        self._others = others
        self._due: OrderedDict[int, tuple[float, Callback]] = OrderedDict()
        self._number = 0
        self._is_armed = False

    def add(self, loop: asyncio.AbstractEventLoop, callback: Callback) -> Callable[[], object]:
        number = self._number = self._number + 1
        when = loop.time() + self._seconds
        self._due[number] = when, callback
        if not self._is_armed:
            self._arm(loop, when)
        return partial(self._due.pop, number, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._is_armed = True
        # held by its loop alone, and in a context that holds nothing: a run may be over long before it rings
        loop.call_at(when, self._ring, loop, context=Context())

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call back whatever is due and not forgotten by then, and wait for the next one."""
        now = loop.time()
        while self._due:
            number, (when, callback) = next(iter(self._due.items()))
            if when > now:
                self._arm(loop, when)
                return
            del self._due[number]
            try:
                callback()
            except BaseException:
                self._arm(loop, now)  # the others come due all the same
                raise
        self._is_armed = False
        self._others.pop(self._seconds, None)
