"""Scripted answers to the waits of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rulvar.errors import ConfigError
from rulvar.machines.answer import Failure

__all__ = ["Answers", "Queue", "failure", "queue"]


class Queue:
    """Values that are given one per park; one is used up only once it was accepted."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def queue(*values: Any) -> Queue:
    """Answer each park at a wait transition with the next value, and then no more.

    This is how a machine that comes back to the same place is driven a known number of turns.
    """
    return Queue(values)


def failure(message: str | None = None, *, status: Literal["failed", "cancelled"] = "failed") -> Failure:
    """Answer a wait transition with a failure, as if the child that it waits for had failed.

    Raises:
        ConfigError: another status.
    """
    if status not in ("failed", "cancelled"):
        raise ConfigError(f"failure status={status!r}: use 'failed' or 'cancelled'", data={"field": "status"})
    default = "the child was cancelled" if status == "cancelled" else "the child failed"
    return Failure(default if message is None else str(message), status)


class Answers:
    """Answers by wait transition (or by the key of any other wait), and how far each queue is used."""

    def __init__(self, answers: Mapping[str, Any] | None) -> None:
        if answers is not None and not isinstance(answers, Mapping):
            raise ConfigError(
                f"answers: expected a mapping of wait transitions to values, got {type(answers).__name__}",
                data={"field": "answers"},
            )
        for name in answers or ():
            if not isinstance(name, str):
                raise ConfigError(
                    f"answers: {name!r} is no name: write that of a wait transition, or the key of a wait",
                    data={"field": "answers"},
                )
        self._answers = dict(answers or {})
        self._used: dict[str, int] = {}
        self._asked: dict[str, None] = {}

    def has(self, name: str) -> bool:
        """Whether there is an answer; what it is does not matter: None and False are answers."""
        if name not in self._answers:
            return False
        answer = self._answers[name]
        return not isinstance(answer, Queue) or self._used.get(name, 0) < len(answer.values)

    def value(self, name: str) -> Any:
        """Return the answer."""
        answer = self._answers[name]
        return answer.values[self._used.get(name, 0)] if isinstance(answer, Queue) else answer

    def note_asked(self, names: Iterable[str]) -> None:
        """See what the run waits for."""
        self._asked.update(dict.fromkeys(names))

    @property
    def asked(self) -> list[str]:
        """Everything that the run has waited for, in order."""
        return list(self._asked)

    @property
    def unasked(self) -> list[str]:
        """Names of the answers that nothing has waited for."""
        return [name for name in self._answers if name not in self._asked]

    @property
    def queued(self) -> dict[str, int]:
        """How many values of each queue are left of those that nothing has asked for, where some are."""
        left = {
            name: len(answer.values) - self._used.get(name, 0)
            for name, answer in self._answers.items()
            if isinstance(answer, Queue) and name in self._asked
        }
        return {name: count for name, count in left.items() if count}

    def accepted(self, name: str) -> None:
        """Use up one value of a queue."""
        self._used[name] = self._used.get(name, 0) + 1
