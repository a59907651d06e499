"""The hash of a request: what a cassette row is found by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rulvar.contracts.canonical import MAX_DEPTH, NeedsExactEncoder, hash_canonical, normal_json, sha256_hex
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Part,
    ProviderRawPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from rulvar.errors import ConfigError, NonSerializableValueError

__all__ = ["TELEMETRY_NAMESPACE", "former_request_hash", "hashed_request", "plain_request", "request_hash"]

TELEMETRY_NAMESPACE = "rulvar"
"""Namespace of ``providerOptions`` that carries telemetry and never changes a hash."""
_BYTES = (bytes, bytearray, memoryview)


def request_hash(request: ChatRequest | Mapping[str, Any]) -> str:
    """Return the lowercase hex SHA-256 of a request's canonical JSON.

    ``cacheHint`` and ``providerOptions.rulvar`` are left out, and so is a ``providerOptions`` that
    is empty without them. Image data may be bytes.

    Raises:
        ConfigError: the request is not an object, or its ``providerOptions`` is null.
        NonSerializableValueError: a value that JSON cannot hold.
    """
    data = _encode_fast(request) if type(request) is ChatRequest else None
    return hash_canonical(hashed_request(request), lenient=True) if data is None else sha256_hex(data)


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def _encode_fast(request: ChatRequest) -> bytes | None:
    """Return the canonical JSON of a request at C speed, or None when a part of it is not plain.

    The fields of a request are plain; what callers put into tool calls, results, schemas and options
    is looked at.
    """
    options = request.provider_options
    try:
        if normal_json(request.max_output_tokens) is not request.max_output_tokens:
            return None
        for message in request.messages:
            for part in message.parts:
                if type(part) is not TextPart and not _is_plain_part(part):
                    return None
        for tool in request.tools or ():
            if normal_json(tool.parameters) is not tool.parameters:
                return None
        if request.schema is not None and normal_json(request.schema) is not request.schema:
            return None
        if options is not None:
            options = normal_json({k: v for k, v in options.items() if k != TELEMETRY_NAMESPACE}) or None
        if options is not None or request.provider_options is not None or request.cache_hint is not None:
            request = msgspec.structs.replace(request, cache_hint=None, provider_options=options)
        return _encode_sorted(request)
    except (NeedsExactEncoder, msgspec.MsgspecError, UnicodeEncodeError, TypeError, OverflowError):
        return None  # a lone surrogate, bytes, a number that is written otherwise


def _is_plain_part(part: Part) -> bool:
    if isinstance(part, ToolCallPart):
        return normal_json(part.args) is part.args
    if isinstance(part, ToolResultPart):
        return normal_json(part.result) is part.result
    if isinstance(part, ProviderRawPart):
        return normal_json(part.block) is part.block
    return isinstance(part, ImagePart) and isinstance(part.data, str)


def former_request_hash(request: ChatRequest | Mapping[str, Any]) -> str | None:
    """Return the hash under which early cassettes hold a request, None when it is today's.

    They counted ``cacheHint`` in; it has been left out since.
    """
    wire = plain_request(request)
    if wire.get("cacheHint") is None:
        return None
    return hash_canonical({**hashed_request(request), "cacheHint": wire["cacheHint"]}, lenient=True)


def plain_request(request: ChatRequest | Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as a JSON object of its own; image bytes are left as they are.

    Raises:
        ConfigError: the request is not an object.
    """
    if isinstance(request, ChatRequest):
        return request.to_wire()
    if isinstance(request, Mapping):
        return dict(request)
    raise ConfigError(f"request: expected an object, got {type(request).__name__}")


def hashed_request(request: ChatRequest | Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a request that its hash covers, as a plain JSON object."""
    if isinstance(request, ChatRequest):
        try:
            wire: dict[str, Any] = msgspec.to_builtins(request, builtin_types=_BYTES)
        except RecursionError:
            problem = f"the request is nested deeper than {MAX_DEPTH} levels"
            raise NonSerializableValueError(problem, data={"path": "$"}) from None
    else:
        wire = plain_request(request)
    wire.pop("cacheHint", None)
    if "providerOptions" in wire:
        options = _members(wire["providerOptions"])
        options.pop(TELEMETRY_NAMESPACE, None)
        if options:
            wire["providerOptions"] = options
        else:
            del wire["providerOptions"]
    return wire


def _members(options: Any) -> dict[str, Any]:
    """Return the members of an options value, reading arrays and text by index."""
    if options is None:
        raise ConfigError("request.providerOptions: expected an object, got null")
    if isinstance(options, Mapping):
        return dict(options)
    if isinstance(options, str):
        units = options.encode("utf-16-be", "surrogatepass")
        options = [units[i : i + 2].decode("utf-16-be", "surrogatepass") for i in range(0, len(units), 2)]
    if isinstance(options, (list, tuple)):
        return {str(index): item for index, item in enumerate(options)}
    return {}
