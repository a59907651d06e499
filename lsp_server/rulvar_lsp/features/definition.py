"""Go to definition: from a call to its rows in the cassettes."""

from __future__ import annotations

from collections.abc import Iterable

from rulvar_lsp.features.forecast import Forecast
from rulvar_lsp.features.sites import PlacedSite


def rows_at(
    line: int, column: int, placed: Iterable[PlacedSite], forecasts: Iterable[Forecast] = ()
) -> list[tuple[str, int]]:
    """Return (absolute path, line from 0) of the rows that belong to the call here, without
    doubles.

    Only where the pointer is on the call's own first or last line: inside a long prompt other
    servers know better where a name is defined.
    """
    rows: dict[tuple[str, int], None] = {}
    for site in placed:
        if site.stale or not site.span.contains(line, column):
            continue
        for recorded in site.newest:
            call = recorded.call
            nearest = call.nearest
            if call.cassette and call.row:
                rows[recorded.test.absolute(call.cassette), call.row - 1] = None
            elif nearest is not None and nearest.cassette:
                rows[recorded.test.absolute(nearest.cassette), nearest.row - 1] = None
    for forecast in forecasts:
        if forecast.path is not None and forecast.row is not None and forecast.span.contains(line, column):
            rows[forecast.path, forecast.row - 1] = None
    return list(rows)
