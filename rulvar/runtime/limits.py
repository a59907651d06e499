"""Bounds of one agent call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["UsageLimits", "merged_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """How much one agent call may do before it ends with status ``limit``.

    A call's own limits stand over its profile's, and these over those of the run, field by field; of an
    object, only fields that are not the default count as said.

    Attributes:
        max_turns: model turns.
        max_tool_calls: tool calls over all turns; None is no bound.
        max_output_tokens_per_turn: sent to the provider with every turn; None leaves it to the model.
        max_idle_turns: turns in a row that ask the same of the same tools and are told the same; None is
            no bound.
        timeout_s: wall time of the whole call in seconds; None is no bound.
        idle_timeout_s: seconds without any event after which an exchange is cut, and tried again as its
            retry policy says; None is no bound.
    """

    max_turns: int = 32
    max_tool_calls: int | None = None
    max_output_tokens_per_turn: int | None = None
    max_idle_turns: int | None = None
    timeout_s: float | None = None
    idle_timeout_s: float | None = 120

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(f"limits.{item.name}", item.name, getattr(self, item.name))

    @classmethod
    def of(cls, limits: UsageLimits | Mapping[str, Any] | None, what: str = "limits") -> UsageLimits:
        """Return limits from a mapping of the attribute names.

        Raises:
            ConfigError: an unknown field, or a value out of range; names the field and the range.
        """
        if limits is None:
            return _DEFAULTS
        if isinstance(limits, UsageLimits):
            return limits
        if not isinstance(limits, Mapping):
            hint = (
                "; an agent's Limits stand in Agent(limits=...)" if type(limits).__name__ == "Limits" else ""
            )
            raise ConfigError(
                f"{what}: expected UsageLimits or a mapping, got {type(limits).__name__}{hint}",
                data={"field": what},
            )
        known = {item.name for item in fields(cls)}
        for name, value in limits.items():
            if name not in known:
                raise ConfigError(
                    f"{what}.{name}: unknown field; use {', '.join(sorted(known))}",
                    data={"field": f"{what}.{name}"},
                )
            _check(f"{what}.{name}", name, value)
        return cls(**limits)


def merged_limits(*layers: UsageLimits | Mapping[str, Any] | None) -> UsageLimits:
    """Return limits with each field from the first layer that says it.

    Args:
        layers: from the nearest to the farthest.

    Raises:
        ConfigError: a field that there is not, or a value out of range.
    """
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        if layer is not None:
            merged.update(_said(layer))
    return UsageLimits(**merged) if merged else _DEFAULTS


def _said(layer: UsageLimits | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(layer, UsageLimits):
        every = {item.name: getattr(layer, item.name) for item in fields(UsageLimits)}
        return {name: value for name, value in every.items() if value != getattr(_DEFAULTS, name)}
    return {name: value for name, value in layer.items() if value is not None or name in _UNBOUNDED}


_UNBOUNDED = frozenset({"idle_timeout_s"})
"""What has a bound unless told otherwise: None takes it away."""


def _check(where: str, name: str, value: Any) -> None:
    if value is None and name != "max_turns":
        return
    if name.endswith("timeout_s"):
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
        allowed = "a number of seconds above 0"
    else:
        least = 0 if name == "max_tool_calls" else 1
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        allowed = f"an integer from {least} up"
    if not good:
        raise ConfigError(
            f"{where}: expected {allowed}, got {value!r}", data={"field": where, "value": repr(value)}
        )


_DEFAULTS = UsageLimits()
