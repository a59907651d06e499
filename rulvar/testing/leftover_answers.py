"""Scripted answers that a run did not ask for: they change nothing, and are told."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection

from rulvar.contracts.outcome import Outcome
from rulvar.testing.answers import Answers

__all__ = ["UnusedAnswerWarning", "check_answers"]


class UnusedAnswerWarning(UserWarning):
    """An answer was scripted, and the run never asked for it."""


def check_answers(answers: Answers, outcome: Outcome, known: Collection[str]) -> list[str]:
    """Return what to warn of, once a run has gone as far as it does.

    An answer that fits nothing leaves the run where it is; whoever looks why is told of a name that may be
    a typing error, and which come near.

    Args:
        known: names of the transitions of the machines that the run may start.
    """
    is_over = outcome.status == "ok"
    if not is_over and outcome.status != "suspended":
        return []
    told = [
        f"answers: the run never asked for {name!r}{_near(name, answers.asked, known)}"
        for name in answers.unasked
    ]
    for name, count in answers.queued.items() if is_over else ():
        values = "1 queued value was" if count == 1 else f"{count} queued values were"
        told.append(f"answers[{name!r}]: {values} not asked for: the run ended before")
    return told


def warn_of(problems: list[str], stacklevel: int) -> None:
    """Warn of leftover answers at the line that scripted them."""
    for problem in problems:
        warnings.warn(problem, UnusedAnswerWarning, stacklevel=stacklevel + 1)


def _near(name: str, asked: list[str], known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, [*asked, *known], 1)
    asked_for = f"t asked for {', '.join(map(repr, asked)) or 'nothing'}"
    if near and near[0] != name:
        return f"; did you mean {near[0]!r}? I{asked_for}"
    return f"; i{asked_for}"
