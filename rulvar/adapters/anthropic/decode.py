"""Answers of the Messages API. Pure: provider events in, chat events out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rulvar.adapters.anthropic.encode import FAMILY
from rulvar.adapters.anthropic.faults import stream_fault
from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.exchange import parse_arguments
from rulvar.adapters.faults import UnusableAnswer, broken_stream
from rulvar.adapters.token_counts import is_number, number_of, require_counts, whole_usage
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    FinishInfo,
    PartialUsage,
    ReasoningDelta,
    Refusal,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from rulvar.contracts.usage import Usage, add_usage

__all__ = ["DEFAULT_PAUSES", "MessagesDecoder", "decode_usage"]

DEFAULT_PAUSES = 5
"""How often one answer may pause and be continued."""
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "context-window-exceeded",
    "refusal": "refusal",
}
_RETAINED = ("thinking", "redacted_thinking")
_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
_STOP_DETAILS = ("type", "category", "explanation")


def decode_usage(raw: Mapping[str, Any], *, priced: bool) -> Usage:
    """Return the tokens of a Messages answer.

    The provider counts input without cache reads and writes; ours is the whole prompt. A 5 minute and
    1 hour split that does not add up to the writes is left out.

    Args:
        priced: whether the model has a price; the counts must then be there.

    Raises:
        UnusableAnswer: a count is missing, or is none.
    """
    if priced:
        require_counts(raw, "input_tokens", "output_tokens")
    read, split = number_of(raw, "cache_read_input_tokens"), raw.get("cache_creation")
    five, hour = (number_of(split, name) for name in _WRITES)
    is_split = any(is_number(split, name) for name in _WRITES)
    is_told = is_number(raw, "cache_creation_input_tokens")
    written = number_of(raw, "cache_creation_input_tokens") if is_told else five + hour
    agrees = is_split and five + hour == written
    return whole_usage(
        {
            "inputTokens": number_of(raw, "input_tokens") + read + written,
            "outputTokens": number_of(raw, "output_tokens"),
            "cacheReadTokens": read,
            "cacheWriteTokens": written,
            "cacheWrite5mTokens": five if agrees else None,
            "cacheWrite1hTokens": hour if agrees else None,
        }
    )


@dataclass(slots=True)
class _OpenBlock:
    block: dict[str, Any]
    call_id: str | None = None
    json: str = ""


class MessagesDecoder:
    """Decodes one answer, over the pauses in which the provider hands it out.

    Args:
        ids: of the adapter.
        pauses: how often the answer may be continued.
        priced: whether the model has a price; an answer that does not say its usage is then of no use.
    """

    def __init__(self, ids: CallIds, pauses: int = DEFAULT_PAUSES, *, priced: bool = False) -> None:
        self._ids = ids
        self._pauses = pauses
        self._priced = priced
        self._earlier: Usage | None = None
        self._retained: list[dict[str, Any]] = []
        self._pieces: list[str | None] = []
        self._begin()

    def _begin(self) -> None:
        """Start one piece of the answer."""
        self._raw_usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}
        self._response_id: str | None = None
        self._open: dict[int, _OpenBlock] = {}
        self._content: list[dict[str, Any]] = []
        self._paused = False

    def feed(self, event: Mapping[str, Any]) -> Iterable[ChatEvent]:
        """Return what one event of the stream means."""
        handler = self._HANDLERS.get(event.get("type", ""))
        return () if handler is None else handler(self, event)

    def end(self) -> Iterable[ChatEvent]:
        """Nothing is said at the end: an answer ends with its last event."""
        return ()

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return the events of a message that came in one piece."""
        if answer.get("type") == "error":
            yield answer
            return
        usage = answer.get("usage") or {}
        yield {"type": "message_start", "message": {**answer, "usage": usage}}
        for index, block in enumerate(answer["content"]):
            yield {"type": "content_block_start", "index": index, "content_block": _emptied(block)}
            yield from (
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in _deltas(block)
            )
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": answer, "usage": usage}
        yield {"type": "message_stop"}

    def next_body(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the request that continues a paused answer; the model goes on where it stopped."""
        if not self._paused:
            return None
        partial = {"role": "assistant", "content": self._content}
        self._begin()
        return {**body, "messages": [*body["messages"], partial]}

    @property
    def earlier_requests(self) -> dict[str, Any] | None:
        """The requests whose answers paused; they are paid whatever becomes of the answer."""
        return _requests_of(self._pieces) if self._pieces else None

    # -- events --------------------------------------------------------------------------

    def _start(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        message = event["message"]
        if isinstance(message.get("id"), str):
            self._response_id = message["id"]
        self._raw_usage = dict(_usage_of(message))
        seen = decode_usage(self._raw_usage, priced=False)  # of this piece alone
        yield UsageUpdate(usage=PartialUsage.from_wire(seen.to_wire()))

    def _block_start(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        block = dict(event["content_block"])
        opened = self._open[event["index"]] = _OpenBlock(block)
        if block["type"] == "tool_use":
            opened.call_id = self._ids.begin(_text(block["id"]))
            yield ToolCallStart(id=opened.call_id, name=_text(block["name"]))

    def _block_delta(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        opened, delta = self._open.get(event["index"]), event["delta"]
        if opened is None:
            return
        block, kind = opened.block, delta["type"]
        if kind == "text_delta":
            text = _text(delta["text"])
            block["text"] = f"{block.get('text') or ''}{text}"
            yield TextDelta(text=text)
        elif kind == "thinking_delta":
            text = _text(delta["thinking"])
            block["thinking"] = f"{block.get('thinking') or ''}{text}"
            yield ReasoningDelta(text=text)
        elif kind == "signature_delta":
            block["signature"] = f"{block.get('signature') or ''}{_text(delta['signature'])}"
        elif kind == "input_json_delta":
            text = _text(delta["partial_json"])
            opened.json += text
            if opened.call_id is not None:
                yield ToolCallDelta(id=opened.call_id, args_text_delta=text)

    def _block_stop(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        opened = self._open.pop(event["index"], None)
        if opened is None:
            return
        if opened.json or opened.call_id is not None:
            opened.block["input"] = (
                parse_arguments(opened.json) if opened.json else opened.block.get("input", {})
            )
        self._content.append(opened.block)
        if opened.call_id is not None:
            yield ToolCallEnd(id=opened.call_id, args=opened.block["input"])

    def _message_delta(self, event: Mapping[str, Any]) -> Iterable[ChatEvent]:
        delta, usage = event.get("delta") or {}, _usage_of(event)
        for name in ("stop_reason", "stop_sequence", "stop_details"):
            if delta.get(name) is not None:
                self._stop[name] = delta[name]
        told = {n: v for n, v in usage.items() if is_number(usage, n) or isinstance(v, Mapping)}
        self._raw_usage.update(told)
        return ()

    def _message_stop(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        usage = decode_usage(self._raw_usage, priced=self._priced)
        if self._earlier is not None:
            usage = add_usage(self._earlier, usage)
        self._retained += [block for block in self._content if block.get("type") in _RETAINED]
        if self._stop.get("stop_reason") == "pause_turn":
            self._earlier, self._paused = usage, True
            self._pieces.append(self._response_id)
            if len(self._pieces) > self._pauses:
                told = f"it paused more often than the {self._pauses} times that it is continued"
                yield StreamError(error=broken_stream(told))
            return
        yield Finish(finish=self._finish(), usage=usage, provider_metadata={FAMILY: self._metadata()})

    def _error(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        yield StreamError(error=stream_fault(event.get("error")))

    def _finish(self) -> FinishInfo:
        reason: Any = _REASONS.get(self._stop.get("stop_reason", ""), "stop")
        if reason != "refusal":
            return FinishInfo(reason=reason)
        told, details = self._stop.get("stop_details"), None
        if isinstance(told, Mapping):
            details = {name: told[name] for name in _STOP_DETAILS if isinstance(told.get(name), str)}
        return FinishInfo(reason=reason, refusal=Refusal(provider=FAMILY, stop_details=details))

    def _metadata(self) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        if self._response_id is not None:
            meta["responseId"] = self._response_id
        if self._pieces:
            meta["wireRequests"] = _requests_of([*self._pieces, self._response_id])
        if "stop_sequence" in self._stop:
            meta["stopSequence"] = self._stop["stop_sequence"]
        if self._retained:
            meta["retainedParts"] = self._retained
        return meta

    _HANDLERS: ClassVar[Mapping[str, Callable[..., Iterable[ChatEvent]]]] = {
        "message_start": _start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
        "error": _error,
    }


def _requests_of(pieces: list[str | None]) -> dict[str, Any]:
    return {"count": len(pieces), "responseIds": [name for name in pieces if name is not None]}


def _usage_of(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    usage = holder.get("usage") or {}
    if not isinstance(usage, Mapping):
        raise UnusableAnswer("its usage is no object")
    return usage


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def _emptied(block: Mapping[str, Any]) -> dict[str, Any]:
    empty = {"text": "", "thinking": ""}
    return {name: empty.get(name, value) for name, value in block.items() if name != "signature"}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if isinstance(block.get("text"), str):
        yield {"type": "text_delta", "text": block["text"]}
    if isinstance(block.get("thinking"), str):
        yield {"type": "thinking_delta", "thinking": block["thinking"]}
    if isinstance(block.get("signature"), str):
        yield {"type": "signature_delta", "signature": block["signature"]}
