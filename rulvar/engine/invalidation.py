"""Outcomes that a resume is asked not to keep: which may be named, and how it is journaled that one is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key

if TYPE_CHECKING:
    from rulvar.engine.branch import Place
    from rulvar.engine.run import Run
    from rulvar.kernel.matching import Operation

__all__ = ["check_invalidated", "journal_invalidation"]

_RERUN = frozenset({"agent", "step", "child", "rand"})


def check_invalidated(run_id: str, seqs: Sequence[Any], entries: Sequence[JournalEntry]) -> None:
    """Refuse what is no seq of an operation that can be run again.

    Raises:
        ConfigError: names the first that is wrong, and why.
    """
    if not seqs:
        return
    kinds = {entry.seq: entry.kind for entry in entries}
    for seq in seqs:
        if isinstance(seq, bool) or not isinstance(seq, int):
            problem = f"expected the seq of an entry, got {seq!r}"
        elif seq not in kinds:
            problem = f"run {run_id!r} has no entry {seq}; its last one is {max(kinds, default=-1)}"
        elif kinds[seq] not in _RERUN:
            problem = (
                f"entry {seq} of run {run_id!r} is of kind {kinds[seq]!r}, which is never run again; name an entry of "
                "an agent, a step, a child or a rand"
            )
        else:
            continue
        raise ConfigError(f"invalidate: {problem}", data={"field": "invalidate", "value": repr(seq)})


def journal_invalidation(run: Run, place: Place, operation: Operation) -> None:
    """Keep that an outcome is not served any more: what this segment makes of the call takes its place."""
    target = operation.first.seq
    key = content_key({"kind": "invalidation", "target": target})
    assert key is not None
    run.decide_soon(place.scope, key, place.span, {"decisionType": "invalidation", "target": target})
