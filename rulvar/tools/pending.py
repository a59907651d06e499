"""Async tools: a call whose result is supplied by a child workflow, often one that asks a human."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.envelope import ToolEnvelope

__all__ = ["ChildOutcome", "PendingChild", "from_child"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOutcome:
    """How a child ended: what ``complete`` makes the tool's result of.

    Attributes:
        status: ``completed``, ``failed`` or ``cancelled``.
        data: the child's result, as JSON; None unless it completed.
        message: why it did not complete.
        error: what the child raised; None when it did not.
    """

    status: Literal["completed", "failed", "cancelled"]
    data: Any = None
    message: str | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class PendingChild:
    """The child that supplies a tool's result."""

    workflow: Any
    args: Any
    complete: Callable[[ChildOutcome], Any] | None = None


def from_child(
    workflow: Any, args: Any = None, *, complete: Callable[[ChildOutcome], Any] | None = None
) -> ToolEnvelope:
    """Return from a tool: a child workflow will supply the result.

    The caller waits until the child has ended; a run in which nothing else moves suspends meanwhile. The
    tool itself must have no effects of its own: it is asked again when the run is resumed.

    Args:
        workflow: a state machine, a workflow, or the name of one that the engine knows.
        complete: makes the tool's result (data or an envelope) of how the child ended. Unless given, the
            child's result is passed through and a child that failed fails the call.
    """
    return ToolEnvelope(pending=PendingChild(workflow, args, complete))
