"""One exchange with a model: send a request, read the stream to its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.messages import ChatRequest, Part, ProviderRawPart, TextPart, ToolCallPart
from rulvar.contracts.ports.provider import Adapter, Served, served_by
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    StreamError,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
    WireError,
)
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import RulvarError

__all__ = ["Turn", "take_turn"]


@dataclass(slots=True)
class Turn:
    """What one exchange came to; filled while the stream is read, so an abort leaves what was seen."""

    served: Served
    text: str = ""
    tool_calls: list[ToolCallPart] = field(default_factory=list)
    raw: list[ProviderRawPart] = field(default_factory=list)
    usage: Usage = ZERO_USAGE
    usage_is_exact: bool = False
    finish: Finish | None = None
    error: WireError | None = None
    failure: BaseException | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The assistant message's parts: raw blocks, text, tool calls."""
        parts: list[Part] = list(self.raw)
        if self.text:
            parts.append(TextPart(text=self.text))
        parts.extend(self.tool_calls)
        return tuple(parts)


async def take_turn(
    adapter: Adapter, request: ChatRequest, signal: asyncio.Event, turn: Turn, on_event: Any = None
) -> None:
    """Read one exchange into ``turn``; errors of the provider become ``turn.error``.

    Args:
        signal: set to abort the exchange.
        on_event: called with every event, or None.

    Raises:
        asyncio.CancelledError: the call was cancelled while the stream was read.
    """
    names: dict[str, str] = {}
    text: list[str] = []
    try:
        stream = adapter.stream(request, signal)
        turn.served = served_by(stream)
        async for event in stream:
            if on_event is not None:
                on_event(event)
            if turn.finish is not None or turn.error is not None:
                turn.error = _violation("events after the terminal event")
                break
            _read_event(event, turn, text, names)
        turn.served = served_by(stream)
        if turn.finish is None and turn.error is None and not signal.is_set():
            turn.error = _violation("the stream ended without a terminal event")
    except RulvarError as error:
        turn.served = served_by(stream) if "stream" in locals() else turn.served
        turn.failure = error
        turn.error = WireError(
            code=error.code, message=error.message, retryable=error.retryable, data=error.data or None
        )
    except Exception as error:
        turn.failure = error
        turn.error = WireError(
            code="agent",
            message=str(error),
            retryable=False,
            data={"kind": "terminal", "type": type(error).__name__},
        )
    finally:
        turn.text = "".join(text)


def _read_event(event: ChatEvent, turn: Turn, text: list[str], names: dict[str, str]) -> None:
    if isinstance(event, TextDelta):
        text.append(event.text)
    elif isinstance(event, Finish):
        turn.finish = event
        turn.usage = event.usage
        turn.usage_is_exact = True
        _keep_raw_blocks(event, turn)
    elif isinstance(event, ToolCallStart):
        names[event.id] = event.name
    elif isinstance(event, ToolCallEnd):
        turn.tool_calls.append(ToolCallPart(id=event.id, name=names.get(event.id, ""), args=event.args))
    elif isinstance(event, StreamError):
        turn.error = event.error
    elif isinstance(event, UsageUpdate):
        turn.usage = _update(turn.usage, event.usage)


def _keep_raw_blocks(event: Finish, turn: Turn) -> None:
    """Keep a provider's opaque blocks, which must survive the round trip."""
    blocks = (event.provider_metadata or {}).get("rawBlocks")
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and isinstance(block.get("provider"), str):
            turn.raw.append(ProviderRawPart(provider=block["provider"], block=block.get("block")))


def _update(usage: Usage, seen: Any) -> Usage:
    return Usage(
        input_tokens=usage.input_tokens if seen.input_tokens is None else seen.input_tokens,
        output_tokens=usage.output_tokens if seen.output_tokens is None else seen.output_tokens,
        cache_read_tokens=usage.cache_read_tokens
        if seen.cache_read_tokens is None
        else seen.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens
        if seen.cache_write_tokens is None
        else seen.cache_write_tokens,
    )


def _violation(what: str) -> WireError:
    return WireError(
        code="agent",
        message=f"the adapter broke the stream contract: {what}",
        retryable=False,
        data={"kind": "terminal"},
    )
