"""Repairs for messages that a strict reader would refuse although their meaning is plain.

Clients send positions like 2**40 for "end of line". Only called after the strict reading failed.
"""

from __future__ import annotations

from typing import Any

_MOST = 2**31 - 1


def sanitized(value: Any, key: str | None = None) -> Any:
    """Return the value with positions clamped to what the protocol allows."""
    if isinstance(value, dict):
        return {k: sanitized(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [sanitized(v) for v in value]
    if key in ("line", "character", "version") and isinstance(value, int | float):
        low = -_MOST if key == "version" else 0
        return int(max(low, min(value, _MOST)))
    return value
