"""A call that has not ended and stands at open waits, in a strict replay: it waits there, and nothing goes live."""

from __future__ import annotations

from typing import Any

from rulvar.engine.branch import Place
from rulvar.engine.primitives.external import wait_open
from rulvar.engine.run import Run
from rulvar.kernel.matching import Operation, scope_below

__all__ = ["stand_at_waits"]


async def stand_at_waits(run: Run, place: Place, operation: Operation | None) -> Any:
    """Wait at the open waits below an operation; the run suspends when nothing else can move."""
    assert operation is not None
    below = scope_below(operation)
    assert below is not None
    run.accounting.served_scopes.append(below)
    *others, last = run.index.waits_below(operation)
    for wait in others:
        run.waits.open(wait.first)
    return await wait_open(run, place, last)
