"""A run as a reader sees it: status, place, path, documents, children, trace; folded from its journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.outcome import Pending
from rulvar.machines.definition import Definition
from rulvar.machines.document import Document
from rulvar.machines.trace import TraceEvent

__all__ = ["LIFECYCLE", "RunView"]

LIFECYCLE: dict[str, str] = {
    "running": "running",
    "ok": "completed",
    "error": "failed",
    "blocked": "failed",
    "exhausted": "failed",
    "outcome_unknown": "failed",
    "cancelled": "cancelled",
    "suspended": "waiting",
}
"""How a run ended (its outcome's status) to where it is in its life."""


@dataclass(slots=True, kw_only=True)
class RunView:
    """One run of a run tree.

    Attributes:
        run_id: the run's id, or the one derived for a child.
        workflow: the workflow's name.
        status: ``pending``, ``running``, ``waiting``, ``completed``, ``failed`` or ``cancelled``.
        place: of a state machine; None for any other workflow.
        path: names of the transitions that ran, one per attempt, whether it succeeded or not.
        state, result: of a state machine; the result may be there before the end.
        error: why it failed, or None.
        documents: those that are there, in order.
        waits: what may be answered.
        trace: what it did; its children have traces of their own.
        traced: whether tool calls in the trace carry arguments and envelopes.
        scope: where it stands in the journal.
        definition: of its machine's class, where the reader knows it.
    """

    run_id: str
    workflow: str
    status: str = "running"
    place: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    args: Any = None
    error: str | None = None
    documents: list[Document] = field(default_factory=list)
    children: list[RunView] = field(default_factory=list)
    waits: tuple[Pending, ...] = ()
    trace: list[TraceEvent] = field(default_factory=list)
    scope: str = ""
    traced: bool = False
    definition: Definition | None = None

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self.workflow

    @property
    def workflow_id(self) -> str:
        """The run's id."""
        return self.run_id

    @property
    def path(self) -> list[str]:
        """Names of the transitions that ran, one per attempt."""
        return [
            event.transition_id
            for event in self.trace
            if event.type in ("transition.completed", "transition.failed")
        ]

    @property
    def tool_calls(self) -> list[TraceEvent]:
        """The tool calls that are over, completed or failed."""
        return [event for event in self.trace if event.type in ("tool.completed", "tool.failed")]

    @property
    def available_transitions(self) -> list[str]:
        """Names of the transitions that may be answered."""
        return [way.transition for way in self.waits if way.transition is not None]

    @property
    def has_error(self) -> bool:
        """Whether it failed."""
        return self.error is not None

    def document(self, name_or_key: str) -> Any:
        """Return the content of the latest document of that name or key, or None."""
        for item in reversed(self.documents):
            if name_or_key in (item.name, item.key):
                return item.content
        return None

    def way(self, transition: str) -> Pending | None:
        """Return the way out that a transition is, or None."""
        return next((way for way in self.waits if way.transition == transition), None)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and nobody can make it go on."""
        failed_for_good = self.status == "failed" and not self.waits
        return failed_for_good or self.status in ("completed", "cancelled")

    def open_tree(self) -> list[RunView]:
        """Return the runs that may still be answered, depth first.

        A child that waits when the root ends may go on; what waits below a child that has ended may not.
        """
        if self.is_over and self.scope:
            return []
        below = [node for child in self.children for node in child.open_tree()]
        return below if self.is_over else [self, *below]

    def tree(self) -> list[RunView]:
        """Return this run and all below it, depth first."""
        return [self, *(node for child in self.children for node in child.tree())]
