"""How much one run of an agent may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["Limits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of an agent's run; going past one ends it with the code ``limit_exceeded``.

    What an agent's children do counts too, except for their steps. A child's limits may only be lower.

    Attributes:
        max_steps: steps, each one model call with the tool calls that it asks for.
        max_model_calls, max_tool_calls, max_hook_calls: calls.
        max_duration: seconds on the engine's clock; the code is ``timeout``. None is no bound.
        max_input_bytes, max_output_bytes: size of the input and of the answer, as JSON.
        max_context_bytes: size of the conversation that is sent.
        max_output_tokens: tokens of one answer of the model; it stops there, and the code is ``model_failed``.
        max_cost_micros: money, in micro-USD; the code is ``budget_exceeded``. None is no bound of its own.
        max_event_retention: how many of its last events ``observe`` can still tell.
        max_descendants: children and their children.
    """

    max_steps: int = 16
    max_model_calls: int = 16
    max_tool_calls: int = 64
    max_hook_calls: int = 128
    max_duration: float | None = 60.0
    max_input_bytes: int = _MIB
    max_output_bytes: int = _MIB
    max_context_bytes: int = 2 * _MIB
    max_output_tokens: int = 4096
    max_cost_micros: int | None = None
    max_event_retention: int = 256
    max_descendants: int = 64

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(item.name, getattr(self, item.name))

    @classmethod
    def strict(cls, **limits: Any) -> Limits:
        """Return limits under which nothing may be spent, unless ``max_cost_micros`` says so."""
        return cls(**{"max_cost_micros": 0, **limits})

    @classmethod
    def of(cls, limits: Limits | Mapping[str, Any] | None, what: str = "limits") -> Limits:
        """Return limits from a mapping of the attribute names.

        Raises:
            ConfigError: an unknown field, or a value out of range; names the field and the range.
        """
        if limits is None:
            return cls()
        if isinstance(limits, Limits):
            return limits
        if not isinstance(limits, Mapping):
            raise ConfigError(
                f"{what}: expected Limits or a mapping, got {type(limits).__name__}", data={"field": what}
            )
        known = {item.name for item in fields(cls)}
        for name in limits:
            if name not in known:
                raise ConfigError(
                    f"{what}.{name}: unknown field; use {', '.join(sorted(known))}",
                    data={"field": f"{what}.{name}"},
                )
        return cls(**limits)

    def tightened_by(self, limits: Limits) -> Limits:
        """Return the lower one of each bound of these limits and others."""
        bounds: dict[str, Any] = {}
        for item in fields(self):
            both = (getattr(self, item.name), getattr(limits, item.name))
            bounds[item.name] = min((bound for bound in both if bound is not None), default=None)
        return Limits(**bounds)

    def lowered_by(self, limits: Limits | Mapping[str, Any] | None, what: str) -> Limits:
        """Return these limits with others in their place, none of which may be higher.

        Raises:
            ConfigError: one is higher; names it.
        """
        if limits is None:
            return self
        given = (
            limits
            if isinstance(limits, Mapping)
            else {item.name: getattr(limits, item.name) for item in fields(limits)}
        )
        lower = Limits.of(given, what)
        for name in given:
            mine, other = getattr(self, name), getattr(lower, name)
            if mine is not None and (other is None or other > mine):
                raise ConfigError(
                    f"{what}.{name}: {other} is higher than the agent's own {mine}; limits may only be lowered",
                    data={"field": f"{what}.{name}"},
                )
        return Limits(**{**{item.name: getattr(self, item.name) for item in fields(self)}, **dict(given)})


_OPTIONAL = frozenset({"max_duration", "max_cost_micros"})
_FROM_ZERO = frozenset({"max_tool_calls", "max_hook_calls", "max_cost_micros", "max_descendants"})


def _check(name: str, value: Any) -> None:
    if value is None and name in _OPTIONAL:
        return
    if name == "max_duration":
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
        allowed = "a number of seconds above 0"
    else:
        least = 0 if name in _FROM_ZERO else 1
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        allowed = f"an integer from {least} up"
    if not good:
        raise ConfigError(
            f"limits.{name}: expected {allowed}, got {value!r}", data={"field": f"limits.{name}"}
        )
