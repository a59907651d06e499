"""Inlay hints: the recorded truth beside each call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rulvar_lsp.features.recorded import site_label
from rulvar_lsp.features.sites import PlacedSite


@dataclass(frozen=True, slots=True)
class Hint:
    """A label that stands right behind a call."""

    line: int
    column: int
    label: str
    stale: bool
    site: PlacedSite


def hints(placed: Iterable[PlacedSite], first: int, last: int) -> tuple[Hint, ...]:
    """Return the hints of the lines `first` to `last`."""
    return tuple(
        Hint(p.span.end_line, p.span.end_column, site_label(p), p.stale, p)
        for p in placed
        if first <= p.span.end_line <= last
    )
