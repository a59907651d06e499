"""Where an agent call stands at a turn boundary, and its form on disk.

A resumed call goes on at its last turn: finished exchanges and finished tools are not repeated. On disk
a checkpoint is a byte that names its format, and JSON. A turn whose tool calls have not all been
answered stands in it apart: what was answered, the call that is next, and those after it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.messages import Msg, ToolCallPart, ToolResultPart
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import ConfigError
from rulvar.runtime.history import dump_wire

__all__ = ["LoopState", "checkpoint_json", "decode_checkpoint", "encode_checkpoint", "unanswered_calls"]

_FORMAT = b"\x01"
_BYTES = "__rulvarBytes"


class _Pending(msgspec.Struct):
    """The tool calls of the last turn that have been answered; the turn itself tells the others."""

    executed: list[dict[str, Any]] = []


class _Kept(msgspec.Struct, rename="camel"):
    """The fields of a checkpoint that are read."""

    messages: list[Any]
    turns: Annotated[int, msgspec.Meta(ge=0)]
    usage: dict[str, Any]
    tool_calls_used: Annotated[int, msgspec.Meta(ge=0)] = 0
    schema_attempts: Annotated[int, msgspec.Meta(ge=0)] = 0
    provider_calls: list[dict[str, Any]] = []
    compaction: list[int | dict[str, Any]] = []
    pending: _Pending | None = None
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
    compactions: list[int] = field(default_factory=list)
    """Turns after which the conversation was shortened."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What conducts the agent keeps of its own."""
    origin: int | None = None
    """Entry at which the call began, when it has been taken up at another one since."""
    refused: bool = False
    """Whether the last turn's tool calls were refused before any of them ran."""
    settled_seq: int = 0
    """What stands below the call before this entry belongs to tool calls that have ended."""


def unanswered_calls(messages: Sequence[Msg]) -> list[ToolCallPart]:
    """Return the tool calls of a conversation's last turn that have no result yet."""
    answered: set[str] = set()
    if messages[-1].role == "tool":
        answered = {part.id for part in messages[-1].parts if isinstance(part, ToolResultPart)}
    turn = messages[-2] if answered and len(messages) > 1 else messages[-1]
    if turn.role != "assistant":
        return []
    calls = [part for part in turn.parts if isinstance(part, ToolCallPart)]
    return [call for call in calls if call.id not in answered]


def encode_checkpoint(state: LoopState, reference: str, role: str) -> bytes:
    """Return a checkpoint as it is stored."""
    usage = state.usage.to_wire()
    messages, pending = _parted(state.messages)
    optional = {
        "notes": state.notes,
        "origin": state.origin,
        "settledSeq": state.settled_seq or None,
        "refused": state.refused or None,
        "pending": pending,
        "providerCalls": state.provider_calls or None,
    }
    wire = {
        "v": 1,
        "messages": [_with_images(message.to_plain(), _told_image) for message in messages],
        "turns": state.turns,
        "usage": usage,
        "usageByModel": [{"servedBy": reference, "usage": usage, "role": role}],
        "toolCallsUsed": state.tool_calls_used,
        "schemaAttempts": state.schema_attempts,
        "compaction": list(state.compactions),
        **{name: value for name, value in optional.items() if value is not None and value != {}},
    }
    return _FORMAT + dump_wire(wire)


def _parted(messages: Sequence[Msg]) -> tuple[Sequence[Msg], dict[str, Any] | None]:
    """Return the whole turns of a conversation, and its last turn apart when it has unanswered calls."""
    calls = unanswered_calls(messages)
    if not calls:
        return messages, None
    executed: list[dict[str, Any]] = []
    if messages[-1].role == "tool":
        executed = [_plain(part) for part in messages[-1].parts]
        messages = messages[:-1]
    awaiting, *remaining = (_plain(call) for call in calls)
    return messages, {"executed": executed, "awaiting": awaiting, "remaining": remaining}


def _plain(part: Any) -> dict[str, Any]:
    return {name: value for name, value in part.to_plain().items() if name != "type"}


def _with_images(message: dict[str, Any], change: Any) -> dict[str, Any]:
    """Return a message with the data of its images changed."""
    parts = message.get("parts")
    if not isinstance(parts, (list, tuple)) or not any(map(_is_image, parts)):
        return message
    made = [{**part, "data": change(part["data"])} if _is_image(part) else part for part in parts]
    return {**message, "parts": made}


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image" and "data" in part


def _told_image(data: Any) -> Any:
    is_binary = isinstance(data, (bytes, bytearray, memoryview))
    return {_BYTES: base64.b64encode(data).decode()} if is_binary else data


def _read_image(data: Any) -> Any:
    told = data.get(_BYTES) if isinstance(data, dict) else None
    return base64.b64decode(told, validate=True) if isinstance(told, str) else data


def checkpoint_json(blob: bytes) -> Any:
    """Return the JSON of a checkpoint, or of a transcript, which has no byte in front.

    Raises:
        ValueError: there is no JSON in it.
    """
    return decode_json(bytes(blob).removeprefix(_FORMAT))


def decode_checkpoint(blob: bytes) -> LoopState:
    """Read a checkpoint; also one that is plain JSON, which is how they once were.

    Raises:
        ConfigError: not a checkpoint of version 1, or a field is wrong; names it.
    """
    try:
        wire = checkpoint_json(blob)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"checkpoint: {error}") from None
    if not isinstance(wire, dict):
        raise ConfigError("checkpoint: expected a JSON object")
    if wire.get("v") != 1:
        raise ConfigError(f"checkpoint version {wire.get('v')!r} is not 1")
    try:
        kept = msgspec.convert(wire, _Kept)
    except msgspec.ValidationError as error:
        raise ConfigError(f"checkpoint: {error}") from None
    if not all(isinstance(call.get("attempt"), int) for call in kept.provider_calls):
        raise ConfigError("checkpoint: providerCalls: expected objects with an attempt's number")
    return LoopState(
        messages=_messages(kept),
        turns=kept.turns,
        usage=Usage.from_wire(kept.usage),
        usage_approx=any(call.get("usageApprox") for call in kept.provider_calls),
        tool_calls_used=kept.tool_calls_used,
        schema_attempts=kept.schema_attempts,
        provider_calls=kept.provider_calls,
        compactions=[point if isinstance(point, int) else int(point["turn"]) for point in kept.compaction],
        notes=kept.notes,
        origin=kept.origin,
        refused=kept.refused,
        settled_seq=kept.settled_seq,
    )


def _messages(kept: _Kept) -> list[Msg]:
    """Return the conversation with what its last turn's tools have answered."""
    try:
        plain = [_with_images(message, _read_image) for message in kept.messages]
    except (AttributeError, binascii.Error) as error:
        raise ConfigError(f"checkpoint: messages: {error}") from None
    messages = [Msg.from_wire(message) for message in plain]
    if not messages:
        raise ConfigError("checkpoint: messages: expected at least one")
    if kept.pending is not None and kept.pending.executed:
        parts = [{"type": "tool-result", **answer} for answer in kept.pending.executed]
        messages.append(Msg.from_wire({"role": "tool", "parts": parts}))
    return messages
