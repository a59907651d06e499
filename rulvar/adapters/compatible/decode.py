"""Answers in the Chat Completions dialect. Pure: chunks in, chat events out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.exchange import parse_arguments
from rulvar.adapters.faults import UnusableAnswer
from rulvar.adapters.openai.decode import decode_usage
from rulvar.adapters.openai.faults import stream_fault
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
from rulvar.contracts.usage import ZERO_USAGE, Usage

__all__ = ["ChatDecoder"]

FAMILY = "openai"
_REASONS = {"length": "max-tokens", "tool_calls": "tool-calls", "content_filter": "refusal"}
_USAGE_NAMES = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
_REASONING = ("reasoning_content", "reasoning")


@dataclass(slots=True)
class _OpenCall:
    id: str
    arguments: str = ""


class ChatDecoder:
    """Decodes one answer, patched together from chunks.

    Args:
        ids: of the adapter.
        priced: whether the model has a price; an answer without a usage is then of no use, since it
            would cost nothing.
    """

    def __init__(self, ids: CallIds, *, priced: bool = False) -> None:
        self._ids = ids
        self._priced = priced
        self._calls: dict[int, _OpenCall] = {}
        self._reason: str | None = None
        self._usage: Usage | None = None

    def feed(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Return what one chunk means."""
        error = event.get("error")
        if error:
            facts: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
            yield StreamError(
                error=stream_fault(facts.get("code") or facts.get("type"), facts.get("message"))
            )
            return
        if event.get("usage") is not None:
            self._usage = decode_usage(event["usage"], _USAGE_NAMES)
        choices = event.get("choices")
        if not choices:
            return
        choice = choices[0]
        delta: Mapping[str, Any] = choice.get("delta") or {}
        for name in _REASONING:
            if isinstance(delta.get(name), str) and delta[name]:
                yield ReasoningDelta(text=delta[name])
                break
        content = delta.get("content")
        if content:
            if not isinstance(content, str):
                raise TypeError("content is no text")
            yield TextDelta(text=content)
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if isinstance(choice.get("finish_reason"), str):
            self._reason = choice["finish_reason"]

    def _call(self, call: Mapping[str, Any]) -> Iterator[ChatEvent]:
        function: Mapping[str, Any] = call.get("function") or {}
        index = call.get("index", len(self._calls) if call.get("id") else max(self._calls, default=0))
        opened = self._calls.get(index)
        if opened is None:
            theirs = call.get("id")
            ours = self._ids.ours(theirs) if isinstance(theirs, str) and theirs else self._ids.fresh()
            opened = self._calls[index] = _OpenCall(ours)
            yield ToolCallStart(id=ours, name=str(function.get("name") or ""))
        text = function.get("arguments")
        if isinstance(text, Mapping):
            raise TypeError("arguments are no text")
        if text:
            opened.arguments += text
            yield ToolCallDelta(id=opened.id, args_text_delta=text)

    def end(self) -> Iterable[ChatEvent]:
        """Return the calls and the end; nothing when the stream ended without a reason."""
        if self._reason is None:
            return
        if self._usage is None and self._priced:
            raise UnusableAnswer("it does not say its usage, and its model has a price")
        for call in self._calls.values():
            yield ToolCallEnd(id=call.id, args=parse_arguments(call.arguments))
        usage = self._usage or ZERO_USAGE
        yield UsageUpdate(usage=PartialUsage.from_wire(usage.to_wire()))
        reason: Any = _REASONS.get(self._reason, "stop")
        refusal = Refusal(provider=FAMILY) if reason == "refusal" else None
        yield Finish(
            finish=FinishInfo(reason=reason, refusal=refusal),
            usage=usage,
            provider_metadata={FAMILY: {"degradedPath": "chat"}},
        )

    def next_body(self, body: Mapping[str, Any]) -> None:
        """An answer never goes on in another request."""
        return

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return the chunks of a completion that came in one piece."""
        choices = [{**choice, "delta": choice.get("message") or {}} for choice in answer.get("choices") or ()]
        yield {**answer, "choices": choices}
