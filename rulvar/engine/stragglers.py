"""Calls that a workflow's body has left behind: they are stopped before the run is settled, so that nothing paid is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = ["stop_stragglers"]


async def stop_stragglers(run: Run) -> None:
    """Cancel the calls that nobody has awaited, and wait until each has journaled how it ended."""
    run.is_over = True  # whoever is left behind calls nothing more
    own = asyncio.current_task()
    tasks = {call.task for call in run.opened.values() if call.task is not None}
    left = {task for task in tasks if task is not own and not task.done()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    for task in left:
        if not task.cancelled():
            task.exception()  # seen: nobody else asks
