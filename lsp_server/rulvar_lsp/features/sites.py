"""Where the calls of the reports stand in the text as it is now.

A call is *current* when the lines it stood on still have the digest of the run, *moved* when
exactly its lines are found elsewhere, and *stale* otherwise: then it is shown at its most likely
place, never as if it were true of the text that stands there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rulvar_lsp.snapshot import RecordedCall
from rulvar_lsp.text import Span, Text, stripped_digest

if TYPE_CHECKING:
    from rulvar_lint import CtxCallSpan
    from rulvar_lsp.features.outline import Block
    from rulvar_lsp.report import Site

_RECORDED_KINDS = frozenset({"agent", "step", "workflow", "await_external"})


@dataclass(frozen=True, slots=True)
class StaticCall:
    """A journaling call found in the text, and the function it stands in."""

    span: Span
    function: str = ""
    kind: str = "agent"


@dataclass(frozen=True, slots=True)
class PlacedSite:
    """A call site of the reports, put into the present text."""

    span: Span
    stale: bool
    site: Site
    calls: tuple[RecordedCall, ...]

    @property
    def newest(self) -> tuple[RecordedCall, ...]:
        """The calls, newest run first."""
        return tuple(sorted(self.calls, key=lambda c: c.test.created, reverse=True))


def static_calls(outline: Sequence[Block], spans: Iterable[CtxCallSpan]) -> tuple[StaticCall, ...]:
    """The lint's calls that leave an entry of their own in a journal, with the functions around them."""
    functions = [block for block in outline if block.kind == "function"]
    starts = [block.name_span.line for block in functions]
    found = []
    for span in spans:
        if span.kind in _RECORDED_KINDS:
            line = span.line - 1
            before = (functions[n] for n in range(bisect_right(starts, line) - 1, -1, -1))
            name = next((block.name for block in before if line <= block.last_line), "")
            place = Span(line, span.column - 1, span.end_line - 1, span.end_column - 1)
            found.append(StaticCall(place, name.rpartition("::")[2], span.kind))
    return tuple(found)


def place_sites(
    text: Text, recorded: Sequence[RecordedCall], static: Sequence[StaticCall] | None
) -> tuple[PlacedSite, ...]:
    """Put every recorded call into the text.

    `static` are the calls that the text has now, or None when it does not parse. Sites whose call
    was deleted are left out.
    """
    by_site: defaultdict[Site, list[RecordedCall]] = defaultdict(list)
    for call in recorded:
        by_site[call.site].append(call)
    lines_of = _match_digests(text.lines, by_site)
    spans_on: defaultdict[int, list[Span]] = defaultdict(list)
    for known in static or ():
        spans_on[known.span.line].append(known.span)
    newest: dict[tuple[int, int, int], PlacedSite] = {}
    lost: list[Site] = []
    for site, calls in by_site.items():
        line = lines_of.get(site)
        if line is None:
            lost.append(site)
            continue
        span = _span_in(text, site, line, spans_on.get(line, ()))
        fresh = tuple(call for call in calls if not call.test.outdated)
        _keep_newest(newest, PlacedSite(span, not fresh, site, fresh or tuple(calls)))
    claimed = [(placed.site, placed.span) for placed in newest.values()]
    for site, span in _place_lost(text, lost, claimed, static):
        _keep_newest(newest, PlacedSite(span, True, site, tuple(by_site[site])))
    return tuple(sorted(newest.values(), key=lambda p: (p.span.line, p.span.column)))


def _keep_newest(placed: dict[tuple[int, int, int], PlacedSite], one: PlacedSite) -> None:
    """Two digests at one place are runs before and after an edit: what is true now stays."""
    key = (one.span.line, one.span.end_line, one.span.end_column)
    other = placed.get(key)
    if other is None:
        placed[key] = one
    elif other.stale == one.stale:
        if other.stale and _newest_run(one) > _newest_run(other):
            placed[key] = one
        elif not other.stale:
            placed[key] = PlacedSite(one.span, False, one.site, other.calls + one.calls)
    elif other.stale:
        placed[key] = one


def _newest_run(placed: PlacedSite) -> float:
    return max(call.test.created for call in placed.calls)


