"""Where an agent call stands at a turn boundary, and its form on disk.

A resumed call goes on at its last turn: finished exchanges and finished tools are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.messages import Msg
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import ConfigError

__all__ = ["LoopState", "decode_checkpoint", "encode_checkpoint"]


@dataclass(slots=True)
class LoopState:
    """What a checkpoint holds: the loop at a turn boundary."""

    messages: list[Msg] = field(default_factory=list)
    turns: int = 0
    usage: Usage = ZERO_USAGE
    usage_approx: bool = False
    tool_calls_used: int = 0
    schema_attempts: int = 0
    provider_calls: list[dict[str, Any]] = field(default_factory=list)
    compactions: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    """What conducts the agent keeps of its own."""
    origin: int | None = None
    """Entry at which the call began, when it has been taken up at another one since."""
    refused: bool = False
    """Whether the last turn's tool calls were refused before any of them ran."""
    settled_seq: int = 0
    """What stands below the call before this entry belongs to tool calls that have ended."""


def encode_checkpoint(state: LoopState, reference: str, role: str) -> dict[str, Any]:
    """Return a checkpoint's JSON object."""
    usage = state.usage.to_wire()
    optional = {
        "notes": state.notes,
        "origin": state.origin,
        "settledSeq": state.settled_seq or None,
        "refused": state.refused or None,
    }
    return {
        "v": 1,
        "messages": [message.to_plain() for message in state.messages],
        "turns": state.turns,
        "usage": usage,
        "usageByModel": [{"servedBy": reference, "usage": usage, "role": role}],
        "toolCallsUsed": state.tool_calls_used,
        "schemaAttempts": state.schema_attempts,
        "compaction": list(state.compactions),
        "providerCalls": list(state.provider_calls),
        **{name: value for name, value in optional.items() if value is not None and value != {}},
    }


def decode_checkpoint(wire: Mapping[str, Any]) -> LoopState:
    """Read a checkpoint's JSON object.

    Raises:
        ConfigError: not a checkpoint of version 1.
    """
    if wire.get("v") != 1:
        raise ConfigError(f"checkpoint version {wire.get('v')!r} is not 1")
    calls = list(wire.get("providerCalls", ()))
    return LoopState(
        messages=[Msg.from_wire(message) for message in wire["messages"]],
        turns=wire["turns"],
        usage=Usage.from_wire(wire["usage"]),
        usage_approx=any(call.get("usageApprox") for call in calls),
        tool_calls_used=wire.get("toolCallsUsed", 0),
        schema_attempts=wire.get("schemaAttempts", 0),
        provider_calls=calls,
        compactions=list(wire.get("compaction", ())),
        notes=dict(wire.get("notes", {})),
        origin=wire.get("origin"),
        refused=wire.get("refused", False),
        settled_seq=wire.get("settledSeq", 0),
    )
