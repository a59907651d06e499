"""One exchange with a provider over HTTP: open it, read its events, end it exactly once.

The parts that know a provider are pure: an :class:`AnswerDecoder` turns provider events into chat
events. What is here knows only how an exchange can end: with the decoder's terminal event, with a
failure as data, or, when it is aborted, with nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Protocol

import orjson

from rulvar.adapters.call_order import CallOrder
from rulvar.adapters.faults import UnusableAnswer, broken_stream, unusable_answer, without_secrets
from rulvar.adapters.interruption import Interrupted, interruptible
from rulvar.adapters.sse import ServerEvent, SseDecoder, SseError
from rulvar.contracts.canonical import decode_json
from rulvar.contracts.stream import (
    TERMINAL_EVENTS,
    ChatEvent,
    PartialUsage,
    StreamError,
    UsageUpdate,
    WireError,
)
from rulvar.errors import RulvarError

__all__ = ["Answer", "AnswerDecoder", "Exchange", "parse_arguments"]

MAX_WHOLE_ANSWER = 256 * 1024 * 1024
DONE = "[DONE]"
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]{1,60}")
DRAIN_S = 0.25
"""How long the rest of a finished answer is waited for, so that its connection can be used again."""


class AnswerDecoder(Protocol):
    """Turns one provider's events into chat events; pure."""

    def feed(self, event: Mapping[str, Any]) -> Iterable[ChatEvent]:
        """Return what one provider event means.

        Raises:
            UnusableAnswer: the answer is whole and cannot be used.
            KeyError, TypeError, ValueError, AttributeError: the event has not its documented shape.
        """

    def end(self) -> Iterable[ChatEvent]:
        """Return what is left to say when the stream ends; no terminal event when it ended too early."""

    def whole(self, answer: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """Return the events of an answer that came in one piece."""

    @property
    def earlier_requests(self) -> dict[str, Any] | None:
        """Requests that this exchange has made before the one under way: their count and the ids of their answers."""

    def next_body(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the body of the request that continues a paused answer, None when there is none."""


class Answer(Protocol):
    """The part of an SDK's streaming response that is read."""

    @property
    def headers(self) -> Any:
        """Response headers."""

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""


Opening = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[Any]]
Fault = Callable[[BaseException], WireError | None]


class Exchange:
    """The chat events of one exchange; iterate once.

    Args:
        build: makes the request body; nothing is sent when it refuses.
        opening: sends a body and gives the response.
        decoder: of this exchange alone.
        fault: what an exception of the SDK or its HTTP client means; None when it is none of theirs.
        signal: set to abort; the iterator then ends promptly without a terminal event.
        secrets: gives the texts that no provider may tell back.
    """

    __slots__ = (
        "_build",
        "_decoder",
        "_events",
        "_fault",
        "_heard",
        "_kind",
        "_opening",
        "_secrets",
        "_signal",
    )

    def __init__(
        self,
        build: Callable[[], Mapping[str, Any]],
        opening: Opening,
        decoder: AnswerDecoder,
        fault: Fault,
        signal: asyncio.Event | None,
        secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._build = build
        self._opening = opening
        self._decoder = decoder
        self._fault = fault
        self._signal = signal
        self._secrets = secrets
        self._kind, self._heard = "", False
        self._events = self._run()

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """End the exchange and give its connection back."""
        await self._events.aclose()

    @property
    def _aborted(self) -> bool:
        return self._signal is not None and self._signal.is_set()

    async def _run(self) -> AsyncGenerator[ChatEvent, None]:
        if self._aborted:
            return
        try:
            body: Mapping[str, Any] | None = self._build()
        except RulvarError as error:
            yield StreamError(error=_unsent(error))
            return
        while body is not None:
            terminal: ChatEvent | None = None
            async with aclosing(self._piece(body)) as events:
                async for event in events:
                    if isinstance(event, TERMINAL_EVENTS):
                        terminal = self._ended(event)  # told once the connection is given back
                        break
                    yield event
            if self._aborted:
                return
            body = None if terminal is not None else self._decoder.next_body(body)
            if body is None:
                yield terminal or self._ended(StreamError(error=self._early_end()))

    def _early_end(self) -> WireError:
        kind = self._kind.partition(";")[0].strip().lower()
        if self._heard or kind == "text/event-stream" or not _MEDIA_TYPE.fullmatch(kind):
            return broken_stream("it ended before the answer did")
        told = f"it is {kind} and no event stream; is base_url= the address of the API?"
        return broken_stream(told, is_unreadable=True)

    def _ended(self, event: ChatEvent) -> ChatEvent:
        """Mask the secrets in a failure that came inside the answer; name the requests that came before it."""
        if not isinstance(event, StreamError):
            return event
        error, data = event.error, event.error.data
        text = without_secrets(error.message, self._secrets())
        if (earlier := self._decoder.earlier_requests) is not None:
            data = {**(data or {}), "wireRequests": earlier}
        wire = WireError(code=error.code, message=text, retryable=error.retryable, data=data)
        return StreamError(error=wire, provider_metadata=event.provider_metadata)

    async def _piece(self, body: Mapping[str, Any]) -> AsyncGenerator[ChatEvent, None]:
        """Yield the events of one request; a failure is a terminal event."""
        manager = self._opening(body)
        try:
            answer = await interruptible(manager.__aenter__(), self._signal)
        except Interrupted:
            return
        except Exception as error:
            yield self._failed(error)
            return
        try:
            async with aclosing(self._read(answer)) as events:
                async for event in events:
                    yield event
        finally:
            await manager.__aexit__(None, None, None)

    async def _read(self, answer: Answer) -> AsyncGenerator[ChatEvent, None]:
        chunks = aiter(answer.iter_bytes())
        try:
            async with aclosing(self._decode(answer, chunks)) as events:
                async for event in events:
                    yield event
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    async def _decode(self, answer: Answer, chunks: AsyncIterator[bytes]) -> AsyncGenerator[ChatEvent, None]:
        decoder = self._decoder
        self._kind = str(answer.headers.get("content-type") or "")
        whole = "json" in self._kind.lower()
        sse, body, done, order = SseDecoder(), bytearray(), False, CallOrder()
        while not done:
            try:
                chunk: bytes | None = await interruptible(_next(chunks), self._signal)
            except Interrupted:
                return
            except Exception as error:
                yield self._failed(error)
                return
            try:
                if whole and chunk is not None:
                    body += _bounded(chunk, len(body))
                    continue
                if whole:
                    provider_events: Iterable[Mapping[str, Any]] = decoder.whole(_object(bytes(body)))
                    done = True
                elif chunk is None:
                    provider_events, done = (), True
                else:
                    provider_events = _decoded(sse.feed(chunk))
                for provider_event in provider_events:
                    if provider_event is _END:
                        done = True
                        break
                    self._heard = True
                    for event in order.pass_on(decoder.feed(provider_event)):
                        if isinstance(event, TERMINAL_EVENTS):
                            await _drain(chunks)
                        yield event
                if done:
                    for event in order.pass_on(decoder.end()):
                        yield event
            except UnusableAnswer as error:
                if error.usage is not None:
                    yield UsageUpdate(usage=PartialUsage.from_wire(error.usage.to_wire()))
                yield unusable_answer(str(error))
                return
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                yield StreamError(error=broken_stream(_shape_of(error), is_unreadable=True))
                return

    def _failed(self, error: Exception) -> StreamError:
        wire = self._fault(error)
        if wire is None:
            raise error
        return StreamError(error=wire)


_END: Mapping[str, Any] = {}


def _decoded(events: Iterable[ServerEvent]) -> Iterable[Mapping[str, Any]]:
    for event in events:
        if event.data.strip() == DONE:
            yield _END
            return
        value = _object(event.data.encode("utf-8", "surrogatepass"))
        yield {**value, "type": event.name} if event.name and "type" not in value else value


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Return the next chunk, None at the end."""
    return await anext(chunks, None)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass


def _bounded(chunk: bytes, have: int) -> bytes:
    if have + len(chunk) > MAX_WHOLE_ANSWER:
        raise SseError(f"an answer of more than {MAX_WHOLE_ANSWER} bytes")
    return chunk


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = decode_json(data)
    if not isinstance(value, dict):
        raise SseError("an event that is no JSON object")
    return value


def _shape_of(error: BaseException) -> str:
    """Say what is wrong with an event without quoting it: it may hold anything."""
    if isinstance(error, SseError):
        return str(error)
    if isinstance(error, orjson.JSONDecodeError) or type(error) is ValueError:
        return "an event that is no JSON"
    return "an event without its documented shape"


def _unsent(error: RulvarError) -> WireError:
    """A request that this provider cannot be sent; the original tells it like a fault of transport."""
    return WireError(code="agent", message=error.message, retryable=True, data={"kind": "transport"})


def parse_arguments(text: str) -> Any:
    """Return a tool call's arguments; a text that is no JSON is kept under ``__unparsed``."""
    if not text:
        return {}
    try:
        return decode_json(text)
    except ValueError:
        return {"__unparsed": text}
