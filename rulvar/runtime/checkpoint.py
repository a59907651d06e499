"""Where an agent call stands at a turn boundary, and its form on disk.

A resumed call goes on at its last turn: finished exchanges and finished tools are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from rulvar.contracts.messages import Msg
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import ConfigError

__all__ = ["LoopState", "decode_checkpoint", "encode_checkpoint"]


class _Kept(msgspec.Struct, rename="camel"):
    """The fields of a checkpoint that are read."""

    messages: list[Any]
    turns: Annotated[int, msgspec.Meta(ge=0)]
    usage: dict[str, Any]
    tool_calls_used: Annotated[int, msgspec.Meta(ge=0)] = 0
    schema_attempts: Annotated[int, msgspec.Meta(ge=0)] = 0
    provider_calls: list[dict[str, Any]] = []
    compaction: list[dict[str, Any]] = []
    notes: dict[str, Any] = {}
    origin: Annotated[int, msgspec.Meta(ge=0)] | None = None
    refused: bool = False
    settled_seq: Annotated[int, msgspec.Meta(ge=0)] = 0


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
        ConfigError: not a checkpoint of version 1, or a field is wrong; names it.
    """
    if wire.get("v") != 1:
        raise ConfigError(f"checkpoint version {wire.get('v')!r} is not 1")
    try:
        kept = msgspec.convert(wire, _Kept)
    except msgspec.ValidationError as error:
        raise ConfigError(f"checkpoint: {error}") from None
    if not all(isinstance(call.get("attempt"), int) for call in kept.provider_calls):
        raise ConfigError("checkpoint: providerCalls: expected objects with an attempt's number")
    return LoopState(
        messages=[Msg.from_wire(message) for message in kept.messages],
        turns=kept.turns,
        usage=Usage.from_wire(kept.usage),
        usage_approx=any(call.get("usageApprox") for call in kept.provider_calls),
        tool_calls_used=kept.tool_calls_used,
        schema_attempts=kept.schema_attempts,
        provider_calls=kept.provider_calls,
        compactions=kept.compaction,
        notes=kept.notes,
        origin=kept.origin,
        refused=kept.refused,
        settled_seq=kept.settled_seq,
    )
