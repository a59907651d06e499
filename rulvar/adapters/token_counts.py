"""Token counts of a provider, checked: a missing or impossible count is never taken for zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.adapters.faults import UnusableAnswer
from rulvar.contracts.usage import Usage, is_token_count, usage_violations

__all__ = ["count_of", "whole_usage"]


def count_of(raw: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return one count.

    Args:
        default: stands for a count that may be left out; without one it must be there.

    Raises:
        UnusableAnswer: it is missing, or no count.
    """
    value = raw.get(name)
    if value is None:
        if default is None:
            raise UnusableAnswer(f"it does not say its usage ({name})")
        return default
    if not is_token_count(value):
        raise UnusableAnswer(f"its usage is no count ({name})")
    return int(value)


def whole_usage(**counts: int | None) -> Usage:
    """Return a usage that keeps the rules of the wire.

    Raises:
        UnusableAnswer: the counts contradict each other.
    """
    usage = Usage(**{name: value for name, value in counts.items() if value is not None})
    broken = usage_violations(usage)
    if broken:
        raise UnusableAnswer(f"its usage contradicts itself ({', '.join(broken)})")
    return usage
