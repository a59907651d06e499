"""Puts a workflow's own code in view: what runs it stands on the stack right outside of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import CoroutineType, TracebackType
from typing import Any, Protocol

__all__ = ["Bracket", "View", "call_in_view"]


class View(Protocol):
    """What sees a workflow's code between ``enter`` and ``leave``."""

    def enter(self) -> Any:
        """Begin to look; what it returns goes to ``leave``."""

    def leave(self, before: Any) -> None:
        """Look no more."""


def call_in_view(view: View, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in view."""
    before = view.enter()
    try:
        return function(*args)
    finally:
        view.leave(before)


class Bracket(Coroutine[Any, Any, Any]):
    """A coroutine around another one: each of its steps runs in view.

    It is no ``async def``, so that a coroutine that is cancelled before its first step is told so. To
    whoever looks at its task it has the name and the frame of the other one.
    """

    __slots__ = ("_steps", "_view")

    def __init__(self, awaited: Awaitable[Any], view: Any) -> None:
        is_coroutine = type(awaited) is CoroutineType or isinstance(awaited, Coroutine)
        self._steps: Any = awaited if is_coroutine else awaited.__await__()
        self._view = view

    def send(self, value: Any) -> Any:
        """Run one step."""
        before = self._view.enter()
        try:
            return self._steps.send(value)
        finally:
            self._view.leave(before)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        """Run one step that begins with an exception."""
        error = kind if isinstance(kind, BaseException) else kind() if value is None else value
        if traceback is not None:
            error = error.with_traceback(traceback)
        before = self._view.enter()
        try:
            return self._steps.throw(error)
        finally:
            self._view.leave(before)

    def close(self) -> None:
        """End the coroutine where it stands."""
        self._steps.close()

    def __await__(self) -> Iterator[Any]:  # type: ignore[override]
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def __getattr__(self, name: str) -> Any:
        if name == "_steps":
            raise AttributeError(name)
        return getattr(self._steps, name)
