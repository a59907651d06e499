"""How a tool call differs from what a fixture holds in its place, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.canonical import canonical_json
from rulvar.contracts.ports.tools import ToolCall
from rulvar.contracts.redaction import Redactor
from rulvar.errors import ReplayDriftError
from rulvar.machines.recording import ABSENT, Recording, Redact, fixture_redactor
from rulvar.testing.excerpt import ABSENT as NOTHING
from rulvar.testing.excerpt import excerpt

__all__ = ["Masking", "drift_error", "drift_of", "exhausted"]

_LONGEST_SHOWN = 600
"""Longer values are shown around their first difference only."""
_MEANT = "re-record the fixture when the change is meant"


@dataclass(frozen=True, slots=True)
class Masking:
    """What masks credentials in a fixture.

    Attributes:
        redactor: what a call is compared by, beside what it is: a file may have been recorded with masks.
        is_on: whether it is used for what is recorded and told as well.
    """

    redactor: Redactor
    is_on: bool = True

    @classmethod
    def of(cls, redact: Redact) -> Masking:
        """Return what an option means.

        Raises:
            ConfigError: neither a function nor a boolean.
        """
        redactor = fixture_redactor(redact)
        return cls(Redactor(), is_on=False) if redactor is None else cls(redactor)


def drift_of(recording: Recording, call: ToolCall, number: int, masking: Masking) -> str | None:
    """Return how a call differs from what was recorded, or None.

    A credential in a call fits the mask that was recorded in its place.
    """
    where = f"response #{number}"
    if recording.tool != call.tool_id:
        return (
            f"{where}: the order of calls has changed: expected {recording.tool} at {recording.position}, got "
            f"{call.tool_id} at {_position(call)}; {_MEANT}"
        )
    for field, actual in (("workflow", call.workflow), ("transition", call.transition)):
        expected = getattr(recording, field)
        if expected is not ABSENT and expected != actual:
            return (
                f"{where}: {call.tool_id} was recorded at {recording.position} and is called at {_position(call)}; "
                f"{_MEANT}"
            )
    for field, value in (("args", call.args), ("config", call.config)):
        expected = getattr(recording, field)
        if expected is ABSENT or not _differ(expected, value):
            continue
        masked = masking.redactor.redact(value).value
        if masked is value or _differ(expected, masked):
            shown = masked if masking.is_on else value
            return (
                f"{where}: {field} of {call.tool_id} at {_position(call)} have changed: {_both(field, expected, shown)}; "
                f"{_MEANT}"
            )
    return None


def exhausted(call: ToolCall, number: int, recorded: int) -> str:
    """Return what is to be said of a call that the script has no response for."""
    return (
        f"the script is exhausted: call {number}, {call.tool_id} at {_position(call)}, has no response; {recorded} "
        f"{'is' if recorded == 1 else 'are'} recorded; {_MEANT}"
    )


def drift_error(call: ToolCall, number: int, text: str, source: str | None) -> ReplayDriftError:
    """Return the error that ends the run; ``source`` is the file of the fixture."""
    return ReplayDriftError(
        f"replay drift: {f'{source}: ' if source else ''}{text}",
        data={
            "tool": call.tool_id,
            "workflow": call.workflow,
            "transition": call.transition,
            "response": number,
            **({"file": source} if source else {}),
        },
    )


def _position(call: ToolCall) -> str:
    return ".".join(part for part in (call.workflow, call.transition) if part) or "the run"


def _both(field: str, expected: Any, value: Any) -> str:
    """Return both values, or where they part when they are long."""
    shown = [_text(side) for side in (expected, value)]
    if max(map(len, shown)) <= _LONGEST_SHOWN:
        return f"recorded {shown[0]}, got {shown[1]}"
    path, left, right = _first_difference(field, expected, value)
    sides = excerpt(*(NOTHING if side is ABSENT else side for side in (left, right)))
    parted = ["nothing" if side is None else side for side in sides]
    return f"{path}: recorded {parted[0]}, got {parted[1]}"


def _first_difference(path: str, left: Any, right: Any) -> tuple[str, Any, Any]:
    """Return the path of the first difference within two values that differ, and what stands there."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for name in dict.fromkeys((*left, *right)):
            sides = left.get(name, ABSENT), right.get(name, ABSENT)
            if _differ(*sides):
                return _first_difference(f"{path}.{name}", *sides)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        for index, sides in enumerate(zip(left, right, strict=False)):
            if _differ(*sides):
                return _first_difference(f"{path}[{index}]", *sides)
        if len(left) != len(right):
            at = min(len(left), len(right))
            return f"{path}[{at}]", *(side[at] if len(side) > at else ABSENT for side in (left, right))
    return path, left, right


def _differ(left: Any, right: Any) -> bool:
    if left is ABSENT or right is ABSENT:
        return left is not right
    return canonical_json(left) != canonical_json(right)


def _text(value: Any) -> str:
    return (
        "nothing" if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    )
