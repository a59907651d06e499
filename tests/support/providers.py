"""The three providers as tests see them: how each is made, and what each sends for an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopback import Reply, sse

from rulvar.adapters.anthropic import AnthropicAdapter
from rulvar.adapters.compatible import openai_compatible
from rulvar.adapters.openai import OpenAIAdapter

PRICING = {"input_usd_per_m_tok": 0.4, "output_usd_per_m_tok": 1.6}


@dataclass(frozen=True)
class Provider:
    """One provider: its name, and the model that tests ask."""

    name: str
    model: str

    @property
    def reference(self) -> str:
        return f"{self.name}:{self.model}"

    def adapter(self, url: str | None = None, *, key: str = "test-key", **options: Any) -> Any:
        """Return the adapter, for a server at an address or over a transport."""
        caps = options.pop(
            "caps", {"pricing": PRICING, "structured_output": "native", "context_window": 100_000}
        )
        if self.name == "anthropic":
            return AnthropicAdapter(api_key=key, base_url=url, models={self.model: caps}, **options)
        if self.name == "openai":
            base = None if url is None else f"{url}/v1"
            return OpenAIAdapter(api_key=key, base_url=base, models={self.model: caps}, **options)
        return openai_compatible(
            "local", f"{url or 'http://127.0.0.1:1'}/v1", api_key=key, caps=caps, **options
        )

    def text(self, text: str, given: int = 1000, written: int = 500) -> list[dict[str, Any]]:
        """Return the events of a text answer."""
        half = len(text) // 2
        return _TEXT[self.name](text[:half], text[half:], given, written)

    def call(self, name: str, args: Any, call_id: str = "theirs-1") -> list[dict[str, Any]]:
        """Return the events of an answer that calls a tool."""
        return _CALL[self.name](name, json.dumps(args), call_id)

    def said(self, body: Mapping[str, Any]) -> str:
        """Return a request body as text, to look for things in it."""
        return json.dumps(body)


def _anthropic(blocks: list[dict[str, Any]], reason: str, given: int = 1000, written: int = 500) -> list[Any]:
    return [
        {
            "type": "message_start",
            "message": {"id": "msg_1", "usage": {"input_tokens": given, "output_tokens": 1}},
        },
        *blocks,
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": written}},
        {"type": "message_stop"},
    ]


def _anthropic_text(first: str, second: str, given: int, written: int) -> list[Any]:
    blocks = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": first}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": second}},
        {"type": "content_block_stop", "index": 0},
    ]
    return _anthropic(blocks, "end_turn", given, written)


def _anthropic_call(name: str, args: str, call_id: str) -> list[Any]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    blocks = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "signature_delta", "signature": "SIGN"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": start},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": args},
        },
        {"type": "content_block_stop", "index": 1},
    ]
    return _anthropic(blocks, "tool_use")


def _openai_text(first: str, second: str, given: int, written: int) -> list[Any]:
    item = {"type": "message", "content": [{"type": "output_text", "text": first + second}]}
    usage = {"input_tokens": given, "output_tokens": written}
    response = {"id": "resp_1", "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.output_text.delta", "delta": first},
        {"type": "response.output_text.delta", "delta": second},
        {"type": "response.completed", "response": response},
    ]


def _openai_call(name: str, args: str, call_id: str) -> list[Any]:
    item = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": args}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"}
    usage = {"input_tokens": 1000, "output_tokens": 500}
    response = {"id": "resp_1", "status": "completed", "output": [reasoning, item], "usage": usage}
    return [
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.added", "output_index": 1, "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": args},
        {"type": "response.output_item.done", "output_index": 1, "item": item},
        {"type": "response.completed", "response": response},
    ]


def _chat_text(first: str, second: str, given: int, written: int) -> list[Any]:
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": first}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": second}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": written}},
    ]


def _chat_call(name: str, args: str, call_id: str) -> list[Any]:
    half = len(args) // 2
    begun = {
        "index": 0,
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": args[:half]},
    }
    more = {"index": 0, "function": {"arguments": args[half:]}}
    return [
        {"choices": [{"index": 0, "delta": {"tool_calls": [begun]}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [more]}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 500}},
    ]


_TEXT: dict[str, Any] = {"anthropic": _anthropic_text, "openai": _openai_text, "local": _chat_text}
_CALL: dict[str, Any] = {"anthropic": _anthropic_call, "openai": _openai_call, "local": _chat_call}

PROVIDERS = (
    Provider("anthropic", "claude-sonnet-5"),
    Provider("openai", "gpt-5.4"),
    Provider("local", "some-model"),
)


def streamed(events: list[dict[str, Any]]) -> Reply:
    """Return a well-formed event stream."""
    return Reply(pieces=sse(*events))
