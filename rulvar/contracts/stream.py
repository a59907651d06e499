"""What a model answers: the closed vocabulary of chat events, and the errors of the wire.

A stream ends with exactly one terminal event, :class:`Finish` or :class:`StreamError`, and nothing
comes after it. An aborted stream ends promptly without a terminal event.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rulvar.contracts.messages import Tagged, Wire
from rulvar.contracts.usage import Usage

__all__ = [
    "TERMINAL_EVENTS",
    "ChatEvent",
    "Finish",
    "FinishInfo",
    "PartialUsage",
    "ReasoningDelta",
    "Refusal",
    "StreamError",
    "TextDelta",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "UsageUpdate",
    "WireError",
]

FinishReason = Literal["stop", "tool-calls", "max-tokens", "context-window-exceeded", "refusal"]


class WireError(Wire, frozen=True, kw_only=True):
    """A failure as data: ``data.kind`` and ``data.retryAfterMs`` (milliseconds) are conventional."""

    code: str
    message: str
    retryable: bool
    data: dict[str, Any] | None = None


class Refusal(Wire, frozen=True, kw_only=True):
    """Which provider refused, and what it said of the stop."""

    provider: str
    stop_details: dict[str, Any] | None = None


class FinishInfo(Wire, frozen=True, kw_only=True):
    """Why the model stopped."""

    reason: FinishReason
    refusal: Refusal | None = None


class PartialUsage(Wire, frozen=True, kw_only=True):
    """Token counts known so far; every field is optional."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write5m_tokens: int | None = None
    cache_write1h_tokens: int | None = None


class TextDelta(Tagged, frozen=True, kw_only=True, tag_field="type", tag="text-delta"):
    """More text of the answer."""

    text: str


class ReasoningDelta(Tagged, frozen=True, kw_only=True, tag_field="type", tag="reasoning-delta"):
    """More text of the model's reasoning."""

    text: str


class ToolCallStart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="tool-call-start"):
    """The model begins a tool call."""

    id: str
    name: str


class ToolCallDelta(Tagged, frozen=True, kw_only=True, tag_field="type", tag="tool-call-delta"):
    """More text of a tool call's arguments."""

    id: str
    args_text_delta: str


class ToolCallEnd(Tagged, frozen=True, kw_only=True, tag_field="type", tag="tool-call-end"):
    """A tool call is complete; ``args`` is any JSON value, null included."""

    id: str
    args: Any


class UsageUpdate(Tagged, frozen=True, kw_only=True, tag_field="type", tag="usage"):
    """Token counts before the end of the stream."""

    usage: PartialUsage


class Finish(Tagged, frozen=True, kw_only=True, tag_field="type", tag="finish"):
    """The terminal event of an answered call."""

    finish: FinishInfo
    usage: Usage
    provider_metadata: dict[str, Any] | None = None


class StreamError(Tagged, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """The terminal event of a failed call."""

    error: WireError
    provider_metadata: dict[str, Any] | None = None


ChatEvent = (
    TextDelta
    | ReasoningDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | UsageUpdate
    | Finish
    | StreamError
)
TERMINAL_EVENTS = (Finish, StreamError)


def decode_chat_event(wire: Any) -> ChatEvent:
    """Read one chat event from its JSON object.

    Raises:
        msgspec.ValidationError: not an event of the vocabulary; the message names the field path.
    """
    event: ChatEvent = msgspec.convert(wire, ChatEvent)
    return event
