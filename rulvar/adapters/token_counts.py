"""Token counts of a provider, checked: an impossible count, or one that a price needs, is never taken for zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.adapters.faults import UnusableAnswer
from rulvar.contracts.usage import Usage, sanitize_usage, usage_violations

__all__ = ["is_number", "number_of", "require_counts", "whole_usage"]


def is_number(raw: Any, name: str) -> bool:
    """Whether a provider's object tells a number of that name."""
    value = raw.get(name) if isinstance(raw, Mapping) else None
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_of(raw: Any, name: str) -> Any:
    """Return one number of a provider's object; what is missing, or no number, is 0."""
    return raw[name] if is_number(raw, name) else 0


def require_counts(raw: Any, *names: str) -> None:
    """Check that a usage tells its counts: those of a model that has a price are needed.

    Raises:
        UnusableAnswer: one of them is missing, or no number.
    """
    for name in names:
        if not is_number(raw, name):
            raise UnusableAnswer(f"it does not say its usage ({name}), and its model has a price")


def whole_usage(counts: Mapping[str, int | float | None]) -> Usage:
    """Return the usage that counts make, by their names on the wire; None is a count that is not told.

    Raises:
        UnusableAnswer: they are no counts, or contradict each other; carries what may be accounted.
    """
    told = {name: value for name, value in counts.items() if value is not None}
    broken = usage_violations(told)
    if broken:
        raise UnusableAnswer(f"its usage is impossible ({', '.join(broken)})", sanitize_usage(told))
    return Usage.from_wire({name: int(value) for name, value in told.items()})
