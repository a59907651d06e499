"""Repairs for messages that a strict reader would refuse although their meaning is plain.

Clients send positions like 2**40 for "end of line", and hand over diagnostics of other tools whose
tags and severities are not in the protocol. Only called after the strict reading failed.
"""

from __future__ import annotations

from typing import Any

_MOST = 2**31 - 1
SOURCE = "rulvar"
_KNOWN = {"triggerKind": (1, 2)}
"""Optional numbers with a meaning each: one of a later protocol is as good as none."""


def sanitized(value: Any, key: str | None = None) -> Any:
    """Return the value with positions clamped, and without unknown numbers and other tools' diagnostics."""
    if isinstance(value, dict):
        return {k: sanitized(v, k) for k, v in value.items() if not (k in _KNOWN and v not in _KNOWN[k])}
    if isinstance(value, list):
        items = [v for v in value if not (key == "diagnostics" and _is_foreign(v))]
        return [sanitized(v) for v in items]
    if key in ("line", "character", "version") and isinstance(value, int | float):
        low = -_MOST if key == "version" else 0
        return int(max(low, min(value, _MOST)))
    return value


def _is_foreign(diagnostic: Any) -> bool:
    return not isinstance(diagnostic, dict) or diagnostic.get("source") != SOURCE
