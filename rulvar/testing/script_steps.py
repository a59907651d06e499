"""The steps of a scripted model: what may be one, and what is refused where it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.errors import ConfigError
from rulvar.testing.responders import check_responder, check_said, check_sent

__all__ = ["check_step", "check_steps", "is_envelope"]

_SPARE_FIELDS = frozenset({"costMicros", "cost_micros"})
_STEP_FIELDS = frozenset({"calls", "output", "usage"})


def is_envelope(step: Any) -> bool:
    """Whether a step says what it is: a final answer, or tool calls."""
    return isinstance(step, Mapping) and step.get("type") in ("final", "tool_calls")


def check_steps(steps: Any) -> list[Any]:
    """Return the steps as a list; a single one, or what holds none, is refused: its parts are no answers."""
    if isinstance(steps, (str, bytes, Mapping)) or not isinstance(steps, Iterable):
        raise ConfigError(
            f"scripted_model steps: expected a list of steps, got {type(steps).__name__}; write [step], also for one",
            data={"field": "steps"},
        )
    return list(steps)


def check_step(step: Any, where: str) -> None:
    """Refuse a step that can never be an answer.

    Raises:
        ConfigError: names its field.
    """
    if step is None:
        raise ConfigError(
            f"{where}: None is no answer; use final(...), tool_calls(...), a text, a JSON value or a function",
            data={"field": "step"},
        )
    if not is_envelope(step):
        _check_plain_step(step, where)
        return
    usage = step.get("usage") or {}
    unknown = sorted(set(usage) - _SPARE_FIELDS) if isinstance(usage, Mapping) else ["usage"]
    cost = 0 if unknown else usage.get("cost_micros", usage.get("costMicros", 0))
    if unknown or not isinstance(cost, int) or isinstance(cost, bool) or cost < 0:
        raise ConfigError(
            f"{where}.usage: expected {{'cost_micros': an integer from 0 up}}", data={"field": "usage"}
        )
    if step["type"] == "final":
        if "output" not in step:
            raise ConfigError(f"{where}.output: a final answer has an output", data={"field": "output"})
        check_said(step["output"], f"{where}.output", "output")
        return
    calls = step.get("calls")
    if not isinstance(calls, (list, tuple)) or not calls:
        raise ConfigError(f"{where}.calls: expected a list of calls", data={"field": "calls"})
    for number, call in enumerate(calls):
        known = isinstance(call, Mapping) and any(call.get(name) for name in ("tool_id", "toolId", "name"))
        if not known:
            raise ConfigError(f"{where}.calls[{number}].tool_id: name the tool", data={"field": "tool_id"})
        for name in ("input", "args"):
            check_sent(call.get(name), f"{where}.calls[{number}].{name}", name)


def _check_plain_step(step: Any, where: str) -> None:
    """Refuse an object that was meant as an answer: as a JSON value it would be answered as it is."""
    if isinstance(step, Mapping) and "type" in step and not _STEP_FIELDS.isdisjoint(step):
        raise ConfigError(
            f"{where}.type: {step['type']!r} is no kind of answer; use 'final' or 'tool_calls'",
            data={"field": "type"},
        )
    check_responder(step, where)
