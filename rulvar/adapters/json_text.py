"""JSON as text inside a request: tool arguments and results."""

from __future__ import annotations

from typing import Any

import orjson

from rulvar.contracts.canonical import encode_json

__all__ = ["json_text", "result_text"]


def json_text(value: Any) -> str:
    """Return a JSON value as compact text."""
    try:
        return orjson.dumps(value).decode("utf-8")
    except (TypeError, orjson.JSONEncodeError):
        return encode_json(value).decode("utf-8", "surrogatepass")


def result_text(result: Any) -> str:
    """Return a tool's result as a provider is sent it: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else json_text(result)
