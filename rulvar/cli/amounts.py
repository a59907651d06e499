"""How amounts are written for people: money, tokens, durations, points in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["age_text", "count_text", "seconds_text", "tokens_text", "usd_text"]

_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def usd_text(amount: float) -> str:
    """Return an amount of USD, exact enough that a small one is not zero."""
    if amount == 0 or abs(amount) >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.6f}".rstrip("0")


def count_text(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 run``, ``2 runs``.

    Args:
        many: the noun of several; ``one`` with an ``s`` unless given.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def tokens_text(usage: Mapping[str, Any]) -> str:
    """Return the tokens of a usage."""
    return f"{_count(usage, 'inputTokens'):,} in / {_count(usage, 'outputTokens'):,} out"


def seconds_text(seconds: float) -> str:
    """Return a duration."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def age_text(stamp: object, now: datetime | None = None) -> str:
    """Return how long ago an ISO 8601 time was; the text itself where it is no time."""
    try:
        moment = datetime.fromisoformat(str(stamp))
        passed = ((now or datetime.now(UTC)) - moment).total_seconds()
    except (ValueError, TypeError):
        return "" if stamp is None else str(stamp)
    if passed < 1:
        return "now" if passed > -1 else str(stamp)
    return next(f"{int(passed // size)}{unit} ago" for size, unit in _AGES if passed >= size)


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name, 0)
    return value if isinstance(value, int) else 0
