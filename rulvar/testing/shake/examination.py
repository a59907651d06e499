"""Holds one recorded segment against replays under every condition, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from rulvar.engine.engine import Engine
from rulvar.engine.reach import ProjectFiles
from rulvar.engine.workflow import Workflow
from rulvar.testing.shake.comparison import Move, first_move
from rulvar.testing.shake.conditions import CONDITIONS, EVERY_RUN, PLAIN, Condition, Surroundings
from rulvar.testing.shake.segments import child_segments
from rulvar.testing.shake.trace import RecordedSegment, Trace, trace_replay

__all__ = ["Examination", "Examiner"]


@dataclass(slots=True)
class Examination:
    """What came of a segment and of the children in it.

    Attributes:
        moves: workflow name, condition and move.
        calls: how many calls were compared.
        left_out: why it could not be compared; None when it could.
    """

    moves: list[tuple[str, str, Move]] = field(default_factory=list)
    calls: int = 0
    left_out: str | None = None


class Examiner:
    """Examines the segments of one round.

    Args:
        number: of the round.
        home: makes the context in which a segment was recorded, where the process began in another.
    """

    def __init__(self, number: int, home: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self._number = number
        self._home = home
        self._project = ProjectFiles()

    def examine(self, engine: Engine, workflow: Workflow[Any], recorded: RecordedSegment) -> Examination:
        """Replay a segment under every condition, then the children that finished in it."""
        result = Examination()
        with self._home():
            self._examine(engine, workflow, recorded, result)
        return result

    def _examine(
        self, engine: Engine, workflow: Workflow[Any], recorded: RecordedSegment, result: Examination
    ) -> None:
        around = Surroundings(self._number, self._project, workflow.body)
        plain = self._replay(engine, workflow, recorded, PLAIN, around)
        if not plain.finished:
            result.left_out = result.left_out or (
                f"workflow {recorded.workflow!r}: a replay waits for something that is not in its journal"
            )
            return
        result.calls += len(plain.claims)
        for condition, move in self._moves(engine, workflow, recorded, plain, around):
            result.moves.append((recorded.workflow, condition, move))
        for call, segment in child_segments(recorded, plain.children):
            self._examine(engine, call.workflow, segment, result)

    def _moves(
        self,
        engine: Engine,
        workflow: Workflow[Any],
        recorded: RecordedSegment,
        plain: Trace,
        around: Surroundings,
    ) -> Iterator[tuple[str, Move]]:
        """Yield what moved in a plain replay, and under each condition what moved before that."""
        known = first_move(recorded.trace, plain)
        if known is not None:
            again = self._replay(engine, workflow, recorded, PLAIN, around)
            yield (PLAIN.name if _calls(plain) == _calls(again) else EVERY_RUN), known
        for condition in CONDITIONS:
            trace = self._replay(engine, workflow, recorded, condition, around)
            move = first_move(recorded.trace, trace, ordered=condition.ordered) if trace.finished else None
            if move is not None and (known is None or move.position < known.position):
                again = self._replay(engine, workflow, recorded, PLAIN, around)
                is_steady = first_move(recorded.trace, again) == known
                yield (condition.name if is_steady else EVERY_RUN), move

    def _replay(
        self,
        engine: Engine,
        workflow: Workflow[Any],
        recorded: RecordedSegment,
        condition: Condition,
        around: Surroundings,
    ) -> Trace:
        lateness = None if condition.late is None else around.random(condition.late + 10)
        with condition.around(around):
            return trace_replay(engine, workflow, recorded, lateness=lateness)


def _calls(trace: Trace) -> list[tuple[str, str]]:
    return [(claim.scope, claim.key) for claim in trace.claims]
