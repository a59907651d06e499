"""Answers of the Responses API. Pure: provider events in, chat events out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.exchange import parse_arguments
from rulvar.adapters.openai.encode import FAMILY
from rulvar.adapters.openai.faults import stream_fault
from rulvar.adapters.token_counts import number_of, require_counts, whole_usage
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
from rulvar.contracts.usage import Usage

__all__ = ["ResponsesDecoder", "decode_cache", "decode_usage"]

_CUT = {"max_output_tokens": "max-tokens", "content_filter": "refusal"}


def decode_usage(raw: Any, *, priced: bool) -> Usage:
    """Return the tokens of an answer of the Responses API.

    Args:
        priced: whether the model has a price; the counts must then be there.

    Raises:
        UnusableAnswer: a count is missing, or is none.
    """
    if priced:
        require_counts(raw, "input_tokens", "output_tokens")
    raw = raw if isinstance(raw, Mapping) else {}
    given = number_of(raw, "input_tokens")
    reasoning = number_of(raw.get("output_tokens_details"), "reasoning_tokens")
    return whole_usage(
        {
            "inputTokens": given,
            "outputTokens": number_of(raw, "output_tokens"),
            **decode_cache(raw.get("input_tokens_details"), given),
            "reasoningTokens": reasoning if reasoning > 0 else None,
        }
    )


def decode_cache(details: Any, given: float) -> dict[str, float]:
    """Return how much of the input was read from a cache and how much was written to one.

    Both are parts of the input, which is the whole prompt already; a part that is larger than what it
    is a part of is cut, reads before writes.
    """
    read = min(max(0, number_of(details, "cached_tokens")), max(0, given))
    written = min(max(0, number_of(details, "cache_write_tokens")), max(0, given - read))
    return {"cacheReadTokens": read, "cacheWriteTokens": written}


@dataclass(slots=True)
class _OpenCall:
    id: str
    arguments: str = ""


class ResponsesDecoder:
    """Decodes one answer.

    Args:
        ids: of the adapter.
        downmapped: whether the effort ``max`` was sent as ``xhigh``; the metadata says so.
        priced: whether the model has a price; an answer that does not say its usage is then of no use.
    """

    def __init__(self, ids: CallIds, *, downmapped: bool = False, priced: bool = False) -> None:
        self._ids = ids
        self._priced = priced
        self._downmapped = downmapped
        self._calls: dict[str, _OpenCall] = {}

    def feed(self, event: Mapping[str, Any]) -> Iterable[ChatEvent]:
        """Return what one event of the stream means."""
        handler = self._HANDLERS.get(event.get("type", ""))
        return () if handler is None else handler(self, event)

    def end(self) -> Iterable[ChatEvent]:
        """Nothing is said at the end: an answer ends with its last event."""
        return ()

    @property
    def earlier_requests(self) -> None:
        """An answer is one request."""
        return

    def next_body(self, body: Mapping[str, Any]) -> None:
        """An answer never goes on in another request."""
        return

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return the events of a response that came in one piece."""
        error = answer.get("error")
        if isinstance(error, Mapping) and "status" not in answer:
            yield {"type": "error", **error}
            return
        for index, item in enumerate(answer.get("output") or ()):
            yield {"type": "response.output_item.added", "output_index": index, "item": item}
            for part in item.get("content") or () if item.get("type") == "message" else ():
                if part.get("type") == "output_text":
                    yield {"type": "response.output_text.delta", "delta": part["text"]}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        status = answer.get("status", "completed")
        yield {"type": f"response.{status}", "response": answer}

    # -- events --------------------------------------------------------------------------

    def _item_added(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        item = event["item"]
        if item["type"] != "function_call":
            return
        opened = _OpenCall(self._ids.begin(_text(item.get("call_id") or item["id"])))
        for key in _keys(event):
            self._calls[key] = opened
        yield ToolCallStart(id=opened.id, name=_text(item["name"]))

    def _arguments_delta(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        opened, text = self._call_of(event), _text(event.get("delta"))
        if opened is not None:
            opened.arguments += text
            yield ToolCallDelta(id=opened.id, args_text_delta=text)

    def _item_done(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        item = event["item"]
        if item["type"] == "function_call":
            opened = self._call_of(event)
            if opened is None:
                raise KeyError("a call that never began")
            text = _text(item.get("arguments") or opened.arguments)
            yield ToolCallEnd(id=opened.id, args=parse_arguments(text))

    def _call_of(self, event: Mapping[str, Any]) -> _OpenCall | None:
        return next((self._calls[key] for key in _keys(event) if key in self._calls), None)

    def _text_delta(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        yield TextDelta(text=_text(event.get("delta")))

    def _reasoning_delta(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        yield ReasoningDelta(text=_text(event.get("delta")))

    def _completed(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        response = event.get("response") or {}
        usage = decode_usage(response.get("usage"), priced=self._priced)
        yield UsageUpdate(usage=PartialUsage.from_wire(usage.to_wire()))
        finish = _incomplete(response) if event["type"] == "response.incomplete" else _complete(response)
        yield Finish(finish=finish, usage=usage, provider_metadata={FAMILY: self._metadata(response)})

    def _failed(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        response = event.get("response") or {}
        if isinstance(response.get("usage"), Mapping):  # a failed answer may have been paid for
            usage = decode_usage(response["usage"], priced=False)
            yield UsageUpdate(usage=PartialUsage.from_wire(usage.to_wire()))
        error = response.get("error") or {}
        meta = {"responseId": response["id"]} if isinstance(response.get("id"), str) else {}
        yield StreamError(
            error=stream_fault(error.get("code"), error.get("message")),
            provider_metadata={FAMILY: meta} if meta else None,
        )

    def _error(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        facts = event["error"] if isinstance(event.get("error"), Mapping) else event
        yield StreamError(error=stream_fault(facts.get("code"), facts.get("message")))

    def _metadata(self, response: Mapping[str, Any]) -> dict[str, Any]:
        output = response.get("output") or []
        meta: dict[str, Any] = {"outputItems": output}
        reasoning = [item for item in output if item.get("type") == "reasoning"]
        if reasoning:
            meta["retainedParts"] = reasoning
        if isinstance(response.get("id"), str):
            meta["responseId"] = response["id"]
        if self._downmapped:
            meta["effortDownmapped"] = "max->xhigh"
        return meta

    _HANDLERS: ClassVar[Mapping[str, Callable[..., Iterable[ChatEvent]]]] = {
        "response.output_item.added": _item_added,
        "response.function_call_arguments.delta": _arguments_delta,
        "response.output_item.done": _item_done,
        "response.output_text.delta": _text_delta,
        "response.reasoning_summary_text.delta": _reasoning_delta,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.completed": _completed,
        "response.incomplete": _completed,
        "response.failed": _failed,
        "response.cancelled": _failed,
        "error": _error,
    }


def _complete(response: Mapping[str, Any]) -> FinishInfo:
    output = response.get("output") or []
    parts = [part for item in output if isinstance(item.get("content"), list) for part in item["content"]]
    if any(part.get("type") == "refusal" for part in parts):
        return FinishInfo(reason="refusal", refusal=Refusal(provider=FAMILY))
    called = any(item.get("type") == "function_call" for item in output)
    return FinishInfo(reason="tool-calls" if called else "stop")


def _incomplete(response: Mapping[str, Any]) -> FinishInfo:
    why = str((response.get("incomplete_details") or {}).get("reason"))
    reason: Any = _CUT.get(why, "context-window-exceeded")
    return FinishInfo(reason=reason, refusal=Refusal(provider=FAMILY) if reason == "refusal" else None)


def _keys(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an event names its item by, the surest first: an item's id, its call's id, its place."""
    item: Mapping[str, Any] = event.get("item") or {}
    for kind, value in (
        ("item", event.get("item_id") or item.get("id")),
        ("call", item.get("call_id")),
        ("place", event.get("output_index")),
    ):
        if isinstance(value, (str, int)):
            yield f"{kind}:{value}"


def _text(value: Any) -> str:
    """Return a text; one that is left out is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value
