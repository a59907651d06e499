"""Shows where two values part: both shortened around their first difference, on one line each."""

from __future__ import annotations

import unicodedata
from typing import Any

from rulvar.contracts.canonical import encode_json
from rulvar.errors import NonSerializableValueError

__all__ = ["ABSENT", "common_prefix", "common_suffix", "excerpt"]

ABSENT: Any = object()
"""Stands for a field that one side does not have."""

_BEFORE = 24
_AFTER = 40
_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def excerpt(recorded: Any, actual: Any) -> tuple[str | None, str | None]:
    """Return both sides as short texts around their first difference; None for an absent side.

    Differences that the eye cannot see (white space, Unicode forms, invisible characters) are shown
    as escapes.
    """
    left, right = _text(recorded), _text(actual)
    if left is None or right is None:
        return _cut(left, 0, _one_line), _cut(right, 0, _one_line)
    first = common_prefix(left, right)
    show = _escaped if _looks_alike(left, right) else _one_line
    return _cut(left, first, show), _cut(right, first, show)


def common_prefix(left: str, right: str) -> int:
    """Return how many leading characters two texts share."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(left: str, right: str, prefix: int = 0) -> int:
    """Return how many trailing characters two texts share, behind a shared prefix."""
    limit = min(len(left), len(right)) - prefix
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if left[len(left) - middle :] == right[len(right) - middle :]:
            low = middle
        else:
            high = middle
    return low


def _text(value: Any) -> str | None:
    if value is ABSENT:
        return None
    if isinstance(value, str):
        return value
    try:
        return encode_json(value).decode("utf-8")
    except NonSerializableValueError:
        return repr(value)


def _cut(text: str | None, first: int, show: Any) -> str | None:
    if text is None:
        return None
    start = max(0, first - _BEFORE)
    end = min(len(text), first + _AFTER)
    if start <= 3:
        start = 0
    if len(text) - end <= 3:
        end = len(text)
    shown: str = show(text[start:end])
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"


def _looks_alike(left: str, right: str) -> bool:
    return _folded(left) == _folded(right)


def _folded(text: str) -> str:
    visible = "".join(" " if c.isspace() else c for c in text if unicodedata.category(c) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", " ".join(visible.split()))


def _one_line(text: str) -> str:
    return "".join(_escape(c) if _is_control(c) else c for c in text)


def _escaped(text: str) -> str:
    return "".join(c if c.isascii() and not _is_control(c) else _escape(c) for c in text)


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escape(character: str) -> str:
    code = ord(character)
    named = _NAMED_ESCAPES.get(character)
    if named:
        return named
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
