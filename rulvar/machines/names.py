"""Names: of classes in snake case, and of the runs in a run tree."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

__all__ = ["child_id", "plain_name", "snake_case"]


def snake_case(name: str, *suffixes: str) -> str:
    """Return a class name without its suffix, in snake case."""
    for suffix in suffixes:
        if name.endswith(suffix) and name != suffix:
            name = name.removesuffix(suffix)
            break
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def child_id(parent_id: str, parent_scope: str, scope: str) -> str:
    """Return the id of a child's run, made of its parent's and of where it stands below its parent.

    It holds nothing that a run id may not hold, so that it can be named on a command line.
    """
    below = scope.removeprefix(parent_scope).lstrip("/")
    parts = (part.removeprefix("wf:").replace(":", "-") for part in below.split("/"))
    return ".".join([parent_id, *(re.sub(r"[^A-Za-z0-9._-]", "_", part) for part in parts)])


def plain_name(name: Any) -> Any:
    """Return the plain text of a name that is a member of an enumeration; anything else as it is."""
    value = name.value if isinstance(name, Enum) else name
    return str.__str__(value) if isinstance(value, str) else value
