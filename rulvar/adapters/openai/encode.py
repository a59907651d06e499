"""Requests to the Responses API. Pure: a request in, a body out.

The conversation is sent whole with every request and nothing is kept on the provider's side: a state
there would be none that a replay can find again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rulvar.adapters.call_ids import CallIds
from rulvar.adapters.catalogue import ModelFacts
from rulvar.adapters.images import PDF, data_address, image_base64, image_url
from rulvar.adapters.json_text import arguments_text, result_text
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    ProviderRawPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
)
from rulvar.contracts.strictness import is_strict_compatible
from rulvar.errors import ConfigError

__all__ = ["FAMILY", "encode_request", "is_downmapped", "system_text"]

FAMILY = "openai"
_SAMPLING = ("temperature", "top_p")
_SERVER_STATE = ("previous_response_id", "previousResponseId", "conversation")


def encode_request(
    request: ChatRequest, ids: CallIds, facts: ModelFacts, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a streaming request.

    Args:
        options: the adapter's own among the request's options.

    Raises:
        ConfigError: an option that keeps state on the provider's side, or a part that cannot be sent.
    """
    for name in _SERVER_STATE:
        if options.get(name) is not None:
            raise ConfigError(
                f"providerOptions.openai.{name}: a conversation kept by the provider cannot be replayed; leave it out",
                data={"field": f"providerOptions.openai.{name}"},
            )
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message, ids)],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    instructions = [text for message in request.messages for text in _instructions(message)]
    if instructions:
        body["instructions"] = "\n\n".join(instructions)
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    if request.tools is not None:
        body["tools"] = [
            {
                "type": "function",
                "name": contract.name,
                "description": contract.description,
                "parameters": contract.parameters,
                "strict": is_strict_compatible(contract.parameters),
            }
            for contract in request.tools
        ]
        choice = request.tool_choice
        if choice is not None:
            named = isinstance(choice, ToolChoice)
            body["tool_choice"] = {"type": "function", "name": choice.name} if named else choice  # type: ignore[union-attr]
    if text := _text_options(request, options):
        body["text"] = text
    if (effort := _effort(request, options, facts)) is not None:
        body["reasoning"] = {"effort": effort}
    body.update({name: options[name] for name in _SAMPLING if options.get(name) is not None})
    body["stream"] = True
    return body


def is_downmapped(request: ChatRequest, facts: ModelFacts, options: Mapping[str, Any]) -> bool:
    """Whether the effort ``max`` is sent as ``xhigh``, the highest that the model takes."""
    own = isinstance(options.get("reasoningEffort"), str)
    return request.effort == "max" and not facts.max_effort and not own


def _instructions(message: Msg) -> Iterator[str]:
    if message.role == "system":
        yield from (part.text for part in message.parts if isinstance(part, TextPart))


def system_text(message: Msg) -> str:
    """Return the text of a system message."""
    return "\n\n".join(_instructions(message))


def _items(message: Msg, ids: CallIds) -> Iterator[Any]:
    """Yield the input items of a message: texts and images that stand together are one item."""
    if message.role == "system":
        return
    role = "user" if message.role == "tool" else message.role
    kind = "output_text" if message.role == "assistant" else "input_text"
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append({"type": kind, "text": part.text})
            continue
        if isinstance(part, ImagePart):
            content.append(_media(part))
            continue
        if isinstance(part, ProviderRawPart) and part.provider != FAMILY:
            continue
        if content:
            yield {"role": role, "content": content}
            content = []
        yield _own_item(part, ids)
    if content:
        yield {"role": role, "content": content}


def _own_item(part: ToolCallPart | ToolResultPart | ProviderRawPart, ids: CallIds) -> Any:
    if isinstance(part, ToolCallPart):
        return {
            "type": "function_call",
            "call_id": ids.theirs(part.id),
            "name": part.name,
            "arguments": arguments_text(part.args),
        }
    if isinstance(part, ToolResultPart):
        return {
            "type": "function_call_output",
            "call_id": ids.theirs(part.id),
            "output": result_text(part.result),
        }
    return part.block


def _media(part: ImagePart) -> dict[str, Any]:
    if part.media_type != PDF:
        return {"type": "input_image", "image_url": image_address(part)}
    if (url := image_url(part)) is not None:
        return {"type": "input_file", "file_url": url}
    return {"type": "input_file", "filename": "document.pdf", "file_data": data_address(part)}


def image_address(part: ImagePart) -> str:
    """Return an image as an address: text is one already, bytes become a ``data:`` address."""
    if isinstance(part.data, str):
        return part.data
    return f"data:{part.media_type};base64,{image_base64(part)}"


def _text_options(request: ChatRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if request.schema is not None:
        text["format"] = {
            "type": "json_schema",
            "name": "output",
            "schema": request.schema,
            "strict": is_strict_compatible(request.schema),
        }
    if isinstance(options.get("verbosity"), str):
        text["verbosity"] = options["verbosity"]
    return text


def _effort(request: ChatRequest, options: Mapping[str, Any], facts: ModelFacts) -> str | None:
    own = options.get("reasoningEffort")
    if isinstance(own, str):
        return own
    return "xhigh" if is_downmapped(request, facts, options) else request.effort
