"""Functions that a workflow hands over, as type checkers see them.

They are protocols and no ``Callable``, for then a lambda may bind a loop's variable as a default (``lambda x=x: ...``).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

__all__ = ["Stage", "Thunk"]

Made = TypeVar("Made", covariant=True)


class Thunk(Protocol[Made]):
    """A function that can be called without arguments."""

    def __call__(self) -> Made: ...


class Stage(Protocol):
    """A function of one item that returns what the next one is made of."""

    def __call__(self, item: Any, /) -> Awaitable[Any]: ...
