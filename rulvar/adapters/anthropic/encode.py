"""Requests to the Messages API. Pure: a request in, a body out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.catalogue import ModelFacts
from rulvar.adapters.images import PDF, image_base64, image_url
from rulvar.adapters.json_text import result_text
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    Part,
    ProviderRawPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolContract,
    ToolResultPart,
)
from rulvar.contracts.strictness import is_strict_compatible

__all__ = ["FAMILY", "encode_request"]

FAMILY = "anthropic"
MAX_BREAKPOINTS = 4
_SAMPLING = ("temperature", "top_p", "top_k")
_CHOICES = {"required": "any", "auto": "auto", "none": "none"}
_UNCONSTRAINED = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems"}
)
"""Keywords that constrained decoding refuses; the engine checks answers against the whole schema."""
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMAS = frozenset(
    {
        "items", "prefixItems", "additionalProperties", "additionalItems", "propertyNames", "contains",
        "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
    }
)  # fmt: skip


def encode_request(
    request: ChatRequest, ids: CallIds, facts: ModelFacts, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a streaming request.

    Args:
        options: the adapter's own among the request's options.

    Raises:
        ConfigError: a part that cannot be sent.
    """
    system = [
        {"type": "text", "text": part.text}
        for message in request.messages
        if message.role == "system"
        for part in message.parts
        if isinstance(part, TextPart)
    ]
    most = request.max_output_tokens
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": facts.caps.max_output_tokens if most is None else most,
        "messages": [_message(message, ids) for message in request.messages if message.role != "system"],
    }
    if system:
        body["system"] = system
    if request.stop_sequences is not None:
        body["stop_sequences"] = list(request.stop_sequences)
    if request.tools is not None:
        body["tools"] = [_tool(contract) for contract in request.tools]
        if (choice := _tool_choice(request.tool_choice)) is not None:
            body["tool_choice"] = choice
    if output := _output_config(request, options):
        body["output_config"] = output
    if (thinking := _thinking(options, facts)) is not None:
        body["thinking"] = thinking
    body.update({name: options[name] for name in _SAMPLING if options.get(name) is not None})
    _mark_cache(body, request.cache_hint)
    body["stream"] = True
    return body


def _message(message: Msg, ids: CallIds) -> dict[str, Any]:
    content = [block for part in message.parts if (block := _block(part, ids)) is not None]
    return {"role": "user" if message.role == "tool" else message.role, "content": content}


def _block(part: Part, ids: CallIds) -> Any:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolCallPart):
        arguments = {} if part.args is None else part.args
        return {"type": "tool_use", "id": ids.theirs(part.id), "name": part.name, "input": arguments}
    if isinstance(part, ToolResultPart):
        return {
            "type": "tool_result",
            "tool_use_id": ids.theirs(part.id),
            "content": result_text(part.result),
            **({"is_error": True} if part.is_error else {}),
        }
    if isinstance(part, ImagePart):
        kind = "document" if part.media_type == PDF else "image"
        return {"type": kind, "source": _image_source(part)}
    assert isinstance(part, ProviderRawPart)
    if part.provider != FAMILY:
        return None
    return dict(part.block) if isinstance(part.block, Mapping) else part.block


def _image_source(part: ImagePart) -> dict[str, Any]:
    if (url := image_url(part)) is not None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": part.media_type, "data": image_base64(part)}


def _tool(contract: ToolContract) -> dict[str, Any]:
    strict = is_strict_compatible(contract.parameters)
    tool: dict[str, Any] = {
        "name": contract.name,
        "description": contract.description,
        "input_schema": _constrainable(contract.parameters) if strict else contract.parameters,
    }
    if strict:
        tool["strict"] = True
    return tool


def _tool_choice(choice: Any) -> dict[str, Any] | None:
    if isinstance(choice, ToolChoice):
        return {"type": "tool", "name": choice.name}
    return None if choice is None else {"type": _CHOICES[choice]}


def _output_config(request: ChatRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.effort is not None:
        config["effort"] = request.effort
    if request.schema is not None:
        config["format"] = {"type": "json_schema", "schema": _constrainable(request.schema)}
    if options.get("task_budget") is not None:
        config["task_budget"] = options["task_budget"]
    return config


def _thinking(options: Mapping[str, Any], facts: ModelFacts) -> Any:
    if options.get("thinking") is not None:
        return options["thinking"]
    if not facts.adaptive_thinking:
        return None
    display = options.get("thinkingDisplay")
    return {"type": "adaptive", "display": display} if isinstance(display, str) else {"type": "adaptive"}


def _constrainable(schema: Any) -> Any:
    """Return a schema without the keywords that constrained decoding refuses, at schema positions only."""
    if isinstance(schema, (list, tuple)):
        return [_constrainable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _UNCONSTRAINED:
            continue
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            made[keyword] = {name: _constrainable(item) for name, item in value.items()}
        else:
            made[keyword] = _constrainable(value) if keyword in _SCHEMAS else value
    return made


def _mark_cache(body: dict[str, Any], hint: Any) -> None:
    """Set the cache breakpoints; the deepest four are kept, more are refused by the provider."""
    breakpoints = hint.get("breakpoints") if isinstance(hint, Mapping) else None
    for mark in list(breakpoints or ())[-MAX_BREAKPOINTS:]:
        block = _last_block(body, mark.get("after"))
        if isinstance(block, dict):
            hour = mark.get("ttl") == "1h"
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"} if hour else {"type": "ephemeral"}


def _last_block(body: Mapping[str, Any], place: Any) -> Any:
    """Return the block after which a breakpoint stands; messages are counted without system messages."""
    if isinstance(place, str):
        blocks = body.get(place) if place in ("tools", "system") else None
    else:
        index = place.get("messageIndex") if isinstance(place, Mapping) else None
        messages = body["messages"]
        known = isinstance(index, int) and 0 <= index < len(messages)
        blocks = messages[index]["content"] if known else None
    return blocks[-1] if blocks else None
