"""What an exception says, whatever its class makes of that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

__all__ = ["exception_text"]

_MOST = 5
"""So many members of a group are told; the text of the group has their number."""


def exception_text(error: BaseException) -> str:
    """Return the text of an exception; the name of its class, where it says nothing or cannot say it.

    A group is told with the first exceptions in it and in the groups in it.
    """
    text = _own_text(error)
    if not isinstance(error, BaseExceptionGroup):
        return text
    told = (f"{type(each).__name__}: {_own_text(each)}" for each in islice(_leaves(error), _MOST))
    return f"{text}: {'; '.join(told)}"


def _own_text(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return f"{type(error).__name__} (its text cannot be told)"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    todo: list[BaseException] = [group]
    while todo:
        error = todo.pop()
        if isinstance(error, BaseExceptionGroup):
            todo += reversed(error.exceptions)
        else:
            yield error
