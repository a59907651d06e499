"""A scripted model behind the adapter seam: free, instant, deterministic.

Everything else of a run is real: the engine, the journal, the tools. Token counts are estimated from
the texts, and prices are zero.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.ids import UlidSource
from rulvar.contracts.jsonable import JSON_TYPES, journal_form
from rulvar.contracts.messages import ChatRequest, camel_case
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    FinishInfo,
    StreamError,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    WireError,
)
from rulvar.contracts.usage import Usage
from rulvar.errors import ConfigError
from rulvar.testing.responders import (
    FakeCall,
    FakeToolCalls,
    Responders,
    Script,
    fake_tool_calls,
    fake_wire_error,
)

__all__ = [
    "FAKE_MODEL_REF",
    "FakeAdapter",
    "FakeCall",
    "fake_tool_calls",
    "fake_wire_error",
]

FAKE_ADAPTER_ID = "fake"
FAKE_MODEL_REF = "fake:fake-model"
"""The model reference that routes a call to the scripted model."""

_FAKE_CAPS: dict[str, Any] = {
    "structuredOutput": "native",
    "supportsTemperature": True,
    "supportsParallelTools": True,
    "reasoningEfforts": ["low", "medium", "high", "xhigh", "max"],
    "contextWindow": 1_000_000,
    "maxOutputTokens": 64_000,
    "pricing": {"inputUsdPerMTok": 0, "outputUsdPerMTok": 0},
}
_TOKENS_PER_TOOL_CALL = 8
_FAKE = Served(how="fake")


class FakeAdapter:
    """A provider whose model answers as the test says.

    Args:
        agents: pattern to responder; see :mod:`rulvar.testing.responders`. A pattern is an agent
            type, a label, or a regular expression over the prompt; ``"*"`` is the fallback.
        caps_overrides: capability fields over the fake ones, in snake_case or camelCase.
        id: the adapter id, when a test needs another than ``"fake"``.

    Attributes:
        calls: every request that was served, in order, as :class:`FakeCall`.

    Raises:
        ConfigError: a responder can never be an answer, or an overridden field is unknown or wrong.
    """

    default_model = FAKE_MODEL_REF.partition(":")[2]
    """What an agent asks that is given the adapter itself."""

    def __init__(
        self,
        agents: Mapping[Any, Any] | None = None,
        caps_overrides: Mapping[str, Any] | None = None,
        *,
        id: str = FAKE_ADAPTER_ID,
    ) -> None:
        if not isinstance(id, str) or not id or ":" in id:
            raise ConfigError(f"id: expected a nonempty text without a colon, got {id!r}")
        self.id = id
        self._source: Responders | Script = Responders({} if agents is None else agents)
        self._caps = _overridden(caps_overrides or {})
        self._mint_id = UlidSource().mint
        self.calls: list[FakeCall] = []

    @classmethod
    def sequence(
        cls,
        replies: Sequence[Any],
        caps_overrides: Mapping[str, Any] | None = None,
        *,
        id: str = FAKE_ADAPTER_ID,
    ) -> FakeAdapter:
        """Return an adapter that answers its calls with the replies in order, whoever makes them.

        One call too many raises :class:`~rulvar.errors.FakeResponderError`.

        Raises:
            ConfigError: no list of replies, none in it, or one that can never be an answer.
        """
        if isinstance(replies, (str, bytes, Mapping)) or not isinstance(replies, Iterable):
            raise ConfigError(
                f"replies: expected a list of replies, got {type(replies).__name__}; write [reply], also for one"
            )
        adapter = cls(caps_overrides=caps_overrides, id=id)
        adapter._source = Script(replies, last_repeats=False)
        return adapter

    @property
    def remaining(self) -> int:
        """How many replies of a sequence were not used yet; 0 for patterns."""
        return self._source.remaining if isinstance(self._source, Script) else 0

    def caps(self, model: str) -> ModelCaps:
        """Return the fake capabilities with the overrides, whatever the model."""
        return self._caps

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange. Nothing is served or noted when the signal is set already."""
        return FakeStream(self, request, signal)

    def answer(self, request: ChatRequest) -> tuple[FakeCall, Any]:
        """Note a call and return what answers it.

        Raises:
            FakeResponderError: nothing answers it.
        """
        call = FakeCall.of(request)
        responder = self._source.find(call) if isinstance(self._source, Responders) else self._source
        self.calls.append(call)
        return call, responder

    def tool_call_id(self) -> str:
        """Mint the id of a tool call."""
        return self._mint_id()


