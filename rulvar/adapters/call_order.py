"""The order that the tool calls of an answer keep; an answer that breaks it is a broken stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rulvar.adapters.sse import SseError
from rulvar.contracts.stream import ChatEvent, Finish, ToolCallDelta, ToolCallEnd, ToolCallStart

__all__ = ["CallOrder"]


class CallOrder:
    """Lets the events of one answer pass while each tool call starts once, grows, and ends once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._open: set[str] = set()

    def pass_on(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        """Yield events.

        Raises:
            SseError: one is out of order.
        """
        for event in events:
            if isinstance(event, ToolCallStart):
                if event.id in self._seen or not event.name:
                    raise SseError("a tool call that starts twice, or without a name")
                self._seen.add(event.id)
                self._open.add(event.id)
            elif isinstance(event, ToolCallDelta | ToolCallEnd):
                if event.id not in self._open:
                    raise SseError("a piece of a tool call that is not under way")
                if isinstance(event, ToolCallEnd):
                    self._open.remove(event.id)
            elif isinstance(event, Finish):
                self._check_end(event)
            yield event

    def _check_end(self, event: Finish) -> None:
        """An answer that was cut off may leave a call open; one that is complete may not."""
        if event.finish.reason in ("stop", "tool-calls") and self._open:
            raise SseError("a tool call without its end")
        if event.finish.reason == "tool-calls" and not self._seen:
            raise SseError("an answer that stops for tool calls and has none")
