"""The ctx of a replay: it notes the child workflows, and lets served calls return late.

Calls start as they always do. On a live run nobody knows which of several finishes first; a replay
serves them at once and in order, which hides what depends on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.ports.observer import CallSite
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.ctx import Ctx
from rulvar.engine.run import Run
from rulvar.engine.workflow import Workflow
from rulvar.kernel.scope import workflow_scope

__all__ = ["ChildCall", "Pace", "ReplayCtx"]

_LATEST = 12
"""How many rounds of the event loop a call may be late."""


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A child workflow that a body asked for: the scope it has, and the JSON text of its arguments."""

    scope: str
    workflow: Workflow[Any]
    args: bytes | None


@dataclass(slots=True)
class Pace:
    """What a replay does beside serving: how late calls return, and which children were asked for."""

    lateness: random.Random | None = None
    on_run: Callable[[Run], None] | None = None
    children: list[ChildCall] = field(default_factory=list)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def meet(self, run: Run) -> None:
        """Meet the run before its body starts; children of it are no runs of their own."""
        if self.on_run is not None:
            on_run, self.on_run = self.on_run, None
            on_run(run)

    def rounds(self) -> int:
        """Return how many rounds the next call is late."""
        return 0 if self.lateness is None else self.lateness.randrange(_LATEST)

    def note_child(self, scope: str, workflow: Workflow[Any], args: Any) -> None:
        """Note a child workflow that is asked for in a scope."""
        number = self._numbers.get((scope, workflow.name), 0)
        self._numbers[scope, workflow.name] = number + 1
        text = None if args is None else journal_form(args, "child args")
        self.children.append(ChildCall(workflow_scope(scope, workflow.name, number), workflow, text))


class ReplayCtx(Ctx):
    """A ctx of a replay."""

    __slots__ = ("_pace",)

    def __init__(self, run: Run, pace: Pace) -> None:
        super().__init__(run)
        self._pace = pace

    def _site(self) -> CallSite | None:
        return None if self._finder is None else self._finder.caller(3)


def _late(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    def call(self: ReplayCtx, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        return _return_late(method(self, *args, **kwargs), self._pace.rounds())

    return call


async def _return_late(call: Awaitable[Any], rounds: int) -> Any:
    try:
        result = await call
    except Exception:
        await _pass_rounds(rounds)
        raise
    await _pass_rounds(rounds)
    return result


async def _pass_rounds(rounds: int) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


def _noted(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    def call(self: ReplayCtx, child: Any, args: Any = None, **kwargs: Any) -> Awaitable[Any]:
        asked = method(self, child, args, **kwargs)
        return _return_late(_note(self, child, args, asked), self._pace.rounds())

    return call


async def _note(ctx: ReplayCtx, child: Any, args: Any, asked: Awaitable[Any]) -> Any:
    run = ctx._run
    place = CURRENT_PLACE.get()
    scope = run.root.scope if place is None or place.run is not run else place.scope
    with contextlib.suppress(Exception):  # the call itself says what is wrong with it
        ctx._pace.note_child(scope, run.engine.workflow_of(child), args)
    return await asked


def _on_time(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: ReplayCtx, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs)

    return call


# every method that looks up its call site is one frame further away from it
for _name in ("agent", "step", "brief", "await_external"):
    setattr(ReplayCtx, _name, _late(getattr(Ctx, _name)))
for _name in ("now", "time", "random", "uuid"):
    setattr(ReplayCtx, _name, _on_time(getattr(Ctx, _name)))
setattr(ReplayCtx, "workflow", _noted(Ctx.workflow))  # noqa: B010 - a method of another signature
