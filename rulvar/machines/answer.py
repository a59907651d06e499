"""Answers to a wait transition: a person's payload, or the end of a child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.outcome import Pending
from rulvar.engine.waits import refuse_payload
from rulvar.errors import ResolutionError, RulvarError
from rulvar.machines.definition import Definition, Transition
from rulvar.machines.state import Frozen, open_draft

__all__ = ["Failure", "Input", "Status", "admit", "answer_of", "guard_holds", "guarded_state"]

Status = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Given as an answer: what the transition waits for has failed."""

    message: str = "the child failed"
    status: Literal["failed", "cancelled"] = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What the body of a wait transition is given.

    Attributes:
        id: the run id of the child that ended; None for an answer from outside.
        status: ``completed``, ``failed`` or ``cancelled``; an answer from outside is completed.
        data: the payload, checked and revived, or the child's result; None unless it completed.
        message: why it did not complete, or None.
        meta: what the child was started with.
    """

    id: str | None = None
    status: Status = "completed"
    data: Any = None
    message: str | None = None
    meta: Any = None

    @property
    def has_error(self) -> bool:
        """Whether it did not complete."""
        return self.status != "completed"


def admit(
    definition: Definition, machine: Any, place: str, state: Mapping[str, Any], way: Pending, value: Any
) -> dict[str, Any]:
    """Check an answer against guard and payload, and return what is journaled for it.

    Raises:
        ResolutionError: the guard says not now, or the payload does not fit; names the transition.
    """
    name = way.transition or ""
    transition = definition.at(place, name)
    if transition is None:
        raise ResolutionError(
            f"{definition.name!r} has no transition {name!r} at {place!r} any more; resume the run, and it waits for "
            "what the class declares now",
            data={"key": way.key},
        )
    try:
        holds = guard_holds(definition, machine, transition, state)
    except RulvarError as error:
        data = {**error.data, "key": way.key}
        raise ResolutionError(f"{error.message}; the wait stays open", data=data) from error
    if not holds:
        raise ResolutionError(
            f"guard {transition.guard!r} of transition {name!r} does not let the answer in now; the wait stays open",
            data={"key": way.key, "guard": transition.guard},
        )
    if isinstance(value, Failure):
        return {
            "transition": name,
            "status": value.status,
            "data": None,
            "message": value.message,
            "checked": True,
        }
    plain = refuse_payload(Pending(key=way.key, scope=way.scope, entry_ref=way.entry_ref), value)
    problem = payload_problem(transition, plain)
    if problem is not None:
        raise ResolutionError(
            f"the payload of transition {name!r} does not fit: {problem}; the wait stays open",
            data={"key": way.key, "transition": name},
        )
    return {"transition": name, "status": "completed", "data": plain, "checked": True}


def payload_problem(transition: Transition, plain: Any) -> str | None:
    """Return what is wrong with a payload, with the path of the field, or None."""
    if transition.payload is None:
        return None
    issues = transition.payload.issues(plain)
    if not issues:
        return None
    path = "".join(f"[{part!r}]" for part in issues[0].path)
    return f"payload{path}: {issues[0].message}"


def answer_of(transition: Transition, resolution: Mapping[str, Any]) -> Input:
    """Return the input that a journaled resolution means."""
    status = resolution.get("status", "completed")
    data = resolution.get("data")
    if status == "completed" and transition.payload is not None:
        data = transition.payload.revive(data)
    return Input(
        id=resolution.get("child"),
        status=status,
        data=data if status == "completed" else None,
        message=resolution.get("message"),
        meta=resolution.get("meta"),
    )


def guarded_state(definition: Definition, state: Mapping[str, Any]) -> Any:
    """Return the state as a guard sees it: an instance of its type, or a read-only mapping."""
    if definition.state_type is not None:
        return open_draft(state, definition.state_type)
    return Frozen(state)


def guard_holds(
    definition: Definition, machine: Any, transition: Transition, state: Mapping[str, Any]
) -> bool:
    """Ask a transition's guard; without one the way is free.

    Raises:
        RulvarError: the guard raised; names guard, transition and class.
    """
    if transition.guard is None:
        return True
    try:
        return bool(definition.guards[transition.guard](machine, guarded_state(definition, state)))
    except Exception as error:
        raise RulvarError(
            f"guard {transition.guard!r} of transition {transition.name!r} of {definition.machine.__name__} raised "
            f"{type(error).__name__}: {error}",
            data={"guard": transition.guard, "transition": transition.name},
        ) from error
