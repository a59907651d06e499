"""Arguments that a model wrote almost as JSON: read once more, with what models get wrong set right.

An adapter hands over what it could not read as ``{"__unparsed": text}``. Nothing is made up here: a text
that breaks off stays unread, and what is read still has to fit the tool's schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rulvar.contracts.canonical import decode_json

__all__ = ["UNPARSED", "read_again"]

UNPARSED = "__unparsed"
_FENCED = re.compile(r"```[a-zA-Z]*[\t ]*\r?\n(.*?)\r?\n?```", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)


def read_again(args: Any) -> dict[str, Any] | None:
    """Return the arguments object that an unread text holds; None when there is none, or no such text."""
    if not isinstance(args, Mapping) or set(args) != {UNPARSED} or not isinstance(args[UNPARSED], str):
        return None
    text = args[UNPARSED]
    found = _object(text)
    return _object(_mended(text)) if found is None else found


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _mended(text: str) -> str:
    """Return the first object of a text, out of its fence, with the control characters of its strings escaped."""
    text = text.strip()
    if (fence := _FENCED.fullmatch(text)) is not None:
        text = fence[1].strip()
    start = text.find("{")
    if start >= 0:
        text = text[start : _end_of_object(text, start)]
    return _STRING.sub(lambda literal: _CONTROL.sub(_escaped, literal[0]), text)


def _end_of_object(text: str, start: int) -> int:
    depth, at = 0, start
    while at < len(text):
        if text[at] == '"':
            literal = _STRING.match(text, at)
            assert literal is not None
            at = literal.end()
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at
    return len(text)


def _escaped(control: re.Match[str]) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(control[0], f"\\u{ord(control[0]):04x}")
