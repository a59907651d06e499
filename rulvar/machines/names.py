"""Names: of classes in snake case, and of the runs in a run tree."""

from __future__ import annotations

import re

__all__ = ["child_id", "snake_case"]


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
