"""Inlay hints: the recorded truth beside each call, or what the text lets one expect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rulvar_lsp.features.forecast import Forecast
from rulvar_lsp.features.recorded import site_label
from rulvar_lsp.features.sites import PlacedSite


@dataclass(frozen=True, slots=True)
class Hint:
    """A label that stands right behind a call."""

    line: int
    column: int
    label: str


def hints(
    placed: Iterable[PlacedSite], forecasts: Iterable[Forecast], first: int, last: int
) -> tuple[Hint, ...]:
    """Return the hints of the lines `first` to `last`, one for each call."""
    labels = {(p.span.end_line, p.span.end_column): site_label(p) for p in placed}
    for forecast in forecasts:
        place = (forecast.span.end_line, forecast.span.end_column)
        labels[place] = f"{labels[place]}, {forecast.label}" if place in labels else forecast.label
    return tuple(
        Hint(line, column, label) for (line, column), label in sorted(labels.items()) if first <= line <= last
    )
