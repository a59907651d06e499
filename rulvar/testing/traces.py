"""Comparing what two runs did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulvar.errors import ConfigError
from rulvar.machines.trace import TraceEvent

__all__ = ["TraceDifference", "diff_traces"]

_COMPARED: Mapping[str, tuple[str, ...]] = {
    "transition.started": ("transitionId", "from", "to"),
    "transition.completed": ("transitionId",),
    "transition.failed": ("transitionId", "willRetry"),
    "tool.called": ("toolName", "toolSeq", "transitionId"),
    "tool.completed": ("toolName", "toolSeq", "transitionId"),
    "tool.failed": ("toolName", "toolSeq", "transitionId"),
    "document.emitted": ("documentName", "transitionId"),
    "child.queued": ("workflowName", "transitionId"),
    "child.settled": ("status",),
    "run.settled": ("status", "place"),
}
"""What makes two events of a type the same; times, ids, arguments and results do not."""


@dataclass(frozen=True, slots=True)
class TraceDifference:
    """The first place where two traces part.

    Attributes:
        index: of the first events that differ.
        expected, actual: those events; None where a trace had ended.
        reason: in one sentence.
    """

    index: int
    expected: TraceEvent | None
    actual: TraceEvent | None
    reason: str


def diff_traces(expected: Any, actual: Any) -> TraceDifference | None:
    """Return where two runs part, or None when they did the same.

    Args:
        expected, actual: runs, run views, or their traces.

    Raises:
        ConfigError: something that has no trace.
    """
    left, right = _trace(expected, "expected"), _trace(actual, "actual")
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        reason = _difference(one, other)
        if reason is not None:
            return TraceDifference(index, one, other, reason)
    if len(left) == len(right):
        return None
    index = min(len(left), len(right))
    if len(left) > len(right):
        count = len(left) - index
        reason = f"actual ended early: {count} {_events(count)} missing, the first is {_name(left[index])}"
        return TraceDifference(index, left[index], None, reason)
    count = len(right) - index
    reason = f"actual went on: {count} extra {_events(count)}, the first is {_name(right[index])}"
    return TraceDifference(index, None, right[index], reason)


def _difference(one: TraceEvent, other: TraceEvent) -> str | None:
    if one.type != other.type:
        return f"type: expected {_name(one)}, got {_name(other)}"
    for field in _COMPARED.get(one.type, ()):
        if one.get(field) != other.get(field):
            return f"{field} of {one.type}: expected {one.get(field)!r}, got {other.get(field)!r}"
    return None


def _trace(run: Any, what: str) -> Sequence[TraceEvent]:
    trace = getattr(run, "trace", run)
    if isinstance(trace, Iterable) and not isinstance(trace, (str, bytes, Mapping)):
        events = list(trace)
        if all(isinstance(event, TraceEvent) for event in events):
            return events
    raise ConfigError(f"diff_traces {what}: expected a run or its trace, got {type(run).__name__}")


def _name(event: TraceEvent) -> str:
    about = event.get("transitionId") or event.get("documentName") or event.get("status")
    return f"{event.type}({about})" if about else event.type


def _events(count: int) -> str:
    return "event" if count == 1 else "events"
