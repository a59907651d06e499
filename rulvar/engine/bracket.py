"""Marks the part of a stack in which a workflow's own code runs."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterator
from types import TracebackType
from typing import Any

__all__ = ["Bracket"]


class Bracket(Coroutine[Any, Any, Any]):
    """A coroutine around another one: each of its steps runs between ``enter`` and ``leave``.

    It is no ``async def``, so that a coroutine that is cancelled before its first step is told so. To
    whoever looks at its task it has the name and the frame of the other one.
    """

    __slots__ = ("_steps",)

    def __init__(self, awaited: Awaitable[Any]) -> None:
        self._steps: Any = awaited if isinstance(awaited, Coroutine) else awaited.__await__()

    def enter(self) -> Any:
        """Called before each step; what it returns goes to ``leave``."""

    def leave(self, before: Any) -> None:
        """Called after each step."""

    def send(self, value: Any) -> Any:
        """Run one step."""
        before = self.enter()
        try:
            return self._steps.send(value)
        finally:
            self.leave(before)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        """Run one step that begins with an exception."""
        error = kind if isinstance(kind, BaseException) else kind() if value is None else value
        if traceback is not None:
            error = error.with_traceback(traceback)
        before = self.enter()
        try:
            return self._steps.throw(error)
        finally:
            self.leave(before)

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