def _match_digests(lines: Sequence[str], sites: Iterable[Site]) -> dict[Site, int]:
    """Return the line (from 0) at which each site's lines stand now; sites without one are left
    out.

    Equal lines keep their order. When their number changed, only those still at their place count.
    """
    groups: defaultdict[tuple[str, int], list[Site]] = defaultdict(list)
    for site in sites:
        groups[site.digest, max(1, site.end_line - site.line + 1)].append(site)
    stripped = [line.strip() for line in lines]
    windows: dict[int, dict[str, list[int]]] = {}
    found: dict[Site, int] = {}
    for (digest, height), members in groups.items():
        if height not in windows:
            windows[height] = _windows(stripped, height)
        places = windows[height].get(digest, [])
        rows = [list(g) for _, g in groupby(sorted(members, key=_place_of), key=lambda s: s.line)]
        if len(rows) == len(places):
            pairs = list(zip(rows, places, strict=True))
        else:
            pairs = [(row, row[0].line - 1) for row in rows if row[0].line - 1 in places]
        for row, line in pairs:
            found.update(dict.fromkeys(row, line))
    return found


def _place_of(site: Site) -> tuple[int, int]:
    return site.line, site.column


def _windows(stripped: Sequence[str], height: int) -> dict[str, list[int]]:
    """Map the digest of every `height` lines to where they begin."""
    windows: defaultdict[str, list[int]] = defaultdict(list)
    digest_of: dict[str, str] = {}
    for start in range(len(stripped) - height + 1):
        if not stripped[start]:
            continue  # a call begins with its text
        body = "\n".join(stripped[start : start + height])
        digest = digest_of.get(body)
        if digest is None:
            digest = digest_of[body] = stripped_digest(body)
        windows[digest].append(start)
    return windows


def _span_in(text: Text, site: Site, line: int, here: Sequence[Span]) -> Span:
    """The call's span at its line now, where the calls `here` stand; columns may differ by the indentation."""
    height = site.end_line - site.line
    if here:
        return min(here, key=lambda span: abs(span.column - (site.column - 1)))
    span = Span(line, site.column - 1, line + height, site.end_column - 1)
    return text.clamp(span)


def _place_lost(
    text: Text,
    lost: Sequence[Site],
    claimed: Sequence[tuple[Site, Span]],
    static: Sequence[StaticCall] | None,
) -> list[tuple[Site, Span]]:
    """Give sites whose lines have changed the calls that nothing else claims, in order."""
    placed: list[tuple[Site, Span]] = []
    anchors = sorted((site.line, span.line + 1 - site.line) for site, span in claimed)
    shift_at = _shifts(anchors)
    free = _FreeCalls(static or (), {(span.line, span.column) for _, span in claimed})
    for site in sorted(lost, key=_place_of):
        expected = site.line - 1 + shift_at(site.line)
        if static is not None:
            if (best := free.take(expected, site.function)) is not None:
                placed.append((site, best))
        elif text.line(expected).strip():
            placed.append((site, text.clamp(Span(expected, 0, expected, 1 << 20))))
    return placed


class _FreeCalls:
    """Calls that no site has claimed, each given out once."""

    def __init__(self, static: Iterable[StaticCall], taken: set[tuple[int, int]]) -> None:
        self._in: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # by function, in order
        self._calls: dict[tuple[int, int], StaticCall] = {}
        for call in static:
            if (place := (call.span.line, call.span.column)) not in taken:
                self._calls[place] = call
        for place in sorted(self._calls):
            self._in[_short(self._calls[place].function)].append(place)

    def take(self, line: int, function: str | None) -> Span | None:
        """The call nearest to a line, in the function where one is known and not elsewhere."""
        names = ("", _short(function)) if function else tuple(self._in)
        near = [place for name in dict.fromkeys(names) for place in _around(self._in.get(name, ()), line)]
        if not near:
            return None
        best = min(near, key=lambda place: (abs(place[0] - line), place))
        call = self._calls[best]
        places = self._in[_short(call.function)]
        del places[bisect_left(places, best)]
        return call.span


def _short(function: str | None) -> str:
    return (function or "").rpartition(".")[2]


def _around(places: Sequence[tuple[int, int]], line: int) -> Sequence[tuple[int, int]]:
    """The places next to a line: the first of the nearest line above, and the first from the line on."""
    after = bisect_right(places, (line, -1))
    if after == 0:
        return places[:1]
    above = bisect_right(places, (places[after - 1][0], -1))
    return (places[above], *places[after : after + 1])


def _shifts(anchors: Sequence[tuple[int, int]]) -> Callable[[int], int]:
    """How far the nearest matched line above (else below) a line has moved, as a function of the line."""
    lines = [line for line, _ in anchors]

    def shift_at(line: int) -> int:
        above = bisect_right(lines, line)
        return anchors[max(above - 1, 0)][1] if anchors else 0

    return shift_at
