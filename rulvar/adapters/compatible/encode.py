"""Requests in the Chat Completions dialect. Pure: a request in, a body out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.images import PDF, data_address
from rulvar.adapters.json_text import arguments_text, result_text
from rulvar.adapters.namespace import own_options
from rulvar.adapters.openai.encode import system_text
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
)
from rulvar.contracts.strictness import is_strict_compatible

__all__ = ["encode_request"]

_OPTIONS = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")


def encode_request(request: ChatRequest, ids: CallIds, caps: ModelCaps, namespace: str) -> dict[str, Any]:
    """Return the body of a streaming request.

    Args:
        namespace: the adapter's id; its own provider options stand under it.

    Raises:
        ConfigError: a part that cannot be sent.
    """
    options = own_options(request, namespace)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [item for message in request.messages for item in _messages(message, ids)],
    }
    if request.max_output_tokens is not None:
        body["max_completion_tokens"] = request.max_output_tokens
    if request.stop_sequences is not None:
        body["stop"] = list(request.stop_sequences)
    if request.tools is not None:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": contract.name,
                    "description": contract.description,
                    "parameters": contract.parameters,
                    "strict": is_strict_compatible(contract.parameters),
                },
            }
            for contract in request.tools
        ]
        choice = request.tool_choice
        if isinstance(choice, ToolChoice):
            body["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        elif choice in ("required", "none"):  # "auto" is the dialect's default
            body["tool_choice"] = choice
    if request.schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": "output",
                "schema": request.schema,
                "strict": is_strict_compatible(request.schema),
            },
        }
    if request.effort is not None and request.effort in caps.reasoning_efforts:
        body["reasoning_effort"] = request.effort
    body.update({name: options[name] for name in _OPTIONS if options.get(name) is not None})
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def _messages(message: Msg, ids: CallIds) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        yield {"role": "system", "content": system_text(message)}
    elif message.role == "assistant":
        yield _assistant(message, ids)
    elif any(isinstance(part, ImagePart) for part in message.parts):
        yield from _results(message, ids)
        yield {"role": "user", "content": list(_content(message))}
    else:
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                yield _result(part, ids)
            elif isinstance(part, TextPart):
                yield {"role": "user", "content": part.text}


def _assistant(message: Msg, ids: CallIds) -> dict[str, Any]:
    item: dict[str, Any] = {"role": "assistant"}
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": ids.theirs(part.id),
            "type": "function",
            "function": {"name": part.name, "arguments": arguments_text(part.args)},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    if text:
        item["content"] = text
    if calls:
        item["tool_calls"] = calls
    return item


def _results(message: Msg, ids: CallIds) -> Iterator[dict[str, Any]]:
    yield from (_result(part, ids) for part in message.parts if isinstance(part, ToolResultPart))


def _result(part: ToolResultPart, ids: CallIds) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ids.theirs(part.id), "content": result_text(part.result)}


def _content(message: Msg) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.text}
        elif isinstance(part, ImagePart):
            yield _media(part)


def _media(part: ImagePart) -> dict[str, Any]:
    if part.media_type == PDF:
        return {"type": "file", "file": {"filename": "document.pdf", "file_data": data_address(part)}}
    return {"type": "image_url", "image_url": {"url": data_address(part)}}
