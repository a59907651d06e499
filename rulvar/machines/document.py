"""Documents: what a machine shows to people, and the widgets that ask them something.

``@document`` gives a class of content a name and says where it is shown. A widget says how a person
answers; it sits on a document or on a whole machine. Widgets are looked up through an :class:`App`,
so that a park can be asked about without running anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.errors import ConfigError, SchemaError
from rulvar.machines.names import plain_name, snake_case

__all__ = [
    "DISPLAY_WIDGETS",
    "Document",
    "DocumentType",
    "Widget",
    "document",
    "document_type",
    "read_names",
    "read_widgets",
]

DISPLAY_WIDGETS = frozenset(
    {"message", "llm-message", "ai-message", "markdown", "plain", "error", "link", "debug"}
)
"""Widgets that only show; a document with one of these never asks anything."""

T = TypeVar("T", bound=type)


@dataclass(frozen=True, slots=True)
class Widget:
    """How a person sees or answers something.

    Attributes:
        type: for instance ``text-prompt``, ``confirm-prompt``, ``choices``, ``form`` or ``secret-input``.
        transition: the wait transition that an answer fires.
        actions: several buttons, each a mapping with ``label`` and ``transition``.
        show_when, enabled_when: places where it is shown, and where it can be answered; empty is everywhere.
        options: whatever else the widget knows.
    """

    type: str
    transition: str | None = None
    actions: tuple[Mapping[str, Any], ...] = ()
    show_when: tuple[str, ...] = ()
    enabled_when: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def only_shows(self) -> bool:
        """Whether nobody can answer it."""
        return self.type in DISPLAY_WIDGETS


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentType:
    """What ``@document`` declares about a class of content.

    Attributes:
        hide_at: places where it is not shown.
        enable_at: places where it can be answered, beside the place it was saved for.
        internal: never shown.
    """

    name: str
    content: type
    contract: SchemaContract | None
    widget: Widget | None = None
    tags: tuple[str, ...] = ()
    hide_at: tuple[str, ...] = ()
    enable_at: tuple[str, ...] = ()
    internal: bool = False


def document(
    kind: T | None = None,
    /,
    *,
    name: str | None = None,
    widget: Widget | str | None = None,
    tags: Iterable[str] = (),
    hide_at: Iterable[str] | str = (),
    enable_at: Iterable[str] | str = (),
    internal: bool = False,
) -> Any:
    """Make a class of documents of a pydantic model, a dataclass, a TypedDict or a struct.

    Args:
        name: default: the class name without ``Document``, in snake case.
        widget: how it is shown or answered; the name of a widget, or a Widget.
        tags: labels; ``internal`` among them hides it as ``internal=True`` does.
        hide_at: places where it is not shown.
        enable_at: places where it can be answered, beside the place it was saved for.
        internal: never shown.

    Raises:
        ConfigError: an option is wrong; names the class.
    """

    def make(content: T) -> T:
        if not isinstance(content, type):
            raise ConfigError(f"@document: expected a class, got {content!r}")
        what = f"document {content.__name__}"
        widgets = read_widgets(widget, what)
        if len(widgets) > 1:
            raise ConfigError(f"{what} widget: a document has one widget", data={"field": "widget"})
        declared = DocumentType(
            name=name or snake_case(content.__name__, "Document"),
            content=content,
            contract=_contract(content, what),
            widget=widgets[0] if widgets else None,
            tags=read_names(tags, f"{what} tags", "tags"),
            hide_at=read_names(hide_at, f"{what} hide_at", "hide_at"),
            enable_at=read_names(enable_at, f"{what} enable_at", "enable_at"),
            internal=internal,
        )
        try:
            content.__document__ = declared  # type: ignore[attr-defined]
        except TypeError:
            raise ConfigError(f"{what}: {content!r} cannot carry what @document declares") from None
        return content

    return make if kind is None else make(kind)


def document_type(value: Any) -> DocumentType | None:
    """Return what ``@document`` declared about a class or about the class of an instance."""
    kind = value if isinstance(value, type) else type(value)
    declared = vars(kind).get("__document__") or getattr(kind, "__document__", None)
    return declared if isinstance(declared, DocumentType) else None


def read_widgets(widget: Any, what: str) -> tuple[Widget, ...]:
    """Return the widgets that an option means: a name, a Widget, a mapping, or a list of these.

    Raises:
        ConfigError: something else; names the option.
    """
    if widget is None:
        return ()
    if isinstance(widget, (list, tuple)):
        return tuple(item for one in widget for item in read_widgets(one, what))
    if isinstance(widget, str) and widget:
        return (Widget(widget),)
    if isinstance(widget, Widget):
        return (widget,)
    known = {item.name for item in dataclasses.fields(Widget)}
    if isinstance(widget, Mapping) and isinstance(widget.get("type"), str) and set(widget) <= known:
        made = dict(widget)
        for option in ("actions", "show_when", "enabled_when"):
            if option in made:
                made[option] = tuple(made[option])
        return (Widget(**made),)
    raise ConfigError(
        f"{what} widget: expected the name of a widget, Widget(...) or a mapping with {', '.join(sorted(known))}",
        data={"field": "widget"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A saved document.

    Attributes:
        id: counts up within the run of its machine.
        content: as JSON.
        transition, place: what saved it, and the place that the transition leads to.
        options: of this document's widget: ``transition``, ``actions``, ``show_when``, ``enabled_when`` ...
        at_ms: when it was saved, epoch milliseconds.
        position: how many tool calls its transition had made before.
        turn: counts the documents and children of its transition.
        call: seq of the entry of the tool call that declared it, or None.
    """

    id: str
    name: str
    content: Any
    key: str | None = None
    transition: str | None = None
    place: str | None = None
    hide_at: tuple[str, ...] = ()
    enable_at: tuple[str, ...] = ()
    internal: bool = False
    tags: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    at_ms: int = 0
    position: int = 0
    turn: int = 0
    call: int | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; fields that say nothing are left out."""
        wire: dict[str, Any] = {"id": self.id, "name": self.name, "content": self.content}
        for name, value in (("key", self.key), ("transition", self.transition), ("place", self.place)):
            if value is not None:
                wire[name] = value
        for name, names in (("hideAt", self.hide_at), ("enableAt", self.enable_at), ("tags", self.tags)):
            if names:
                wire[name] = list(names)
        if self.internal:
            wire["internal"] = True
        if self.options:
            wire["options"] = dict(self.options)
        if self.call is not None:
            wire["call"] = self.call
        return {**wire, "atMs": self.at_ms, "position": self.position, "turn": self.turn}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Document:
        """Make a document of its JSON object."""
        return cls(
            id=wire["id"],
            name=wire["name"],
            content=wire.get("content"),
            key=wire.get("key"),
            transition=wire.get("transition"),
            place=wire.get("place"),
            hide_at=tuple(wire.get("hideAt", ())),
            enable_at=tuple(wire.get("enableAt", ())),
            internal=bool(wire.get("internal", False)),
            tags=tuple(wire.get("tags", ())),
            options=wire.get("options") or {},
            at_ms=wire.get("atMs", 0),
            position=wire.get("position", 0),
            turn=wire.get("turn", 0),
            call=wire.get("call"),
        )


def _contract(content: type, what: str) -> SchemaContract | None:
    try:
        return schema_contract(content, what)
    except SchemaError as error:
        raise ConfigError(str(error), data={"field": what}) from None


def read_names(value: Any, what: str, option: str) -> tuple[str, ...]:
    """Return names as a tuple; one alone may be given as it is.

    Raises:
        ConfigError: something that is no name; tells where.
    """
    given = (value,) if isinstance(value, (str, Enum)) else value
    names = tuple(plain_name(name) for name in given) if isinstance(given, Iterable) else (value,)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{what}={value!r}: expected a list of names", data={"field": option})
    return names
