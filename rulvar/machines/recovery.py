"""How a failed machine may go on: what its error place offers, or the failed transition by hand."""

from __future__ import annotations

from rulvar.errors import ReplayDriftError
from rulvar.machines.commit import Commit
from rulvar.machines.definition import Definition, Transition

__all__ = ["recovery_ways"]


def recovery_ways(definition: Definition, failure: Commit) -> tuple[Transition, ...]:
    """Return the transitions that may be answered after a failure; none when it is final.

    At an error place these are all transitions that leave it, waiting or not: none fires by itself. A
    transition without an error place may be tried again by hand, where its retry says so, and the waits
    of its place stay open beside it.
    """
    if failure.error is not None and failure.error.get("code") == ReplayDriftError.code:
        return ()
    failed = definition.at(failure.from_, failure.transition)
    if failed is None or failed.error_place is not None:
        return definition.leaving.get(failure.to, ())
    if not failed.by_hand:
        return ()
    waits = definition.waits_at(failure.to)
    return waits if failed in waits else (failed, *waits)
