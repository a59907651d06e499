"""Waiting that an abort signal ends at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

__all__ = ["Interrupted", "interruptible"]

T = TypeVar("T")


class Interrupted(Exception):
    """The signal was set while something was awaited."""


async def interruptible(awaitable: Awaitable[T], signal: asyncio.Event | None) -> T:
    """Await something in the current task; give up as soon as the signal is set.

    Raises:
        Interrupted: the signal was set first; what was awaited has been cancelled.
    """
    if signal is None:
        return await awaitable
    task = asyncio.current_task()
    assert task is not None
    fired = False

    def fire(watch: asyncio.Future[Any]) -> None:
        nonlocal fired
        if not watch.cancelled() and not fired:
            fired = True
            task.cancel()

    before = task.cancelling()
    watch = asyncio.ensure_future(signal.wait())
    watch.add_done_callback(fire)
    try:
        return await awaitable
    except asyncio.CancelledError:
        if fired and task.uncancel() <= before:
            raise Interrupted from None
        raise
    finally:
        watch.remove_done_callback(fire)
        watch.cancel()
