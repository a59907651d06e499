"""Control flow that unwinds workflow code, also when a task group has wrapped it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from rulvar.errors import ControlFlow, ReplayStopped

__all__ = ["finished", "unwrapped"]

T = TypeVar("T")

_WORST = ("outcome_unknown", "exhausted", "blocked")
"""How a run ends that an error ends, where it is worse than an error; the worst first."""


def unwrapped(error: BaseException) -> BaseException:
    """Return what an exception group comes to, or the exception itself.

    A stopped run stops whatever else went wrong beside it, a suspended one comes next. Of ordinary
    exceptions the worst counts: a write that may have happened is no error that may be tried again. One
    alone stands for its group, and several of equal weight are what they are.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = _leaves(error)
    for kind in (ReplayStopped, ControlFlow):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    if all(isinstance(leaf, asyncio.CancelledError) for leaf in leaves):
        return leaves[0]
    if not isinstance(error, ExceptionGroup):
        return error
    for status in _WORST:
        for leaf in leaves:
            if getattr(leaf, "run_status", None) == status:
                return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    rest: list[BaseException] = [group]
    while rest:
        error = rest.pop()
        if isinstance(error, BaseExceptionGroup):
            rest.extend(reversed(error.exceptions))
        else:
            found.append(error)
    return found


async def finished(work: Coroutine[Any, Any, T], *, at_once: bool = False) -> T:
    """Await work to its end, also when whoever waits for it is cancelled meanwhile; the cancellation comes after.

    Args:
        at_once: the work waits for nothing, so that no cancellation can strike while it is done.
    """
    if at_once:
        return await work
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
