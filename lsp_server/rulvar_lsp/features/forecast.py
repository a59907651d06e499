"""What a call will be served before anything has run: the words for it, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from rulvar_lsp.features.recorded import code, diff_block, file_link, short_hash
from rulvar_lsp.text import Span

if TYPE_CHECKING:
    from rulvar_lsp.features.sites import PlacedSite
    from rulvar_lsp.report import Difference


@dataclass(frozen=True, slots=True)
class Forecast:
    """The row that a static call will be served, or the row that is nearest to it.

    `path` and `row` (a line, from 1) are None when a miss has no row near it.
    """

    span: Span
    verdict: Literal["hit", "miss"]
    request_hash: str
    model: str
    path: str | None = None
    row: int | None = None
    differences: tuple[Difference, ...] = ()

    @property
    def label(self) -> str:
        """`will hit row 3` or `will miss`."""
        return f"will hit row {self.row}" if self.verdict == "hit" else "will miss"


def open_forecasts(forecasts: Iterable[Forecast], placed: Iterable[PlacedSite]) -> tuple[Forecast, ...]:
    """Return the forecasts of calls of which no run of the present text is known."""
    known = {(site.span.line, site.span.column) for site in placed if not site.stale}
    return tuple(f for f in forecasts if (f.span.line, f.span.column) not in known)


def forecast_markdown(forecast: Forecast) -> str:
    """Why a call will hit or miss."""
    where = "no row of this adapter is recorded"
    if forecast.path is not None and forecast.row is not None:
        name = PurePosixPath(forecast.path).name
        where = f"[row {forecast.row} of {name}]({file_link(forecast.path)}#L{forecast.row})"
    lines = [f"**{forecast.label}**: read from the text, nothing has run", ""]
    if forecast.verdict == "hit":
        lines.append(f"- {where}")
    elif forecast.differences:
        lines += [f"nearest is {where}", "", diff_block(forecast.differences), ""]
    else:
        lines.append(f"- {where}")
    lines += [f"- model {code(forecast.model)}", f"- request {code(short_hash(forecast.request_hash))}"]
    return "\n".join(lines)
