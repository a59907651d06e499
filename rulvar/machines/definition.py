"""What a state machine's class declares: transitions, retries, places.

``@transition`` only leaves a mark on a method; ``machines.compile`` reads the marks when the class is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, overload

from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.schema import SchemaContract
from rulvar.engine.calls import Call
from rulvar.errors import MachineDefinitionError
from rulvar.machines.names import plain_name

__all__ = ["END", "START", "Definition", "Mark", "Retry", "Transition", "marks_of", "transition"]

START = "start"
END = "end"
DEFAULT_TIMEOUT = 300.0
_NO_METHODS = (type, staticmethod, classmethod, property)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Retry:
    """What happens after an attempt of a transition failed.

    Attributes:
        attempts: how many automatic attempts follow a failure; when they are used up, or with -1 at once, the
            transition may be retried by hand. 0 is none at all. With an error place, -1 is 0.
        delay: seconds before the first of them.
        backoff: ``exponential`` doubles the delay each time, ``fixed`` keeps it.
        max_delay: the longest delay, in seconds.
        target: place to go to before the next attempt, for instance to renew credentials.
    """

    attempts: int = -1
    delay: float = 1.0
    backoff: Literal["exponential", "fixed"] = "exponential"
    max_delay: float = 30.0
    target: str | None = None

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after that many failures, from 1 up."""
        if self.backoff == "fixed":
            return min(self.delay, self.max_delay)
        return min(self.delay * 2.0 ** min(failures - 1, 62), self.max_delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What ``@transition`` was given; one per pair of places."""

    from_: tuple[str, ...]
    to: str
    wait: bool
    payload: Any
    guard: str | Callable[..., Any] | None
    priority: int | None
    retry: Retry | None
    error_place: str | None
    timeout: float | None


@overload
def transition(function: F, /) -> F: ...


@overload
def transition(
    to: str = END,
    from_: str | tuple[str, ...] | list[str] = START,
    *,
    wait: bool = False,
    payload: Any = None,
    guard: str | Callable[..., Any] | None = None,
    priority: int | None = None,
    retry: Retry | None = None,
    error_place: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
) -> Callable[[F], F]: ...


def transition(
    to: Any = END,
    from_: str | tuple[str, ...] | list[str] = START,
    *,
    wait: bool = False,
    payload: Any = None,
    guard: str | Callable[..., Any] | None = None,
    priority: int | None = None,
    retry: Retry | None = None,
    error_place: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
) -> Any:
    """Mark a method of a StateMachine as a transition from one place to another.

    The method is ``async def name(self, ctx)`` (or plain ``def``); that of a wait transition may take the
    answer as well: ``async def name(self, ctx, input)``. It returns nothing: what it changes is on
    ``ctx.state``, ``ctx.result`` and ``ctx.save(...)``, and holds once the transition is committed.
    Several marks on one method give it several places to start from.

    Args:
        to: the place it leads to; ``end`` ends the run.
        from_: the place, or places, that it leaves; ``start`` is the first.
        wait: fires only when an answer arrives.
        payload: JSON Schema or type of the answer; one that does not fit is refused and the run waits on.
        guard: name of a method ``(self, state) -> bool`` without effects; false means not now.
        priority: higher goes first among the transitions of a place; those without one come last.
        retry: what happens when an attempt fails; see Retry.
        error_place: where the run lands, failed, when no attempt is left.
        timeout: seconds per attempt on the engine's clock; 0 or None is no bound.
    """
    if isinstance(to, _NO_METHODS):
        raise _misplaced(to)
    if callable(to):
        _refuse_second(to, sys._getframe(1).f_locals)
        return transition()(to)
    places = tuple(from_) if isinstance(from_, (tuple, list)) else (from_,)

    def mark(function: F) -> F:
        target: Any = function
        if not callable(function) or isinstance(function, _NO_METHODS):
            raise _misplaced(function)
        _refuse_second(function, sys._getframe(1).f_locals)
        own = Mark(
            from_=tuple(plain_name(place) for place in places),
            to=plain_name(to),
            wait=wait,
            payload=payload,
            guard=guard,
            priority=priority,
            retry=replace(retry, target=plain_name(retry.target)) if isinstance(retry, Retry) else retry,
            error_place=plain_name(error_place),
            timeout=timeout,
        )
        try:
            # decorators apply from the bottom up: the lowest mark was made first
            target.__transitions__ = (own, *getattr(target, "__transitions__", ()))
        except (AttributeError, TypeError):
            raise _misplaced(function) from None
        return function

    return mark


def _misplaced(function: Any) -> MachineDefinitionError:
    return MachineDefinitionError(
        f"@transition on {function!r}: put it on a plain method that takes (self, ctx); a static method, a class "
        "method, a property or a class is none"
    )


def _refuse_second(function: Any, body: Mapping[str, Any]) -> None:
    """Refuse a transition whose name the class body that is being executed has given already."""
    name = getattr(function, "__name__", None)
    earlier = body.get(name) if isinstance(name, str) and "__qualname__" in body else None
    if earlier is not None and earlier is not function and marks_of(earlier):
        machine = str(body["__qualname__"]).rpartition(".")[2]
        raise MachineDefinitionError(
            f"{machine}: transition {name!r} is defined twice, and the second would replace the first; rename one, or "
            "put both @transition marks on one method",
            data={"machine": machine, "transition": name},
        )


def marks_of(attribute: Any) -> tuple[Mark, ...]:
    """Return the marks of a class attribute."""
    marks = getattr(attribute, "__transitions__", ())
    return marks if isinstance(marks, tuple) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One way from a place to another.

    Attributes:
        name: of the method.
        call: what the journal finds its commits by.
        takes_input: whether the body takes the answer.
        retries: automatic attempts after the first; by_hand tells whether more may be asked for.
    """

    name: str
    from_: str
    to: str
    wait: bool
    payload: SchemaContract | None
    guard: str | None
    priority: int | None
    retry: Retry
    error_place: str | None
    timeout: float | None
    takes_input: bool
    call: Call
    site: CallSite | None = None

    @property
    def retries(self) -> int:
        """How many automatic attempts follow the first."""
        return max(0, self.retry.attempts)

    @property
    def by_hand(self) -> bool:
        """Whether a failed run may be answered with this transition, to try it again."""
        return self.retry.attempts != 0 and self.error_place is None

    @property
    def takes_failures(self) -> bool:
        """Whether a failed callback goes to the body; otherwise it fails the transition."""
        return self.error_place is None and self.retries == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A compiled state machine.

    Attributes:
        name: of the workflow.
        machine: the class.
        transitions: in declaration order.
        leaving: transitions by the place they leave, in the order in which they are tried.
        args, state: contracts, or None.
        state_type: the type that bodies see the state as; None is a mapping.
        widgets: widgets that sit on the workflow itself.
        title, description: for people.
        at_rest: a wait transition that fires by itself when no child is at work and no end of one can be taken.
    """

    name: str
    machine: type
    transitions: tuple[Transition, ...]
    leaving: Mapping[str, tuple[Transition, ...]]
    args: SchemaContract | None = None
    state: SchemaContract | None = None
    state_type: type | None = None
    widgets: tuple[Any, ...] = ()
    title: str | None = None
    description: str | None = None
    at_rest: str | None = None
    guards: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def at(self, place: str, name: str) -> Transition | None:
        """Return the transition of that name that leaves a place."""
        return next((item for item in self.leaving.get(place, ()) if item.name == name), None)

    def waits_at(self, place: str) -> tuple[Transition, ...]:
        """Return the wait transitions that leave a place."""
        return tuple(item for item in self.leaving.get(place, ()) if item.wait)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the transitions, each once, in declaration order."""
        return tuple(dict.fromkeys(item.name for item in self.transitions))
