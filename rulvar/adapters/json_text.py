"""JSON as text inside a request: tool arguments and results, written as ECMAScript writes them.

A model is sent the same text whichever language recorded the conversation: ``1.0`` is ``1``, and members
that are named like array indexes come first, in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from rulvar.contracts.canonical import (
    MAX_DEPTH,
    MAX_SAFE_INTEGER,
    NeedsExactEncoder,
    encode_json,
    format_number,
    normal_json,
)

__all__ = ["arguments_text", "json_text", "result_text"]

UNPARSED = "__unparsed"
"""Stands for the arguments of a call that are no JSON: its value is their text."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_LAST_INDEX = 2**32 - 2
_HUGE = 1 << 1000


def json_text(value: Any) -> str:
    """Return a JSON value as compact text.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold.
    """
    value = _ordered(value, 0)
    try:
        return orjson.dumps(normal_json(value)).decode("utf-8")
    except (NeedsExactEncoder, TypeError, orjson.JSONEncodeError):
        encode_json(value)  # refuses what JSON cannot hold, with its path
        return _exact(value)


def result_text(result: Any) -> str:
    """Return a tool's result as a provider is sent it: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else json_text(result)


def arguments_text(args: Any) -> str:
    """Return a call's arguments as its model wrote them: the text itself where it was no JSON."""
    if isinstance(args, Mapping) and set(args) == {UNPARSED} and isinstance(args[UNPARSED], str):
        return str(args[UNPARSED])
    return json_text({} if args is None else args)


def _is_index(name: Any) -> bool:
    return isinstance(name, str) and _INDEX.fullmatch(name) is not None and int(name) <= _LAST_INDEX


def _ordered(value: Any, depth: int) -> Any:
    """Return a value whose objects have their members in the order in which ECMAScript keeps them."""
    if depth > MAX_DEPTH:  # refused where it is written
        return value
    if isinstance(value, dict):
        if any(_is_index(name) for name in value):
            indexes = sorted((name for name in value if _is_index(name)), key=int)
            value = {name: value[name] for name in (*indexes, *(n for n in value if not _is_index(n)))}
        return {name: _ordered(item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_ordered(item, depth + 1) for item in value]
    return value


def _exact(value: Any) -> str:
    """Write what the fast encoder cannot: lone surrogates, which are escaped."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_exact(name)}:{_exact(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_exact, value)) + "]"
    if isinstance(value, float) or (type(value) is int and MAX_SAFE_INTEGER < abs(value) < _HUGE):
        return format_number(float(value))
    if not isinstance(value, str):
        return json.dumps(value)
    # surrogate halves that stand side by side are one character
    text = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", quoted)
