"""Model turns in a tool fixture: ``replay_tools=["model"]`` makes the models the boundary.

A turn is recorded like a tool call: the id is ``model:<adapter id>``, the arguments are the messages, the
config is what else the model was told, and the data is its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.envelope import ToolEnvelope
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.ports.tools import Handler, ToolCall
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
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.engine import Engine
from rulvar.errors import ReplayDriftError
from rulvar.testing.fixture import FixturePlan
from rulvar.testing.wrapped import start_stream

__all__ = ["BoundEngine", "BoundModel"]

_FIELDS = frozenset({"text", "toolCalls", "finishReason", "usage"})


class BoundEngine(Engine):
    """An engine whose models inside the boundary of a fixture are wrapped, those that agents bring too."""

    def __init__(self, plan: FixturePlan, *, adapters: list[Any], **options: Any) -> None:
        self._plan = plan
        super().__init__(adapters=map(self.wrap_adapter, adapters), **options)

    def wrap_adapter(self, adapter: Adapter) -> Adapter:
        """Return an adapter, wrapped when its turns take part."""
        bound = self._plan.interceptors and self._plan.holds(f"model:{adapter.id}")
        return BoundModel(adapter, self._plan) if bound else adapter


class BoundModel:
    """An adapter whose turns are recorded in, or replayed from, a tool fixture."""

    def __init__(self, adapter: Adapter, plan: FixturePlan) -> None:
        self._adapter = adapter
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)  # what it declares beside: its provider, what a call may cost

    @property
    def id(self) -> str:
        """The wrapped adapter's id."""
        return self._adapter.id

    def caps(self, model: str) -> ModelCaps:
        """Return what the wrapped adapter can do."""
        return self._adapter.caps(model)

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        """Start one exchange; it takes its place in the fixture now."""
        [interceptor] = self._plan.interceptors
        handler: Handler | None = interceptor.intercept(self._call(request))
        if handler is None:
            return start_stream(self._adapter, request, signal)
        return self._events(handler, request, signal)

    def _call(self, request: ChatRequest) -> ToolCall:
        place = CURRENT_PLACE.get()
        wire = request.to_wire()
        messages = wire.get("messages") or []
        config: dict[str, Any] = {"model": request.model}
        instructions = [message for message in messages if message.get("role") == "system"]
        if instructions:
            config["instructions"] = "\n\n".join(_text(message) for message in instructions)
        if wire.get("tools"):
            config["tools"] = wire["tools"]
        if wire.get("schema") is not None:
            config["schema"] = wire["schema"]
        return ToolCall(
            tool_id=f"model:{self.id}",
            args={"messages": [message for message in messages if message.get("role") != "system"]},
            config=config,
            workflow="" if place is None else place.workflow.name,
            transition=None if place is None or place.attempt is None else place.attempt.transition,
            run_id="" if place is None else place.run.run_id,
            scope="" if place is None else place.scope,
        )

    async def _events(
        self, handler: Handler, request: ChatRequest, signal: asyncio.Event | None
    ) -> AsyncIterator[ChatEvent]:
        seen: list[ChatEvent] = []

        async def proceed() -> ToolEnvelope:
            async for event in start_stream(self._adapter, request, signal):
                seen.append(event)
            return _envelope(seen)

        envelope = await handler.handle(proceed)
        for event in seen or _answer(envelope, self.id):
            yield event


def _envelope(events: list[ChatEvent]) -> ToolEnvelope:
    """Return a turn in the form in which a fixture holds it."""
    last = events[-1] if events else None
    if isinstance(last, StreamError):
        return ToolEnvelope(error=last.error.message)
    names = {event.id: event.name for event in events if isinstance(event, ToolCallStart)}
    data: dict[str, Any] = {}
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    if text:
        data["text"] = text
    calls = [
        {"id": event.id, "name": names.get(event.id, ""), "args": event.args}
        for event in events
        if isinstance(event, ToolCallEnd)
    ]
    if calls:
        data["toolCalls"] = calls
    if isinstance(last, Finish):
        data["finishReason"] = last.finish.reason
        data["usage"] = last.usage.to_wire()
    return ToolEnvelope(data=data)


def _answer(envelope: ToolEnvelope, adapter_id: str) -> list[ChatEvent]:
    """Return the events of a recorded turn; a hand-written one may be a text, or leave fields out."""
    if envelope.error is not None:
        data = {"kind": "terminal"}
        error = WireError(code="agent", message=envelope.error, retryable=False, data=data)
        return [StreamError(error=error)]
    turn = {"text": envelope.data} if isinstance(envelope.data, str) else envelope.data
    if not isinstance(turn, Mapping) or not set(turn) <= _FIELDS:
        raise ReplayDriftError(
            f"replay drift: a response of model:{adapter_id} holds a text, or an object with "
            f"{', '.join(sorted(_FIELDS))}; got {decode_json(journal_form(turn, 'response'))!r}",
            data={"tool": f"model:{adapter_id}"},
        )
    events: list[ChatEvent] = []
    if turn.get("text"):
        events.append(TextDelta(text=turn["text"]))
    calls = turn.get("toolCalls") or ()
    for number, call in enumerate(calls):
        call_id = str(call.get("id") or f"call-{number}")
        events.append(ToolCallStart(id=call_id, name=call["name"]))
        events.append(ToolCallEnd(id=call_id, args=call.get("args") or {}))
    reason: Any = turn.get("finishReason") or ("tool-calls" if calls else "stop")
    usage = Usage.from_wire(turn["usage"]) if turn.get("usage") else ZERO_USAGE
    return [*events, Finish(finish=FinishInfo(reason=reason), usage=usage)]


def _text(message: Mapping[str, Any]) -> str:
    parts = message.get("parts") or ()
    return "".join(str(part.get("text", "")) for part in parts)
