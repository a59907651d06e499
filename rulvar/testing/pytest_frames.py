"""Keeps rulvar's own frames out of failures that are about the user's code.

An error that rulvar raises on purpose says in its message what is wrong; the line to look at is the
user's. What is not raised on purpose is a fault of rulvar's, and is shown whole. ``--full-trace`` shows
every frame.
"""

from __future__ import annotations

import asyncio
import os
import re
import unittest.mock
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["hide_frames"]

_OWN = str(Path(__file__).resolve().parents[1]) + os.sep
_LOOP = str(Path(asyncio.__file__).resolve().parent) + os.sep
_MISCALLED = re.compile(r"\S+\(\) (got|missing|takes) ")
"""What Python says of a call with wrong arguments; rulvar hands options on, so its frame is the last one."""


def hide_frames(excinfo: Any) -> None:
    """Shorten the traceback of a failure, and those of its causes.

    Args:
        excinfo: pytest's ExceptionInfo; the exception keeps the traceback that it has.
    """
    kept = _shortened(excinfo.value, excinfo.tb)
    if kept is not None and kept is not excinfo.tb:
        excinfo.traceback = type(excinfo.traceback)(kept)
    seen: set[int] = {id(excinfo.value)}
    todo = _behind(excinfo.value)
    while todo:
        error = todo.pop()
        if id(error) not in seen:
            seen.add(id(error))
            # not through the class's own __setattr__: an exception may be a frozen dataclass
            BaseException.with_traceback(error, _shortened(error, error.__traceback__))
            todo += _behind(error)


def _behind(error: BaseException) -> list[BaseException]:
    """Return what is shown along with an error: its cause, and the members of a group."""
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [*members, *(() if cause is None else (cause,))]


def _shortened(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without rulvar's frames; as it is where they are what matters."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    first = entries[0] if entries else None
    kept = [entry for entry in entries if not _is_hidden(entry)]
    if not kept or len(kept) == len(entries) or (_is_own(entries[-1]) and not _is_on_purpose(error)):
        return first
    made = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _is_on_purpose(error: BaseException) -> bool:
    """Whether an exception is how rulvar says what is wrong."""
    if isinstance(error, TypeError):
        return type(error) is TypeError and _MISCALLED.match(str(error)) is not None
    return isinstance(error, AssertionError) or _is_of_rulvar(type(error))


def _is_of_rulvar(kind: type) -> bool:
    return any(str(base.__module__).split(".")[0] == "rulvar" for base in kind.__mro__)


def _is_hidden(entry: TracebackType) -> bool:
    return _is_own(entry) or entry.tb_frame.f_code.co_filename.startswith(_LOOP)


def _is_own(entry: TracebackType) -> bool:
    frame = entry.tb_frame
    if frame.f_code.co_filename == unittest.mock.__file__:  # the assertions of a tool_mock
        return _is_of_rulvar(type(frame.f_locals.get("self")))
    return frame.f_code.co_filename.startswith(_OWN)
