"""What a resume does with a journaled operation: one table.

The table is keyed by hash version and status. Conditions that a status alone cannot decide are
named, and looked up in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

__all__ = ["DISPOSITION_TABLE", "Disposition", "disposition"]


class Disposition(Enum):
    """What to do with the operation that a live call matched."""

    REPLAY = "replay"
    """Serve the recorded outcome."""
    RERUN = "rerun"
    """Run it again: what was recorded is not an outcome to keep."""


class _Condition(Enum):
    MEMOIZED_LIMIT = "memoize-limit"
    MEMOIZED_TASK_ERROR = "memoize-task-error"


DISPOSITION_TABLE: Mapping[int, Mapping[str, Disposition | _Condition]] = {
    1: {
        "ok": Disposition.REPLAY,
        "limit": Disposition.RERUN,
        "error": Disposition.RERUN,
        "cancelled": Disposition.RERUN,
        "running": Disposition.RERUN,
    },
    2: {
        "ok": Disposition.REPLAY,
        "escalated": Disposition.REPLAY,
        "limit": _Condition.MEMOIZED_LIMIT,
        "error": _Condition.MEMOIZED_TASK_ERROR,
        "cancelled": Disposition.RERUN,
        "running": Disposition.RERUN,
    },
}
"""Status of an operation, per hash version; a status that is not listed is rerun."""

_TASK_KINDS = frozenset({"schema-mismatch", "terminal"})


def disposition(
    status: str,
    *,
    hash_version: int = 2,
    memoized: bool = False,
    run_settled_ok: bool = False,
    error: Mapping[str, Any] | None = None,
    invalidated: bool = False,
) -> Disposition:
    """Return what a resume does with an operation of that status.

    Args:
        status: of the terminal entry, or ``running`` when there is none.
        hash_version: of the entry; it selects the table.
        memoized: whether the call asked to keep its failure.
        run_settled_ok: whether the run had already settled ok; its limits then stand.
        error: the wire error of an ``error`` entry.
        invalidated: whether the resume asked to rerun this operation.
    """
    if invalidated:
        return Disposition.RERUN
    rule = DISPOSITION_TABLE.get(hash_version, DISPOSITION_TABLE[2]).get(status, Disposition.RERUN)
    if rule is _Condition.MEMOIZED_LIMIT:
        return Disposition.REPLAY if memoized or run_settled_ok else Disposition.RERUN
    if rule is _Condition.MEMOIZED_TASK_ERROR:
        return Disposition.REPLAY if memoized and _is_task_class(error) else Disposition.RERUN
    assert isinstance(rule, Disposition)
    return rule


def _is_task_class(error: Mapping[str, Any] | None) -> bool:
    """Whether an error is of the task, and would come again: not of the transport."""
    if error is None:
        return False
    data = error.get("data")
    kind = data.get("kind") if isinstance(data, Mapping) else None
    return kind in _TASK_KINDS or (kind == "tool" and not error.get("retryable"))
