"""Requests to a model: the canonical chat parts, messages and tool contracts.

JSON names are camelCase on the wire and in hashes; attributes are the same words in snake_case.
``to_wire()`` gives the plain JSON object, ``from_wire()`` reads and checks one.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec

from rulvar.errors import ConfigError

__all__ = [
    "ChatRequest",
    "ImagePart",
    "Msg",
    "Part",
    "ProviderRawPart",
    "Tagged",
    "TextPart",
    "ToolCallPart",
    "ToolChoice",
    "ToolContract",
    "ToolResultPart",
    "Wire",
]

_BYTES = (bytes, bytearray, memoryview)  # left alone by to_wire: hashing reads them byte by byte
Role = Literal["system", "user", "assistant", "tool"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]


def camel_case(name: str) -> str:
    """Return the wire name of an attribute: ``cache_write5m_tokens`` is ``cacheWrite5mTokens``."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename=camel_case, omit_defaults=True, gc=False):
    """Base of everything that goes over the wire: immutable, camelCase in JSON, and so never part of a cycle."""

    def to_wire(self) -> dict[str, Any]:
        """Return the plain JSON object; absent optional fields are left out."""
        wire: dict[str, Any] = _with_lists(msgspec.to_builtins(self, builtin_types=_BYTES))
        return wire

    def to_plain(self) -> dict[str, Any]:
        """Return the JSON object with tuples for arrays, for encoders that take them; cheaper than to_wire."""
        plain: dict[str, Any] = msgspec.to_builtins(self, builtin_types=_BYTES)
        return plain

    @classmethod
    def from_wire(cls, wire: Any) -> Self:
        """Read a plain JSON object.

        Raises:
            ConfigError: a field is missing or of the wrong type; the message names its path.
        """
        try:
            return msgspec.convert(wire, cls)
        except (
            msgspec.ValidationError,
            UnicodeEncodeError,
        ) as error:  # a lone surrogate where a word belongs
            raise ConfigError(f"{cls.__name__}: {error}") from None


def _with_lists(value: Any) -> Any:
    """Return a JSON value with its tuples as lists."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(item) is dict or type(item) is tuple or type(item) is list:
                value[key] = _with_lists(item)
        return value
    return [_with_lists(item) for item in value] if kind is tuple or kind is list else value


class Tagged(Wire, frozen=True, kw_only=True):
    """One variant of a union; its JSON says which in ``type``."""

    @property
    def type(self) -> str:
        """The name of the variant on the wire."""
        return str(self.__struct_config__.tag)


class TextPart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ImagePart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: its media type, and its data as base64 text or as bytes.

    Bytes go over the wire as an object of index to byte, which is how they are hashed and recorded.
    """

    media_type: str
    data: Any


class ToolCallPart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="tool-call"):
    """A call that the model asked for; ``id`` is minted by the library."""

    id: str
    name: str
    args: Any


class ToolResultPart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="tool-result"):
    """The answer to the tool call of the same id."""

    id: str
    name: str
    result: Any
    is_error: bool | None = None


class ProviderRawPart(Tagged, frozen=True, kw_only=True, tag_field="type", tag="provider-raw"):
    """An opaque block of one provider family that must survive a round trip."""

    provider: str
    block: Any


Part = TextPart | ImagePart | ToolCallPart | ToolResultPart | ProviderRawPart


class Msg(Wire, frozen=True, kw_only=True):
    """One message: a role and its parts in order."""

    role: Role
    parts: tuple[Part, ...]

    @classmethod
    def text(cls, role: Role, text: str) -> Msg:
        """Return a message of one text part."""
        return cls(role=role, parts=(TextPart(text=text),))


class ToolContract(Wire, frozen=True, kw_only=True):
    """What a model is told of a tool; parameters are a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    version: str | None = None


class ToolChoice(Wire, frozen=True, kw_only=True):
    """Pins the one tool that the model must call."""

    name: str


class ChatRequest(Wire, frozen=True, kw_only=True):
    """One request to a model, as every adapter receives it.

    ``model`` is the part of a model reference after ``adapterId:``. ``provider_options`` maps a
    namespace to its options; an adapter reads only its own.
    """

    model: str
    messages: tuple[Msg, ...]
    tools: tuple[ToolContract, ...] | None = None
    tool_choice: Literal["auto", "none", "required"] | ToolChoice | None = None
    schema: dict[str, Any] | bool | None = None
    effort: Effort | None = None
    max_output_tokens: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    cache_hint: Any = None
    provider_options: dict[str, Any] | None = None

    @property
    def prompt(self) -> str:
        """The text of the last user message, one part per line; ``""`` when there is none."""
        for message in reversed(self.messages):
            if message.role == "user":
                return "\n".join(part.text for part in message.parts if type(part) is TextPart)
        return ""
