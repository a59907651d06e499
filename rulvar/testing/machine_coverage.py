"""Which transitions and parks of a state machine a set of runs has exercised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rulvar.errors import ConfigError
from rulvar.machines.app import definition_of
from rulvar.machines.view import RunView

__all__ = ["Coverage", "coverage", "executed_and_parked", "view_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What runs of one machine covered.

    A failed attempt counts as executed. A park is a wait transition that was offered, at an error place too.

    Attributes:
        workflow: the machine's name.
        missing_transitions, missing_parks: in declaration order.
        complete: whether nothing is missing.
    """

    workflow: str
    declared_transitions: frozenset[str]
    executed_transitions: frozenset[str]
    missing_transitions: list[str]
    declared_parks: frozenset[str]
    parked_on: list[str]
    missing_parks: list[str]

    @property
    def complete(self) -> bool:
        """Whether every transition ran and every park was offered."""
        return not self.missing_transitions and not self.missing_parks


def coverage(runs: Any, machine: Any) -> Coverage:
    """Return what some runs covered of a machine; children in their run trees count.

    Args:
        runs: test runs or run views; one alone may be given as it is.
        machine: the class.

    Raises:
        ConfigError: no state machine, or something that is no run.
    """
    definition = definition_of(machine)
    if definition is None:
        raise ConfigError(f"coverage: {machine!r} is no state machine", data={"field": "machine"})
    executed: dict[str, None] = {}
    parked: dict[str, None] = {}
    if not isinstance(runs, Iterable):
        runs = [runs]
    for number, run in enumerate(runs):
        for node in view_of(run, f"coverage runs[{number}]").tree():
            if node.workflow != definition.name:
                continue
            ran, offered = executed_and_parked(node)
            executed.update(ran)
            parked.update(offered)
    parks = list(dict.fromkeys(item.name for item in definition.transitions if item.wait))
    return Coverage(
        workflow=definition.name,
        declared_transitions=frozenset(definition.names),
        executed_transitions=frozenset(executed) & frozenset(definition.names),
        missing_transitions=[name for name in definition.names if name not in executed],
        declared_parks=frozenset(parks),
        parked_on=[name for name in parks if name in parked],
        missing_parks=[name for name in parks if name not in parked],
    )


def executed_and_parked(node: RunView) -> tuple[dict[str, None], dict[str, None]]:
    """Return the transitions that a run executed, and the wait transitions that it was offered, in order."""
    parked: dict[str, None] = {}
    for event in node.trace:
        if event.type == "run.settled":
            parked.update(dict.fromkeys(event.get("availableTransitions") or ()))
    return dict.fromkeys(node.path), parked


def view_of(run: Any, what: str) -> RunView:
    """Return the view of a test run, or a view itself.

    Raises:
        ConfigError: neither.
    """
    view = getattr(run, "view", run)
    if not isinstance(view, RunView):
        raise ConfigError(f"{what}: expected a run, got {type(run).__name__}")
    return view
