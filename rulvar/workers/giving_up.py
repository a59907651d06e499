"""Runs that break off again and again at the same place: a worker stops trying, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rulvar.contracts.ports.clock import iso_ms
from rulvar.engine.interruptions import count_interruptions

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

__all__ = ["give_up_if_stuck"]


async def give_up_if_stuck(engine: Engine, run_id: str, meta: Mapping[str, Any], at_most: int | None) -> None:
    """Record a run as failed once it has broken off so often without getting any further.

    Nothing is journaled: whoever resumes or wakes the run finds it as it was, and it may break off as often again.

    Raises:
        RunInterruptedError: it has; nobody takes it up by himself now.
        LeaseHeldError, StoreError: try again later.
    """
    if at_most is None or (at_most > 1 and "interrupted" not in meta):
        return  # it has not broken off twice in a row: its journal need not be read
    held = await engine.hold(run_id)
    try:
        row = await held.load_meta(run_id) or {}
        broken_off = await count_interruptions(run_id, row, await held.load(run_id), held.transcripts)
        refusal = None if broken_off is None else broken_off.refusal(run_id, at_most)
        if broken_off is None or refusal is None:
            return
        told = {
            "status": "error",
            "interrupted": broken_off.to_wire(),
            "updatedAt": iso_ms(engine.clock.now_ms()),
        }
        await held.save_meta(run_id, {**row, **told})
    finally:
        await held.release()
    raise refusal