class FakeStream:
    """The events of one scripted answer; they are worked out at the first pull."""

    __slots__ = ("_adapter", "_events", "_position", "_request", "_signal")

    served = _FAKE

    def __init__(self, adapter: FakeAdapter, request: ChatRequest, signal: asyncio.Event | None) -> None:
        self._adapter = adapter
        self._request = request
        self._signal = signal
        self._events: list[ChatEvent] | None = None
        self._position = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        if self._signal is not None and self._signal.is_set():
            raise StopAsyncIteration
        events = self._events
        if events is None:
            self._events = events = await self._answer()
            if self._signal is not None and self._signal.is_set():
                raise StopAsyncIteration
        position = self._position
        if position == len(events):
            raise StopAsyncIteration
        self._position = position + 1
        return events[position]

    async def aclose(self) -> None:
        """End the stream."""
        self._events, self._position = [], 0

    async def _answer(self) -> list[ChatEvent]:
        request = self._request
        if not isinstance(request, ChatRequest):
            request = ChatRequest.from_wire(request)
        call, responder = self._adapter.answer(request)
        try:
            reply = await self._reply(call, responder)
            return [] if reply is _ABORTED else answer_events(self._adapter, call, reply)
        except Exception as error:
            if isinstance(responder, Script) and isinstance(error, ConfigError):
                raise  # the script is used up: the test is wrong, not the model
            return [_terminal(error)]

    async def _reply(self, call: FakeCall, responder: Any) -> Any:
        while True:
            if isinstance(responder, Script):
                responder = responder.take()
            elif isinstance(responder, BaseException) or _is_error_class(responder):
                raise responder
            elif callable(responder) and not isinstance(responder, type):
                responder = responder(call)
                if type(responder) not in JSON_TYPES and inspect.isawaitable(responder):
                    responder = await self._wait_for(responder)
                if responder is None:
                    raise TypeError("the responder returned None; return a text, a JSON value or a marker")
                return responder
            else:
                return responder

    async def _wait_for(self, awaitable: Any) -> Any:
        """Wait for an async responder; an abort or a cancellation of the wait cancels it."""
        if self._signal is None:
            return await awaitable
        task = asyncio.ensure_future(awaitable)
        aborted = asyncio.ensure_future(self._signal.wait())
        try:
            await asyncio.wait([task, aborted], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            aborted.cancel()
            if not task.done():
                await _end(task)
        return _ABORTED


_ABORTED = object()
_PATIENCE_S = 1.0
_LEFT_FOR_S = 3600.0


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel a responder and wait until it has ended.

    One that does not heed it is left to itself after a while. The loop holds it from then on: nobody else does, and
    it would be lost pending.
    """
    task.cancel()
    held = task.get_loop().call_later(_LEFT_FOR_S, task.cancel)

    def forget(done: asyncio.Future[Any]) -> None:
        held.cancel()
        if not done.cancelled():
            done.exception()

    task.add_done_callback(forget)
    await asyncio.wait([task], timeout=_PATIENCE_S)


def _is_error_class(responder: Any) -> bool:
    return isinstance(responder, type) and issubclass(responder, BaseException)


def answer_events(adapter: FakeAdapter, call: FakeCall, reply: Any) -> list[ChatEvent]:
    """Return the events that a reply makes of an exchange."""
    if isinstance(reply, WireError):
        return [StreamError(error=reply)]
    if isinstance(reply, FakeToolCalls):
        return _tool_turn(adapter, reply, _usage(call, _TOKENS_PER_TOOL_CALL * len(reply.calls)))
    text = reply if isinstance(reply, str) else _json(reply).decode("utf-8")
    usage = _usage(call, _tokens(text))
    forced = call.forced_tool
    if forced is not None:
        args = _forced_args(text) if isinstance(reply, str) else decode_json(text)
        return _tool_turn(adapter, FakeToolCalls(((forced, args, None),)), usage)
    return [TextDelta(text=text), Finish(finish=FinishInfo(reason="stop"), usage=usage)]


def _tool_turn(adapter: FakeAdapter, reply: FakeToolCalls, usage: Usage) -> list[ChatEvent]:
    events: list[ChatEvent] = []
    for name, args, given_id in reply.calls:
        call_id = given_id or adapter.tool_call_id()
        events += [ToolCallStart(id=call_id, name=name), ToolCallEnd(id=call_id, args=args)]
    events.append(Finish(finish=FinishInfo(reason="tool-calls"), usage=usage))
    return events


def _forced_args(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return {"text": text}


def _json(reply: Any) -> bytes:
    return journal_form(reply, "the fake model's answer")


def _usage(call: FakeCall, output_tokens: int) -> Usage:
    return Usage(
        input_tokens=_tokens(call.prompt),
        output_tokens=output_tokens,
        cache_read_tokens=0,
        cache_write_tokens=0,
    )


def _tokens(text: str) -> int:
    """A quarter of the UTF-16 length, rounded up, at least 1."""
    length = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return max(1, -(-length // 4))


def _terminal(error: BaseException) -> StreamError:
    return StreamError(
        error=WireError(code="agent", message=str(error), retryable=False, data={"kind": "terminal"})
    )


def _overridden(overrides: Mapping[str, Any]) -> ModelCaps:
    if not isinstance(overrides, Mapping):
        raise ConfigError(f"caps_overrides: expected field: value pairs, got {type(overrides).__name__}")
    caps = dict(_FAKE_CAPS)
    for name, value in overrides.items():
        field = camel_case(name)
        if field not in ModelCaps.__struct_encode_fields__:
            known = ", ".join(ModelCaps.__struct_fields__)
            raise ConfigError(f"caps_overrides: unknown field {name!r}; fields are {known}")
        caps[field] = value.to_wire() if hasattr(value, "to_wire") else value
    try:
        return ModelCaps.from_wire(caps)
    except ConfigError as error:
        raise ConfigError(f"caps_overrides: {error.message}") from None
