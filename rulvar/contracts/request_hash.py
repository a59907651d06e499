"""The hash of a request: what a cassette row is found by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rulvar.contracts.canonical import hash_canonical
from rulvar.contracts.messages import ChatRequest
from rulvar.errors import ConfigError

__all__ = ["TELEMETRY_NAMESPACE", "hashed_request", "plain_request", "request_hash"]

TELEMETRY_NAMESPACE = "rulvar"
"""Namespace of ``providerOptions`` that carries telemetry and never changes a hash."""


def request_hash(request: ChatRequest | Mapping[str, Any]) -> str:
    """Return the lowercase hex SHA-256 of a request's canonical JSON.

    ``cacheHint`` and ``providerOptions.rulvar`` are left out, and so is a ``providerOptions`` that
    is empty without them. Image data may be bytes.

    Raises:
        ConfigError: the request is not an object, or its ``providerOptions`` is null.
        NonSerializableValueError: a value that JSON cannot hold.
    """
    return hash_canonical(hashed_request(request), lenient=True)


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
        wire: dict[str, Any] = msgspec.to_builtins(request, builtin_types=(bytes, bytearray, memoryview))
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
