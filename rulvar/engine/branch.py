"""Where a call stands while a run executes: its branch, its scope, its span.

A branch is a line of execution that the engine started: the body, a branch of ``parallel``, an item
of a pipeline. It knows whether it can still move, so that the run suspends exactly when every branch
waits for an external answer. A place is what a context variable carries: plain ``asyncio`` code
inside a branch keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

__all__ = ["CURRENT_PLACE", "Attempt", "Branch", "Liveness", "Place"]


class Liveness:
    """Counts the branches of a run that can move; tells when none can."""

    __slots__ = ("moving", "on_still")

    def __init__(self, on_still: Callable[[], None]) -> None:
        self.moving = 0
        self.on_still = on_still


class Branch:
    """One line of execution.

    It stands still while something in it waits (an external answer) or has handed over to branches
    of its own, and nothing in it is busy. A branch that another one started is below it.

    Attributes:
        is_closed: whether whoever started it is over: nothing may begin in it any more.
    """

    __slots__ = (
        "_above",
        "_busy",
        "_handed_over",
        "_liveness",
        "_moving",
        "_moving_below",
        "_waiting",
        "_watchers",
        "is_closed",
    )

    def __init__(self, liveness: Liveness, above: Branch | None = None) -> None:
        self._liveness = liveness
        self._above = above
        self._busy = 0
        self._waiting = 0
        self._handed_over = 0
        self._moving = True
        self._moving_below = 0  # itself included
        self._watchers: list[asyncio.Future[None]] = []
        self.is_closed: bool = above is not None and above.is_closed
        liveness.moving += 1
        self._count(1)

    @property
    def is_moving(self) -> bool:
        """Whether something in it makes progress by itself."""
        return self._moving

    def busy(self, by: int) -> None:
        """Count calls that make progress by themselves."""
        self._busy += by
        self._settle()

    def waiting(self, by: int) -> None:
        """Count waits for an external answer."""
        self._waiting += by
        self._settle()

    def hand_over(self, by: int) -> None:
        """Count calls that wait for branches of their own."""
        self._handed_over += by
        self._settle()

    def end(self) -> None:
        """The line of execution is over."""
        if self._moving:
            self._moving = False
            self._stop_one()

    async def still(self) -> None:
        """Wait until neither the branch nor anything below it moves."""
        while self._moving_below:
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher
            await asyncio.sleep(0)  # what was just answered shows that it moves again

    def _settle(self) -> None:
        moving = self._busy > 0 or (self._waiting == 0 and self._handed_over == 0)
        if moving is self._moving:
            return
        self._moving = moving
        if moving:
            self._liveness.moving += 1
            self._count(1)
        else:
            self._stop_one()

    def _stop_one(self) -> None:
        self._count(-1)
        self._liveness.moving -= 1
        if self._liveness.moving == 0:
            self._liveness.on_still()

    def _count(self, by: int) -> None:
        branch: Branch | None = self
        while branch is not None:
            branch._moving_below += by
            if branch._watchers and not branch._moving_below:
                watchers, branch._watchers = branch._watchers, []
                for watcher in watchers:
                    if not watcher.done():
                        watcher.set_result(None)
            branch = branch._above


class Attempt(Protocol):
    """What the engine knows of one attempt of a transition."""

    transition: str
    is_over: bool
    """Whether it has been rolled back: a call that is made now must not have an effect."""

    def called(self) -> None:
        """Count a tool call that is over, so that documents keep their place among calls."""

    def keep_unknown(self, error: Exception) -> None:
        """See what is told of a call that was interrupted and may have happened: its caller never does."""

    def declare(self, documents: Sequence[Any], tool: Any, call: int | None = None) -> None:
        """Save the documents that a tool's envelope declares; ``call`` is the seq of the call's entry."""


class Place(msgspec.Struct, frozen=True, eq=False):
    """Where a call stands: carried by a context variable, replaced on the way down.

    Attributes:
        run: the run it belongs to.
        branch: its line of execution.
        scope: the scope path in the journal.
        span: span id of what is around it.
        around: span id of what is around that; None at the root.
        phase: the phase it is accounted to.
        workflow: the workflow whose defaults hold.
        account: the budget account that pays.
        depth: how many child workflows deep.
        step: label of the step it runs in, or None.
        attempt: the attempt of a state machine's transition that it runs in, or None.
        grants: what may be used here; None when no grants are in force.
    """

    run: Any
    branch: Branch
    scope: str
    span: str
    workflow: Any
    phase: str | None = None
    account: str = "run"
    depth: int = 0
    step: str | None = None
    attempt: Attempt | None = None
    grants: frozenset[str] | None = None
    around: str | None = None

    def in_step(self, label: str) -> Place:
        """Return the place inside a step's body."""
        return msgspec.structs.replace(self, step=label)

    def in_branch(self, branch: Branch, scope: str, span: str) -> Place:
        """Return the place inside a branch that begins here."""
        return msgspec.structs.replace(self, branch=branch, scope=scope, span=span, around=self.span)

    def at(self, **changes: Any) -> Place:
        """Return a place that differs in some fields; one with another span is inside this one."""
        if changes.get("span", self.span) != self.span:
            changes.setdefault("around", self.span)
        return msgspec.structs.replace(self, **changes)


CURRENT_PLACE: ContextVar[Place | None] = ContextVar("rulvar_place", default=None)
