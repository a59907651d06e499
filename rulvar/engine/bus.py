"""The event bus of a run: keeps the complete stream, and hands events to listeners."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from rulvar.contracts.events import Event
from rulvar.contracts.ports.clock import Clock, iso_ms
from rulvar.contracts.redaction import Redactor
from rulvar.errors import ConfigError

__all__ = ["EventBus"]

Listener = Callable[[Event], None]
_ITEMS = 6
_LOG = logging.getLogger("rulvar")


class EventBus:
    """Events of one handle, in order and without gaps, however late a reader comes.

    Credentials in an event's texts are masked when it is read. Emitting never waits and never raises: a listener that throws is cut off, and the
    logger ``rulvar`` is told.
    """

    def __init__(self, run_id: str, first_seq: int, clock: Clock) -> None:
        self._run_id = run_id
        self._first_seq = first_seq
        self._clock = clock
        self._raw: list[
            Any
        ] = []  # six items per event: an object for each would be looked at by every collection
        self._redactor = Redactor()
        self._listeners: list[tuple[str, Listener]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    def emit(
        self, type_: str, span: str, parent: str | None, fields: dict[str, Any], replayed: bool = False
    ) -> None:
        """Add an event; ``fields`` are the wire names of its own fields."""
        self._raw += (type_, self._clock.now_ms(), span, parent, replayed, fields)
        if self._listeners:
            self._notify(type_)
        if self._waiting:
            self._wake()

    @property
    def run_id(self) -> str:
        """The run whose events these are."""
        return self._run_id

    def close(self) -> None:
        """End the stream: readers finish once they have seen everything."""
        self._closed = True
        self._wake()

    def subscribe(self, type_: str, callback: Listener) -> Callable[[], None]:
        """Call back for every event of a type from now on (``"*"``: of any type).

        Raises:
            ConfigError: the callback is no plain function.
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise ConfigError(
                f"a listener to {type_!r}: expected a plain function of the event; to await something, read the "
                "events in a task: async for event in run.events",
                data={"field": "callback"},
            )
        item = (type_, callback)
        self._listeners.append(item)

        def unsubscribe() -> None:
            if item in self._listeners:
                self._listeners.remove(item)

        return unsubscribe

    def seen(self) -> list[Event]:
        """Return the events so far."""
        return [self._event(index) for index in range(self._count())]

    async def stream(self) -> AsyncIterator[Event]:
        """Yield every event from the first to the last, waiting for those to come."""
        index = 0
        while True:
            while index < self._count():
                yield self._event(index)
                index += 1
            if self._closed:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _count(self) -> int:
        return len(self._raw) // _ITEMS

    def _event(self, index: int) -> Event:
        type_, now_ms, span, parent, replayed, fields = self._raw[index * _ITEMS : (index + 1) * _ITEMS]
        wire: dict[str, Any] = {
            "runId": self._run_id,
            "seq": self._first_seq + index,
            "ts": iso_ms(now_ms),
            "spanId": span,
        }
        if parent is not None:
            wire["parentSpanId"] = parent
        if replayed:
            wire["replayed"] = True
        wire["type"] = type_
        wire.update(self._redactor.redact(fields).value)
        return Event(wire)

    def _notify(self, type_: str) -> None:
        event = self._event(self._count() - 1)
        for item in list(self._listeners):
            wanted, callback = item
            if wanted in (type_, "*"):
                try:
                    callback(event)
                except Exception as error:  # a listener's fault must not reach the run
                    _LOG.warning(
                        "a listener to %s of run %s failed, and is not called again",
                        wanted,
                        self._run_id,
                        exc_info=error,
                    )
                    if item in self._listeners:
                        self._listeners.remove(item)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
