"""Agents of a run that the journal tells of and that did not run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.agents.counters import AgentNode
from rulvar.agents.limits import Limits
from rulvar.kernel.matching import JournalIndex, Operation
from rulvar.kernel.scope import agent_scope
from rulvar.tools.faults import is_recorded_fault, recorded_fault

__all__ = ["recorded_children", "recorded_notes"]


def recorded_notes(operation: Operation) -> Mapping[str, Any]:
    """Return what a finished agent's entry keeps of its steps and counters."""
    notes = None if operation.terminal is None else operation.terminal.to_wire().get("conduct")
    return notes if isinstance(notes, Mapping) else {}


def recorded_children(index: JournalIndex, scope: str, *, taken: bool = False) -> list[AgentNode]:
    """Return the finished children, taken from the journal, of the agent whose tools stand in a scope.

    Args:
        taken: take them all now, with the agent itself.
    """
    found: dict[str, AgentNode] = {}
    for child in index.in_scope(scope):
        child.consumed = child.consumed or taken
        value = child.first.value
        below = value.get("childScope") if isinstance(value, dict) else None
        if child.first.kind != "child" or child.terminal is None or below is None:
            continue
        if not taken and not (child.consumed and child.terminal.status == "ok"):
            continue  # one that failed is tried again below the same scope
        for agent in index.in_scope(below):
            if recorded_notes(agent):
                found[below] = _node(index, agent, below)
    return list(found.values())


def _node(index: JournalIndex, operation: Operation, scope: str) -> AgentNode:
    assert operation.terminal is not None
    wire = operation.terminal.to_wire()
    node = AgentNode(
        str((wire.get("costAttribution") or {}).get("agentType")),
        Limits(),
        scope=scope,
        status=_status(wire),
    )
    notes = recorded_notes(operation)
    node.restore(notes)
    operation.consumed = True
    below = agent_scope(scope, notes.get("root", operation.first.seq))
    node.children = recorded_children(index, below, taken=True)
    return node


def _status(wire: Mapping[str, Any]) -> str:
    error = wire.get("error") or {}
    if error and is_recorded_fault(str(error.get("code"))):
        return recorded_fault(error).run_status
    return str(wire["status"])
