"""What a shake found: calls whose identity moved, where they stand, and under which conditions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from rulvar.contracts.messages import camel_case
from rulvar.testing.report import SiteReport

__all__ = ["MoveKind", "ShakeMove", "ShakeReport", "merge_moves"]

MoveKind = Literal["identity", "order", "missing", "outcome", "failure"]


_MOST_LEFT_OUT = 10


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename=camel_case):
    """A part of a report: every field is written, null included."""


class ShakeMove(_Part, frozen=True, kw_only=True):
    """The first thing that moved in a run.

    Attributes:
        test: node id of the test, or None.
        kind: ``identity`` (a call is another one), ``order`` (the same calls in another order),
            ``missing`` (a recorded call is not made), ``outcome`` (every call is the same, and the
            result is not) or ``failure`` (the workflow fails).
        position: which of the run's calls it is, counted from 0.
        call: what the call is, in a few words.
        field: path of the first field of the identity that differs; None for other kinds.
        recorded, now: both sides, shortened around their first difference.
        conditions: under which it moved.
    """

    test: str | None
    run_id: str
    workflow: str
    kind: MoveKind
    position: int
    call: str
    site: SiteReport | None
    field: str | None
    recorded: str | None
    now: str | None
    conditions: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What a person is told of it in a line, beside the place in the source."""
        sides = "" if self.kind == "missing" else f": recorded {_side(self.recorded)}, now {_side(self.now)}"
        field = f" ({self.field})" if self.field else ""
        return f"{self.call}: {_HEADINGS[self.kind]}{field} under {', '.join(self.conditions)}{sides}"

    @property
    def lines(self) -> list[str]:
        """What a person is told of it."""
        place = "" if self.site is None else f"{self.site.file}:{self.site.line} in {self.site.function}: "
        lines = [f"{place}{self.call}: {_HEADINGS[self.kind]}{f' ({self.field})' if self.field else ''}"]
        if self.kind != "missing":
            lines += [f"  recorded: {_side(self.recorded)}", f"  now:      {_side(self.now)}"]
        lines.append(f"  under: {', '.join(self.conditions)}")
        return lines


class ShakeReport(_Part, frozen=True, kw_only=True):
    """All of a shake.

    Attributes:
        rounds: how many processes ran everything again.
        runs: how many recorded runs were compared.
        calls: how many of their calls.
        moves: what moved, the first of each run and condition.
        left_out: what could not be compared, and why.
    """

    rounds: int
    runs: int
    calls: int
    moves: tuple[ShakeMove, ...]
    left_out: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return wire

    @property
    def is_steady(self) -> bool:
        """Whether nothing moved."""
        return not self.moves

    @property
    def lines(self) -> list[str]:
        """What a person is told."""
        lines: list[str] = []
        told = None
        for move in self.moves:
            title = f"MOVED {move.test or move.run_id}: workflow {move.workflow!r}"
            if title != told:
                lines.append(title)
                told = title
            lines += [f"  {line}" for line in move.lines]
        lines += [f"not compared: {text}" for text in self.left_out[:_MOST_LEFT_OUT]]
        if len(self.left_out) > _MOST_LEFT_OUT:
            lines.append(f"not compared: {len(self.left_out) - _MOST_LEFT_OUT} more")
        lines.append(self.summary)
        return lines

    @property
    def summary(self) -> str:
        """One line for a person."""
        return (
            f"shaken: {_count(self.runs, 'run')} with {_count(self.calls, 'call')} in "
            f"{_count(self.rounds, 'round')}: {_count(len(self.moves), 'move') if self.moves else 'nothing moved'}"
        )


_HEADINGS: dict[str, str] = {
    "identity": "another identity",
    "order": "the calls come in another order",
    "missing": "recorded, and not made any more",
    "outcome": "another result, although every call is the same",
    "failure": "the workflow fails",
}


def merge_moves(moves: Iterable[ShakeMove]) -> tuple[ShakeMove, ...]:
    """Keep the first move of each run and condition, and put together what is the same.

    Runs come in the order in which they are first told of, the moves of a run in the order of its calls.
    """
    first: dict[tuple[Any, ...], ShakeMove] = {}
    for move in moves:
        for condition in move.conditions:
            key = (move.test, move.run_id, move.workflow, condition)
            if key not in first or move.position < first[key].position:
                first[key] = move
    merged: dict[tuple[Any, ...], ShakeMove] = {}
    for (*_, condition), move in first.items():
        place = (move.test, move.run_id, move.workflow, move.position, move.kind, move.field)
        conditions = (*merged[place].conditions, condition) if place in merged else (condition,)
        merged[place] = msgspec.structs.replace(merged.get(place, move), conditions=conditions)
    runs: dict[tuple[str | None, str], int] = {}
    for move in merged.values():
        runs.setdefault((move.test, move.run_id), len(runs))
    return tuple(sorted(merged.values(), key=lambda move: (runs[move.test, move.run_id], move.position)))


def _side(text: str | None) -> str:
    return "(absent)" if text is None else text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
