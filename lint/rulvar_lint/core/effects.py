"""What running a function may do that a replay would not repeat: root causes and the chain that
leads to them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple


class Place(NamedTuple):
    """A position in a file; line and column are 1-based, the column in code points."""

    path: str
    line: int
    column: int


class Cause(NamedTuple):
    """An unstable read or side effect.

    Attributes:
        code: rule of the root cause.
        what: what happens, in words, such as "`time.time()` reads the wall clock".
        place: where it happens.
        chain: (name, place of the call) from the outermost helper to the innermost.
        severity: "error" or "warning".
    """

    code: str
    what: str
    place: Place
    chain: tuple[tuple[str, Place], ...] = ()
    severity: str = "error"

    def through(self, name: str, place: Place) -> Cause:
        """The same cause, reached by calling `name` at `place`."""
        if len(self.chain) >= MAX_CHAIN:
            return self
        return Cause(self.code, self.what, self.place, ((name, place), *self.chain), self.severity)


MAX_CHAIN: Final = 12


def in_order(causes: Collection[Cause] | None) -> list[Cause]:
    """Causes in an order that is the same in every process; of several at one place, the one that says most first."""
    if not causes:
        return []
    return sorted(causes, key=_rank) if len(causes) > 1 else list(causes)


def _rank(cause: Cause) -> tuple[str, int, int, str, int, str]:
    place = cause.place
    return (place.path, place.line, place.column, cause.code, -len(cause.what), cause.what)
