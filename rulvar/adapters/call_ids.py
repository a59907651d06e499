"""Tool-call ids: ours are minted, the provider's are its own; each finds the other."""

from __future__ import annotations

from collections.abc import Callable

from rulvar.contracts.ids import UlidSource

__all__ = ["CallIds"]

KEPT = 8192


class CallIds:
    """A map of tool-call ids in both directions.

    Only calls that are still under way need it, so the oldest ids are forgotten. A forgotten id, and
    one of another provider or an earlier process, is sent as ``<prefix><id>``: a provider only needs
    the call and its result to carry the same one.
    """

    __slots__ = ("_mint", "_ours", "_prefix", "_theirs")

    def __init__(self, prefix: str, mint: Callable[[], str] | None = None) -> None:
        self._prefix = prefix
        self._mint = mint or UlidSource().mint
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}

    def begin(self, theirs: str | None = None) -> str:
        """Return our id of a call that begins.

        Args:
            theirs: the provider's id of it. One that an earlier call has already, and one that is missing,
                cannot tell calls apart: such a call is known by our id alone.
        """
        minted = self._mint()
        if theirs and theirs not in self._ours:
            self._pair(minted, theirs)
        return minted

    def theirs(self, ours: str) -> str:
        """Return the provider's id of one of our calls."""
        known = self._theirs.get(ours)
        return f"{self._prefix}{ours}" if known is None else known

    def _pair(self, ours: str, theirs: str) -> None:
        self._ours[theirs] = ours
        self._theirs[ours] = theirs
        if len(self._ours) > KEPT:
            oldest = next(iter(self._ours))
            self._theirs.pop(self._ours.pop(oldest), None)
