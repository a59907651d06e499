"""Errors of tool calls in the journal: what is written, and what a replay raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.errors import (
    AgentLimitError,
    BudgetExceededError,
    CallTimeoutError,
    ConfigError,
    ConflictError,
    GuardBlockedError,
    GuardUnavailableError,
    InvalidInputError,
    InvalidOutputError,
    ModelFailedError,
    NonSerializableValueError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RulvarError,
    ToolCancelledError,
    ToolFailedError,
)

__all__ = ["is_recorded_fault", "recorded_fault", "wire_fault"]

_BY_CODE: Mapping[str, type[RulvarError]] = {
    kind.code: kind
    for kind in (
        AgentLimitError,
        BudgetExceededError,
        ConfigError,
        ConflictError,
        ModelFailedError,
        NotFoundError,
        GuardBlockedError,
        GuardUnavailableError,
        InvalidInputError,
        InvalidOutputError,
        NonSerializableValueError,
        OutcomeUnknownError,
        PermissionDeniedError,
        ToolCancelledError,
        ToolFailedError,
        CallTimeoutError,
    )
}


def is_recorded_fault(code: str) -> bool:
    """Whether a code is that of a fault which a journal can hold."""
    return code in _BY_CODE


def wire_fault(error: RulvarError) -> dict[str, Any]:
    """Return the JSON object of a failed call; it tells that the failure is the tool's, so that it can be kept."""
    wire = error.to_wire()
    return {**wire, "data": {**(wire.get("data") or {}), "kind": "tool"}}


def recorded_fault(wire: Mapping[str, Any]) -> RulvarError:
    """Return the error that a journal holds, as the first run raised it."""
    kind = _BY_CODE.get(str(wire.get("code")), ToolFailedError)
    data = {name: value for name, value in (wire.get("data") or {}).items() if name != "kind"}
    return kind(str(wire.get("message", "")), data=data, retryable=bool(wire.get("retryable")))
