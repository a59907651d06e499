"""Tasks that a workflow makes by itself: they run its code, so they are watched as its body is.

While a step of watched code runs, the loop makes tasks by way of a factory; before and after, by that
of its host.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from rulvar.engine.callers import callers_of, is_of_rulvar

__all__ = ["OwnTasks"]


class OwnTasks:
    """The task factory of one run.

    Args:
        watch: returns a coroutine that runs another one in view.
    """

    def __init__(self, watch: Callable[[Any], Any]) -> None:
        self.watch = watch
        self.factory = self.make  # one object, to be known again
        self.host_factory: Any = None

    def begin_step(self) -> bool:
        """Tell the loop; False when it has been told further out."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        if before is self.factory:
            return False
        self.host_factory = before
        loop.set_task_factory(self.factory)
        return True

    def end_step(self, was_told: bool) -> None:
        """Give the loop its factory back, unless the step has installed another one."""
        loop = asyncio.get_running_loop()
        if was_told and loop.get_task_factory() is self.factory:
            loop.set_task_factory(self.host_factory)

    def make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        """Make a task, in view when the workflow's code asks for it and not a step, a tool or a model."""
        is_code = type(coroutine) is CoroutineType and not is_of_rulvar(coroutine.cr_code)
        if is_code and callers_of(sys._getframe(1))[1]:
            coroutine = self.watch(coroutine)
        return self.make_plain(loop, coroutine, **options)

    def make_plain(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        """Make a task as the loop would."""
        make = self.host_factory
        return (
            asyncio.Task(coroutine, loop=loop, **options)
            if make is None
            else make(loop, coroutine, **options)
        )
