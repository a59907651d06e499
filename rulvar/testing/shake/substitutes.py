"""Puts other functions and classes in the place of known ones, for a while.

A name may have been imported into a module of the project or into a closure of a workflow, so the
original is replaced where it lives and wherever the project holds it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType
from typing import Any

from rulvar.engine.reach import ProjectFiles

__all__ = ["Substitute", "substituted"]

Substitute = tuple[Any, str, Any]
"""An owner, the name of an attribute that it has, and what stands there meanwhile."""

_MOST_FUNCTIONS = 1000


@contextlib.contextmanager
def substituted(
    substitutes: Iterable[Substitute], project: ProjectFiles, body: Callable[..., Any] | None = None
) -> Iterator[None]:
    """Replace attributes, the project's own names for what they hold, and the cells of a body."""
    undo: list[Callable[[], None]] = []
    wanted: dict[int, Any] = {}
    kept: list[Any] = []
    try:
        for owner, name, replacement in substitutes:
            original = vars(owner).get(name)
            if original is None:
                continue
            kept.append(original)  # its id stays its own
            wanted[id(original)] = replacement
            undo.append(_restore(owner, name, original))
            setattr(owner, name, replacement)
        for namespace in _namespaces(project):
            for name, value in list(namespace.items()):
                if id(value) in wanted:
                    undo.append(_put_back(namespace, name, value))
                    namespace[name] = wanted[id(value)]
        for cell in _cells(body):
            value = _content(cell)
            if id(value) in wanted:
                undo.append(_refill(cell, value))
                cell.cell_contents = wanted[id(value)]
        yield
    finally:
        for step in reversed(undo):
            step()


def _namespaces(project: ProjectFiles) -> Iterator[dict[str, Any]]:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and project.holds(_text(names.get("__file__"))):
            yield names


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _cells(body: Callable[..., Any] | None) -> Iterator[CellType]:
    """Yield the closure cells of a function and of the functions that they hold."""
    todo, seen = [body], set[int]()
    while todo and len(seen) < _MOST_FUNCTIONS:
        function = todo.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        todo.append(function.__dict__.get("__wrapped__"))
        for cell in function.__closure__ or ():
            yield cell
            todo.append(_content(cell))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _restore(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def _put_back(namespace: Mapping[str, Any], name: str, value: Any) -> Callable[[], None]:
    def undo() -> None:
        namespace[name] = value  # type: ignore[index]

    return undo


def _refill(cell: CellType, value: Any) -> Callable[[], None]:
    def undo() -> None:
        cell.cell_contents = value

    return undo
