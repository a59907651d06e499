"""What the agents of one run share: counters, and who runs whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rulvar.agents.limits import Limits
from rulvar.errors import AgentLimitError, RulvarError

__all__ = ["AgentNode", "AgentView", "Counters", "count", "count_descendant", "limit_error"]

_NAMES = {"model_calls": "max_model_calls", "tool_calls": "max_tool_calls", "hook_calls": "max_hook_calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """One agent of a run, and the agents that it ran.

    Attributes:
        status: running, suspended, or how it ended.
        scope: where its calls stand in the journal.
        steps, model_calls, tool_calls: what it did; calls are counted with those of its children.
    """

    agent_id: str
    status: str
    scope: str
    steps: int
    model_calls: int
    tool_calls: int
    children: tuple[AgentView, ...] = ()


@dataclass(slots=True)
class Counters:
    """Calls of an agent and of its descendants."""

    model_calls: int = 0
    tool_calls: int = 0
    hook_calls: int = 0
    descendants: int = 0


@dataclass(slots=True)
class AgentNode:
    """One agent that runs, and the agents that it runs.

    Attributes:
        fault: what ended it, when the agent's own rules did.
        exception: what was raised behind the fault; for a debugger.
        call_ids: ids of the tool calls so far; none may come twice.
    """

    agent_id: str
    limits: Limits
    parent: AgentNode | None = None
    counters: Counters = field(default_factory=Counters)
    children: list[AgentNode] = field(default_factory=list)
    status: str = "running"
    scope: str = ""
    span: str = ""
    steps: int = 0
    fault: RulvarError | None = None
    exception: BaseException | None = None
    call_ids: set[str] = field(default_factory=set)
    state: dict[str, Any] = field(default_factory=dict)

    def view(self) -> AgentView:
        """Return the agent as an inspection tells it."""
        return AgentView(
            agent_id=self.agent_id,
            status=self.status,
            scope=self.scope,
            steps=self.steps,
            model_calls=self.counters.model_calls,
            tool_calls=self.counters.tool_calls,
            children=tuple(child.view() for child in self.children),
        )

    def notes(self, *, in_step: bool) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {
            "steps": self.steps,
            "inStep": in_step,
            "callIds": sorted(self.call_ids),
            "counters": asdict(self.counters),
        }

    def restore(self, notes: Mapping[str, Any]) -> bool:
        """Count what was done before a checkpoint, here and above; returns whether a step was under way."""
        self.steps = notes.get("steps", 0)
        self.call_ids.update(notes.get("callIds", ()))
        for name, number in notes.get("counters", {}).items():
            for node in self.chain:
                setattr(node.counters, name, getattr(node.counters, name) + number)
        return bool(notes.get("inStep"))

    def adopt(self, child: AgentNode) -> None:
        """Count a finished child, here and above."""
        self.children.append(child)
        for name, number in asdict(child.counters).items():
            for node in self.chain:
                setattr(node.counters, name, getattr(node.counters, name) + number)
        for node in self.chain:
            node.counters.descendants += 1

    @property
    def chain(self) -> list[AgentNode]:
        """This agent and its ancestors."""
        nodes: list[AgentNode] = []
        node: AgentNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes

    @property
    def ancestry(self) -> frozenset[str]:
        """Ids of this agent and its ancestors."""
        return frozenset(node.agent_id for node in self.chain)


def count(node: AgentNode, what: str, by: int = 1) -> None:
    """Count calls against an agent and its ancestors.

    Raises:
        AgentLimitError: one of them has made as many as it may; nothing is counted then.
    """
    limit = _NAMES[what]
    for item in node.chain:
        bound = getattr(item.limits, limit)
        if getattr(item.counters, what) + by > bound:
            raise limit_error(item, limit, bound)
    for item in node.chain:
        setattr(item.counters, what, getattr(item.counters, what) + by)


def count_descendant(node: AgentNode) -> None:
    """Count a child against an agent and its ancestors.

    Raises:
        AgentLimitError: one of them has as many descendants as it may.
    """
    for item in node.chain:
        if item.counters.descendants + 1 > item.limits.max_descendants:
            raise limit_error(item, "max_descendants", item.limits.max_descendants)
    for item in node.chain:
        item.counters.descendants += 1


def limit_error(node: AgentNode, name: str, bound: float) -> AgentLimitError:
    """Return the error of an agent that reached a limit."""
    return AgentLimitError(
        f"agent {node.agent_id} reached its limit {name}={bound}",
        data={"agent": node.agent_id, "limit": name, "bound": bound},
    )
