"""A machine as a Mermaid state diagram."""

from __future__ import annotations

import re
from typing import Any

from rulvar.errors import ConfigError
from rulvar.machines.app import definition_of
from rulvar.machines.definition import END, START, Definition, Transition
from rulvar.machines.view import RunView

__all__ = ["diagram"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"end", "state", "note", "direction", "click", "style", "class", "classdef", "default"})


def diagram(machine: Any, run: RunView | None = None) -> str:
    """Return the Mermaid text of a machine's state diagram.

    A wait transition is drawn with ``⏸``, its guard in brackets; an error place hangs on a ``✗`` arrow.

    Args:
        run: marks the place where this run stands.

    Raises:
        ConfigError: no state machine.
    """
    definition = definition_of(machine)
    if definition is None:
        raise ConfigError(f"diagram: {machine!r} is no state machine", data={"field": "machine"})
    places = _places(definition)
    names = {place: _name(place, number) for number, place in enumerate(places)}
    lines = ["stateDiagram-v2"]
    lines.extend(
        f'    state "{_escaped(place)}" as {names[place]}'
        for place in places
        if names[place] not in (place, "[*]")
    )
    for item in definition.transitions:
        lines.append(f"    {names[item.from_]} --> {names[item.to]} : {_label(item)}")
        if item.error_place is not None:
            lines.append(f"    {names[item.from_]} --> {names[item.error_place]} : ✗ {_escaped(item.name)}")
        if item.retry.target is not None:
            lines.append(f"    {names[item.from_]} --> {names[item.retry.target]} : ↻ {_escaped(item.name)}")
    if run is not None and run.place in names and names[run.place] != "[*]":
        lines.append(f"    class {names[run.place]} current")
        lines.append("    classDef current stroke-width:3px")
    return "\n".join(lines) + "\n"


def _places(definition: Definition) -> list[str]:
    places = dict.fromkeys([START])
    for item in definition.transitions:
        more = (item.from_, item.error_place, item.retry.target, item.to)
        places.update(dict.fromkeys(place for place in more if place is not None))
    return list(places)


def _name(place: str, number: int) -> str:
    if place in (START, END):
        return "[*]"
    if _PLAIN.fullmatch(place) and place.lower() not in _RESERVED:
        return place
    return f"place_{number}"


def _label(item: Transition) -> str:
    guard = "" if item.guard is None else f" [{_escaped(item.guard)}]"
    return f"{'⏸ ' if item.wait else ''}{_escaped(item.name)}{guard}"


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;").replace(";", "#59;").replace("\n", " ")
