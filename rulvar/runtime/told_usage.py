"""Usages that adapters tell, held to the rules of the wire: what breaks them is repaired, and fails the call.

What is accounted is never a credit, whatever an adapter tells; and a call whose adapter tells what cannot
be is not taken for a good one.
"""

from __future__ import annotations

from typing import Any

from rulvar.contracts.canonical import MAX_SAFE_INTEGER
from rulvar.contracts.stream import PartialUsage, WireError
from rulvar.contracts.usage import Usage, sanitize_usage, usage_violations

__all__ = ["impossible_usage", "repaired_update", "repaired_usage"]

_REQUIRED = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0}


def repaired_usage(usage: Usage) -> tuple[Usage, list[str]]:
    """Return what is accounted of a final usage, and the names of the fields that break a rule."""
    if _is_plain(usage):
        return usage, []
    broken = usage_violations(usage)
    return (sanitize_usage(usage), broken) if broken else (usage, [])


def repaired_update(seen: PartialUsage) -> tuple[PartialUsage, list[str]]:
    """Return what is accounted of counts on the way, and the names of those that are none."""
    told = {name: value for name, value in seen.to_wire().items() if value is not None}
    broken = [name for name, value in told.items() if not _is_count(value)]
    if not broken:
        return seen, []
    repaired = {
        name: sanitize_usage({**_REQUIRED, "outputTokens": told[name]}).output_tokens for name in broken
    }
    return PartialUsage.from_wire({**told, **repaired}), broken


def impossible_usage(broken: list[str]) -> WireError:
    """Return the error of a call whose adapter told a usage that cannot be."""
    return WireError(
        code="agent",
        message=f"the adapter told a usage that cannot be: {', '.join(broken)}",
        retryable=False,
        data={"kind": "transport", "reason": "invalid_response", "fields": broken},
    )


def _is_plain(usage: Usage) -> bool:
    """Whether a usage without a split keeps every rule; most do, and the whole check costs more."""
    given, written = usage.input_tokens, usage.output_tokens
    read, stored = usage.cache_read_tokens, usage.cache_write_tokens
    return (
        type(given) is type(written) is type(read) is type(stored) is int
        and usage.reasoning_tokens is usage.cache_write5m_tokens is usage.cache_write1h_tokens is None
        and written >= 0
        and read >= 0
        and stored >= 0
        and read + stored <= given <= MAX_SAFE_INTEGER
        and written <= MAX_SAFE_INTEGER
    )


def _is_count(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and value >= 0
