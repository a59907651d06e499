"""A look into a run: what it is doing, its money, and the agents that it ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.engine.budget import BudgetSnapshot
from rulvar.errors import NotFoundError

if TYPE_CHECKING:
    from rulvar.engine.handle import RunHandle
    from rulvar.engine.run import Run

__all__ = ["RunInspection", "UnderWay", "calls_under_way", "inspect_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInspection:
    """A run at one moment.

    Attributes:
        status: running, or how the segment ended.
        budget: its money, and how many calls were paid for.
        agents: an AgentView per agent value that it ran; the first is the run's own when it is an agent's.
    """

    run_id: str
    status: str
    budget: BudgetSnapshot
    agents: tuple[Any, ...] = ()

    @property
    def agent_id(self) -> str | None:
        """The agent that the run is of; None for another workflow."""
        return self.agents[0].agent_id if self.agents else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A call that a run is making at this moment.

    Attributes:
        kind: ``step`` (a tool's call and a transition are steps too), ``agent`` or ``child``.
        name: a step's label; an agent's, or its type, or its model; a child's workflow.
        scope: where it stands in the journal.
        span: id of its span in events.
        seconds: for how long it has been going on in this segment.
    """

    kind: str
    name: str
    scope: str
    span: str
    seconds: float


def calls_under_way(run: Run) -> tuple[UnderWay, ...]:
    """Return what a run is doing, the first begun first."""
    now = run.clock.now_ms()
    return tuple(
        UnderWay(
            kind=call.kind,
            name=call.name,
            scope=call.scope,
            span=call.span,
            seconds=max(0, now - call.began_ms) / 1000,
        )
        for call in list(run.opened.values())
    )


def inspect_run(handle: RunHandle | None, asked: object) -> RunInspection:
    """Return a look into a run, live or ended.

    Raises:
        NotFoundError: there is no such run, or it has not started yet.
    """
    if handle is None:
        raise NotFoundError(f"this engine has started no run {asked!r}", data={"runId": str(asked)})
    run = handle._run
    if run is None:
        raise NotFoundError(f"run {handle.run_id!r} has not started yet", data={"runId": handle.run_id})
    return RunInspection(
        run_id=handle.run_id,
        status=handle.status,
        budget=run.budget.snapshot(),
        agents=tuple(node.view() for node in run.agents or ()),
    )
