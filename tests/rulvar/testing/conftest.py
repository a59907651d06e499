"""Models and requests for tests of the testing tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import pytest

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, Msg
from rulvar.contracts.stream import ChatEvent, Finish, FinishInfo, StreamError, TextDelta, WireError
from rulvar.contracts.usage import Usage

CAPS = ModelCaps(
    structured_output="native",
    supports_temperature=True,
    supports_parallel_tools=True,
    reasoning_efforts=("low", "high"),
    context_window=1000,
    max_output_tokens=100,
)
USAGE = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=0, cache_write_tokens=0)


def ask(text: str = "hi", model: str = "tiny-1", **fields: Any) -> ChatRequest:
    """A request of one user message."""
    return ChatRequest(model=model, messages=(Msg.text("user", text),), **fields)


def finish(usage: Usage = USAGE) -> Finish:
    """A finish event."""
    return Finish(finish=FinishInfo(reason="stop"), usage=usage)


def answer(text: str = "hello") -> list[ChatEvent]:
    """The events of a short answer."""
    return [TextDelta(text=text), finish()]


def failure(message: str = "down") -> list[ChatEvent]:
    """The events of a failed call."""
    return [StreamError(error=WireError(code="agent", message=message, retryable=True))]


class TinyAdapter:
    """A live adapter that plays given streams in order; an exception in a stream is raised there."""

    def __init__(
        self,
        streams: Iterable[Sequence[ChatEvent | BaseException]] = (),
        *,
        id: str = "tiny",
        reply: Callable[[ChatRequest], Sequence[ChatEvent]] | None = None,
        **declared: str,
    ) -> None:
        self.id = id
        self.calls: list[ChatRequest] = []
        self._streams = list(streams)
        self._reply = reply
        for name, value in declared.items():
            setattr(self, name, value)

    def caps(self, model: str) -> ModelCaps:
        return CAPS

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        self.calls.append(request)
        events = self._reply(request) if self._reply else self._streams[len(self.calls) - 1]
        return self._play(events, signal)

    async def _play(
        self, events: Sequence[ChatEvent | BaseException], signal: asyncio.Event | None
    ) -> AsyncIterator[ChatEvent]:
        for event in events:
            await asyncio.sleep(0)
            if signal is not None and signal.is_set():
                return
            if isinstance(event, BaseException):
                raise event
            yield event


async def drain(stream: AsyncIterator[ChatEvent]) -> list[ChatEvent]:
    """Read a stream to its end."""
    return [event async for event in stream]


class Kit:
    """What tests of adapters use."""

    Adapter = TinyAdapter
    ask = staticmethod(ask)
    answer = staticmethod(answer)
    failure = staticmethod(failure)
    finish = staticmethod(finish)
    drain = staticmethod(drain)


@pytest.fixture
def kit() -> type[Kit]:
    """Builders of requests, events and live adapters."""
    return Kit
