"""Where in the source a ctx call stands."""

from __future__ import annotations

import linecache
import re
import sys
from types import CodeType, FrameType

from rulvar.contracts.ports.observer import CallSite

__all__ = ["SiteFinder"]


_NESTED = re.compile(r"(\.<locals>\.<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>)+$")
"""A comprehension or lambda is named by the function around it."""


class SiteFinder:
    """Finds call sites: one frame look-up per call, and each place is worked out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], CallSite] = {}

    def caller(self, depth: int) -> CallSite | None:
        """Return the site of the call ``depth`` frames above the caller of this method."""
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            return None
        key = (frame.f_code, frame.f_lasti)
        site = self._known.get(key)
        if site is None:
            site = self._known[key] = _site(frame)
        return site


def _site(frame: FrameType) -> CallSite:
    code = frame.f_code
    positions = list(code.co_positions())
    index = frame.f_lasti // 2
    line, end_line, column, end_column = positions[index] if index < len(positions) else (None,) * 4
    line = line or frame.f_lineno
    end_line = end_line or line
    return CallSite(
        file=code.co_filename,
        line=line,
        column=_code_points(code.co_filename, line, column) + 1,
        end_line=end_line,
        end_column=_code_points(code.co_filename, end_line, end_column) + 1,
        function=_NESTED.sub("", code.co_qualname),
    )


def _code_points(file: str, line: int, offset: int | None) -> int:
    """Turn a UTF-8 byte offset into a count of code points."""
    if not offset:
        return 0
    text = linecache.getline(file, line)
    if text.isascii():
        return offset
    return len(text.encode("utf-8")[:offset].decode("utf-8", "ignore"))
