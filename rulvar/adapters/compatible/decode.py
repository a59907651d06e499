"""Answers in the Chat Completions dialect. Pure: chunks in, chat events out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.exchange import parse_arguments
from rulvar.adapters.faults import UnusableAnswer
from rulvar.adapters.openai.decode import decode_cache
from rulvar.adapters.openai.faults import chunk_fault
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
from rulvar.contracts.usage import ZERO_USAGE, Usage

__all__ = ["ChatDecoder"]

FAMILY = "openai"
_REASONS = {"length": "max-tokens", "tool_calls": "tool-calls", "content_filter": "refusal"}
_REASONING = ("reasoning_content", "reasoning")


@dataclass(slots=True)
class _OpenCall:
    id: str
    theirs: str | None
    name: str = ""
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
        self._calls: list[_OpenCall] = []
        self._numbered: dict[int, _OpenCall] = {}
        self._refused = False
        self._reason: str | None = None
        self._usage: Usage | None = None

    def feed(self, event: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Return what one chunk means."""
        if event.get("error"):
            yield StreamError(error=chunk_fault(event["error"]))
            return
        if event.get("usage") is not None:
            self._usage = self._decode_usage(event["usage"])
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
        self._refused = self._refused or bool(delta.get("refusal"))
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if isinstance(choice.get("finish_reason"), str):
            self._reason = choice["finish_reason"]

    def _decode_usage(self, raw: Any) -> Usage:
        if self._priced:
            require_counts(raw, "prompt_tokens", "completion_tokens")
        raw = raw if isinstance(raw, Mapping) else {}
        given = number_of(raw, "prompt_tokens")
        return whole_usage(
            {
                "inputTokens": given,
                "outputTokens": number_of(raw, "completion_tokens"),
                **decode_cache(raw.get("prompt_tokens_details"), given),
            }
        )

    def _call(self, piece: Mapping[str, Any]) -> Iterator[ChatEvent]:
        function: Mapping[str, Any] = piece.get("function") or {}
        index, name, text = piece.get("index"), function.get("name"), function.get("arguments")
        theirs = piece["id"] if isinstance(piece.get("id"), str) and piece["id"] else None
        if isinstance(text, Mapping):
            raise TypeError("arguments are no text")
        call = self._under_way(index, theirs, name)
        if call is None:
            call = _OpenCall(self._ids.begin(theirs), theirs)
            self._calls.append(call)
            if index is not None:
                self._numbered[index] = call
        call.arguments += text or ""
        if call.name:
            if text:
                yield ToolCallDelta(id=call.id, args_text_delta=text)
        elif name:  # a call is told once its name is known
            call.name = str(name)
            yield ToolCallStart(id=call.id, name=call.name)
            if call.arguments:
                yield ToolCallDelta(id=call.id, args_text_delta=call.arguments)

    def _under_way(self, index: Any, theirs: str | None, name: Any) -> _OpenCall | None:
        """Return the call that a piece goes on with, None when it begins one.

        Endpoints differ: some number all calls of an answer alike, some number none, some give no ids.
        """
        if index is not None:
            call = self._numbered.get(index)
            is_other = call is not None and name and theirs is not None and theirs != call.theirs
            return None if is_other else call
        if theirs is not None:
            return next((call for call in self._calls if call.theirs == theirs), None)
        return self._calls[-1] if self._calls and not name else None

    def end(self) -> Iterator[ChatEvent]:
        """Return the calls and the end; nothing when the stream ended without a reason."""
        if self._reason is None:
            if self._usage is not None:  # an answer that broke off may have been paid for
                yield UsageUpdate(usage=PartialUsage.from_wire(self._usage.to_wire()))
            return
        if self._usage is None and self._priced:
            raise UnusableAnswer("it does not say its usage, and its model has a price")
        for call in self._calls:
            if not call.name:
                raise TypeError("a call without a name")
            yield ToolCallEnd(id=call.id, args=parse_arguments(call.arguments))
        usage = self._usage or ZERO_USAGE
        yield UsageUpdate(usage=PartialUsage.from_wire(usage.to_wire()))
        reason: Any = "refusal" if self._refused else _REASONS.get(self._reason, "stop")
        refusal = Refusal(provider=FAMILY) if reason == "refusal" else None
        yield Finish(
            finish=FinishInfo(reason=reason, refusal=refusal),
            usage=usage,
            provider_metadata={FAMILY: {"degradedPath": "chat"}},
        )

    @property
    def earlier_requests(self) -> None:
        """An answer is one request."""
        return

    def next_body(self, body: Mapping[str, Any]) -> None:
        """An answer never goes on in another request."""
        return

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return the chunks of a completion that came in one piece."""
        choices = [{**choice, "delta": _numbered(choice)} for choice in answer.get("choices") or ()]
        yield {**answer, "choices": choices}


def _numbered(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a choice, its calls numbered as the pieces of a stream are."""
    message = dict(choice.get("message") or {})
    if message.get("tool_calls"):
        calls = enumerate(message["tool_calls"])
        message["tool_calls"] = [{**call, "index": number} for number, call in calls]
    return message
