"""The conversation as it is sent: what a provider may see of it, and how a long one is shortened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import Msg, Part, ProviderRawPart, TextPart, ToolCallPart, ToolResultPart
from rulvar.errors import ConfigError

__all__ = [
    "Compaction",
    "SplitHistory",
    "cache_hint",
    "dump_wire",
    "last_rounds",
    "project_history",
    "rough_tokens",
    "split_history",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When a conversation is shortened, and what stays as it is.

    Attributes:
        at: the part of the model's context window, above 0 and up to 1, from which on it is shortened.
        keep_turns: how many of the last model turns stay word for word.
    """

    at: float = 0.8
    keep_turns: int = 2

    @classmethod
    def of(cls, value: Compaction | Mapping[str, Any] | None, what: str) -> Compaction | None:
        """Return a compaction from a mapping of the attributes; None is never.

        Raises:
            ConfigError: an unknown field, or a value out of range; names the field and the range.
        """
        if value is None or isinstance(value, Compaction):
            return value
        if not isinstance(value, Mapping) or not set(value) <= {"at", "keep_turns"}:
            raise ConfigError(f"{what}: use the fields at and keep_turns", data={"field": what})
        at, keep = value.get("at", 0.8), value.get("keep_turns", 2)
        if not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 < at <= 1:
            raise ConfigError(
                f"{what}.at: expected a number above 0 and up to 1", data={"field": f"{what}.at"}
            )
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
            raise ConfigError(
                f"{what}.keep_turns: expected an integer from 1 up", data={"field": f"{what}.keep_turns"}
            )
        return cls(at=at, keep_turns=keep)


@dataclass(frozen=True, slots=True)
class SplitHistory:
    """A conversation in three: what it began with, what may be shortened, what stays."""

    head: tuple[Msg, ...]
    middle: tuple[Msg, ...]
    tail: tuple[Msg, ...]

    def shortened(self, summary: str) -> list[Msg]:
        """Return the conversation with its middle replaced by a summary."""
        return [*self.head, Msg.text("user", f"What has happened so far, in short:\n\n{summary}"), *self.tail]

    def request(self) -> tuple[Msg, ...]:
        """Return the conversation that asks a model for the summary."""
        told = "\n\n".join(f"[{message.role}] {_told(message)}" for message in (*self.head, *self.middle))
        return (
            Msg.text(
                "user",
                "Shorten the conversation below for the model that has to go on with it. Keep every fact, "
                "decision, name, number and open task that it may need; leave out the rest. Answer with "
                f"the summary only.\n\n{told}",
            ),
        )


def project_history(messages: Sequence[Msg], family: str) -> tuple[Msg, ...]:
    """Return what a provider family may see: its own opaque blocks, and no other family's."""
    parts = [part for message in messages for part in message.parts if type(part) is ProviderRawPart]
    if not any(_foreign(part, family) for part in parts):
        return tuple(messages)
    kept = (
        Msg(role=message.role, parts=tuple(part for part in message.parts if not _foreign(part, family)))
        for message in messages
    )
    return tuple(message for message in kept if message.parts)


def cache_hint(caps: ModelCaps, messages: Sequence[Msg]) -> Any:
    """Return where a provider that caches on request is asked to: after tools, system text and last message."""
    if caps.prompt_caching != "explicit":
        return None
    last = sum(message.role != "system" for message in messages) - 1  # system text is a place of its own
    places: list[Any] = ["tools", "system", {"messageIndex": last}]
    return {"breakpoints": [{"after": place, "ttl": "5m"} for place in places]}


def last_rounds(messages: Sequence[Msg], count: int) -> list[Any]:
    """Return what the last model turns asked of tools and were told, newest first."""
    rounds: list[Any] = []
    for at in range(len(messages) - 1, 0, -2):
        answers, turn = messages[at], messages[at - 1]
        if len(rounds) == count or answers.role != "tool" or turn.role != "assistant":
            break
        calls = [(part.name, part.args) for part in turn.parts if isinstance(part, ToolCallPart)]
        told = [part.result for part in answers.parts if isinstance(part, ToolResultPart)]
        rounds.append((calls, told))
    return rounds


def split_history(messages: Sequence[Msg], keep_turns: int) -> SplitHistory | None:
    """Return the conversation in three; None when there is nothing to shorten.

    The tail starts at a model turn, so that every tool result in it has its call before it.
    """
    head = 1
    while head < len(messages) and messages[head - 1].role == "system":
        head += 1
    turns = [index for index in range(head, len(messages)) if messages[index].role == "assistant"]
    if len(turns) <= keep_turns:
        return None
    start = turns[-keep_turns]
    return SplitHistory(tuple(messages[:head]), tuple(messages[head:start]), tuple(messages[start:]))


def rough_tokens(messages: Sequence[Msg]) -> int:
    """Estimate the tokens of a conversation: a quarter of its characters, each part rounded up."""
    return sum(-(-_length(part) // 4) for message in messages for part in message.parts)


def dump_wire(wire: dict[str, Any]) -> bytes:
    """Return the JSON bytes of something from a conversation."""
    try:
        return orjson.dumps(wire)
    except TypeError:
        return encode_json(_lists(wire))


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def _length(part: Part) -> int:
    return len(part.text) if isinstance(part, TextPart) else len(dump_wire(part.to_plain()))


def _foreign(part: Part, family: str) -> bool:
    return type(part) is ProviderRawPart and part.provider != family


def _told(message: Msg) -> str:
    return "\n".join(_part_told(part) for part in message.parts)


def _part_told(part: Part) -> str:
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ToolCallPart):
        return f"calls {part.name} {dump_wire({'args': part.args}).decode()}"
    if isinstance(part, ToolResultPart):
        return f"{part.name} gave {dump_wire({'result': part.result}).decode()}"
    return f"({part.type})"
