"""Admission: whether one more agent or child may start, and what is promised for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.errors import ConfigError

__all__ = ["HARD_MAX_DEPTH", "BudgetDefaults", "Estimate", "estimate", "recorded_admissions"]

HARD_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDefaults:
    """Bounds of every run of an engine.

    Attributes:
        flat_reserve_usd: what is promised for a call that nothing else estimates.
        child_fraction: a child's ceiling, as a fraction of what its parent has left.
        max_depth: how deep child workflows may be nested, at most 4.
        max_spawns: agents and children over the whole life of a run.
    """

    flat_reserve_usd: float = 0.5
    child_fraction: float = 0.3
    max_depth: int = 1
    max_spawns: int = 500

    def __post_init__(self) -> None:
        for name, is_allowed in _RANGES.items():
            value = getattr(self, name)
            good, allowed = is_allowed(value)
            if not good:
                where = f"budget_defaults.{name}"
                raise ConfigError(f"{where}={value!r}: expected {allowed}", data={"field": where})

    @classmethod
    def of(cls, defaults: BudgetDefaults | Mapping[str, Any] | None) -> BudgetDefaults:
        """Return defaults from a mapping of the attribute names.

        Raises:
            ConfigError: an unknown field, or a value out of range; names the field and the range.
        """
        if defaults is None:
            return cls()
        if isinstance(defaults, BudgetDefaults):
            return defaults
        if not isinstance(defaults, Mapping):
            raise ConfigError(
                f"budget_defaults: expected BudgetDefaults or a mapping, got {type(defaults).__name__}",
                data={"field": "budget_defaults"},
            )
        known = {item.name for item in fields(cls)}
        for name in defaults:
            if name not in known:
                where = f"budget_defaults.{name}"
                raise ConfigError(
                    f"{where}: unknown field; use {', '.join(sorted(known))}", data={"field": where}
                )
        return cls(**defaults)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is promised for a call, and where the figure comes from."""

    reserve_usd: float
    source: str


def estimate(
    call: float | None, profile: float | None, counted: float | None, defaults: BudgetDefaults
) -> Estimate:
    """Return the promise for a call: its own estimate, its profile's, a priced count, the flat default."""
    for amount, source in ((call, "est-cost"), (profile, "profile"), (counted, "count")):
        if amount is not None:
            return Estimate(amount, source)
    return Estimate(defaults.flat_reserve_usd, "default")


def check_usd(value: Any, where: str) -> float | None:
    """Return an amount in USD.

    Raises:
        ConfigError: not a finite number from 0 up.
    """
    if value is None:
        return None
    good, allowed = _amount(value)
    if not good:
        raise ConfigError(
            f"{where}={value!r}: expected {allowed}", data={"field": where, "value": repr(value)}
        )
    return float(value)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def _amount(value: Any) -> tuple[bool, str]:
    return _is_number(value) and value >= 0, "an amount in USD from 0 up"


def _fraction(value: Any) -> tuple[bool, str]:
    return _is_number(value) and 0 < value <= 1, "a fraction above 0 and up to 1"


def _depth(value: Any) -> tuple[bool, str]:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HARD_MAX_DEPTH
    return good, f"an integer from 0 to {HARD_MAX_DEPTH}"


def _count(value: Any) -> tuple[bool, str]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1, "an integer from 1 up"


_RANGES = {
    "flat_reserve_usd": _amount,
    "child_fraction": _fraction,
    "max_depth": _depth,
    "max_spawns": _count,
}


def recorded_admissions(
    decisions: Iterable[JournalEntry],
) -> dict[tuple[str, str], tuple[int, Mapping[str, Any]]]:
    """Return the seqs and decisions of the admissions that a journal holds, by the scopes of parent and child.

    The first admission stands; a refusal stands until one.
    """
    found: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = {}
    for entry in decisions:
        value = entry.value
        child = value.get("childScope") if isinstance(value, Mapping) else None
        decision = value.get("decision") if isinstance(value, Mapping) else None
        verdict = decision.get("verdict") if isinstance(decision, Mapping) else None
        if (
            not isinstance(child, str)
            or not isinstance(decision, Mapping)
            or not isinstance(verdict, Mapping)
        ):
            continue
        before = found.get((entry.scope, child))
        if before is None or before[1]["verdict"].get("kind") != "admit":
            found[entry.scope, child] = (entry.seq, decision)
    return found
