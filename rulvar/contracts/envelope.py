"""What a tool hands back: an envelope around its data, and the receipt of the call.

The wire form of an envelope is the one that tool fixtures hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rulvar.errors import ConfigError

__all__ = ["DeclaredDocument", "Receipt", "ToolEnvelope", "ToolResult", "decode_envelope"]

Execution = Literal["not_started", "succeeded", "failed", "unknown"]
Disclosure = Literal["released", "withheld"]

_FIELDS = frozenset({"data", "error", "metadata", "type", "documents", "pending"})


@dataclass(frozen=True, slots=True)
class DeclaredDocument:
    """A document that a tool declares on its envelope; the pipeline saves it.

    Attributes:
        document: the document's name, or an instance of a class made by ``@document``.
        content: its content, when ``document`` is a name.
        options: ``key`` and ``validate``, as for saving a document.
    """

    document: Any
    content: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        declared = getattr(type(self.document), "__document__", None)
        name = self.document if declared is None else declared.name
        wire = {"documentName": name, "content": self.content if declared is None else self.document}
        if self.options:
            wire["options"] = dict(self.options)
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnvelope:
    """The result of one tool call, with what belongs to it.

    Attributes:
        data: the result itself; any JSON value.
        error: text of a failure; the call raises with this text, which is public.
        metadata: facts about the call that are not part of its result.
        type: a name for the kind of result.
        documents: documents that the call produces.
        pending: the child that will supply the result; see ``rulvar.machines.hitl``.
    """

    data: Any = None
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    type: str | None = None
    documents: tuple[DeclaredDocument, ...] = ()
    pending: Any = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; fields that say nothing are left out."""
        wire: dict[str, Any] = {}
        if self.error is not None:
            wire["error"] = self.error
        elif self.pending is None:
            wire["data"] = self.data
        if self.pending is not None:
            wire["pending"] = self.pending
        if self.type is not None:
            wire["type"] = self.type
        if self.metadata:
            wire["metadata"] = dict(self.metadata)
        if self.documents:
            wire["documents"] = [document.to_wire() for document in self.documents]
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What is known of one tool call's execution.

    Attributes:
        execution: ``not_started``, ``succeeded``, ``failed``, or ``unknown`` when a write may have happened.
        disclosure: whether the result was released to the caller.
        spent_micros, reserved_micros: what was charged, and what is still held for an uncertain call.
    """

    call_id: str
    tool_id: str
    execution: Execution
    disclosure: Disclosure
    spent_micros: int = 0
    reserved_micros: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "callId": self.call_id,
            "toolId": self.tool_id,
            "execution": self.execution,
            "disclosure": self.disclosure,
            "spentMicros": self.spent_micros,
            "reservedMicros": self.reserved_micros,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Receipt:
        """Make a receipt of its JSON object.

        Raises:
            ConfigError: it is none; names what is missing.
        """
        try:
            return cls(
                call_id=wire["callId"],
                tool_id=wire["toolId"],
                execution=wire["execution"],
                disclosure=wire["disclosure"],
                spent_micros=wire.get("spentMicros", 0),
                reserved_micros=wire.get("reservedMicros", 0),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise _refused("receipt", f"not one of a tool call ({error})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """A successful call in full: ``ctx.call_tool(..., result="full")``."""

    data: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    type: str | None = None
    receipt: Receipt | None = None


def decode_envelope(wire: Any, what: str) -> ToolEnvelope:
    """Read an envelope.

    Args:
        what: names the place in messages, for instance ``recordings[2].envelope``.

    Raises:
        ConfigError: not an envelope; names the field.
    """
    if isinstance(wire, ToolEnvelope):
        return wire
    if not isinstance(wire, Mapping):
        raise _refused(what, f"expected an object with data or error, got {type(wire).__name__}")
    unknown = sorted(set(wire) - _FIELDS)
    if unknown:
        raise _refused(f"{what}.{unknown[0]}", f"unknown field; use {', '.join(sorted(_FIELDS))}")
    error, kind, metadata = wire.get("error"), wire.get("type"), wire.get("metadata")
    if error is not None and not isinstance(error, str):
        raise _refused(f"{what}.error", "expected a text")
    if kind is not None and not isinstance(kind, str):
        raise _refused(f"{what}.type", "expected a text")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise _refused(f"{what}.metadata", "expected an object")
    return ToolEnvelope(
        data=wire.get("data"),
        error=error,
        metadata=dict(metadata or {}),
        type=kind,
        documents=tuple(_documents(wire.get("documents") or (), f"{what}.documents")),
        pending=wire.get("pending"),
    )


def _documents(items: Any, what: str) -> list[DeclaredDocument]:
    if isinstance(items, (str, Mapping)) or not isinstance(items, (list, tuple)):
        raise _refused(what, "expected a list")
    documents = []
    for number, item in enumerate(items):
        if isinstance(item, DeclaredDocument):
            documents.append(item)
            continue
        if hasattr(type(item), "__document__"):
            documents.append(DeclaredDocument(item))
            continue
        name = item.get("documentName", item.get("document_name")) if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            raise _refused(f"{what}[{number}].documentName", "expected the name of a document")
        options = item.get("options") or {}
        if not isinstance(options, Mapping):
            raise _refused(f"{what}[{number}].options", "expected an object")
        documents.append(DeclaredDocument(name, item.get("content"), dict(options)))
    return documents


def _refused(field_path: str, problem: str) -> ConfigError:
    return ConfigError(f"{field_path}: {problem}", data={"field": field_path})
