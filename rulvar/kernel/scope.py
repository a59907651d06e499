"""Scope paths: where in the structure of a run a call stands.

``""`` is the workflow body; segments are joined by ``/``: ``par:<site>:<branch>``,
``pipe:<stage>:<item>``, ``wf:<name>:<n>``, ``agent:<seq>`` and ``plan/<node id>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rulvar.errors import ConfigError

__all__ = [
    "AgentScope",
    "ParallelScope",
    "PipelineScope",
    "PlanNodeScope",
    "ScopeSegment",
    "WorkflowScope",
    "agent_scope",
    "parallel_scope",
    "parallel_scopes",
    "parse_scope",
    "pipeline_scope",
    "plan_node_scope",
    "scopes_around",
    "workflow_scope",
]

_NUMBER = r"(0|[1-9][0-9]{0,17})"
_PARALLEL = re.compile(rf"par:{_NUMBER}:{_NUMBER}")
_PIPELINE = re.compile(rf"pipe:{_NUMBER}:{_NUMBER}")
_WORKFLOW = re.compile(rf"wf:(.+):{_NUMBER}", re.DOTALL)
_AGENT = re.compile(rf"agent:{_NUMBER}")
_NODE_ID = re.compile(r"[0-9A-Z]{26}")


@dataclass(frozen=True, slots=True)
class ParallelScope:
    """One branch of a parallel call."""

    site: int
    branch: int


@dataclass(frozen=True, slots=True)
class PipelineScope:
    """One item in one stage of a pipeline; ``item`` is the index of the source item."""

    stage: int
    item: int


@dataclass(frozen=True, slots=True)
class WorkflowScope:
    """The n-th start of a child workflow of that name."""

    name: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class AgentScope:
    """Inside the agent call whose running entry has that seq."""

    seq: int


@dataclass(frozen=True, slots=True)
class PlanNodeScope:
    """A node of a plan; upstream writes these, rulvar keeps them."""

    node_id: str


ScopeSegment = ParallelScope | PipelineScope | WorkflowScope | AgentScope | PlanNodeScope


def parallel_scope(parent: str, site: int, branch: int) -> str:
    """Return the scope of one branch of the parallel call at a site."""
    return _join(parent, f"par:{site}:{branch}")


def parallel_scopes(parent: str, site: int, branches: int) -> list[str]:
    """Return the scopes of all branches of the parallel call at a site."""
    call = _join(parent, f"par:{site}:")
    return [f"{call}{branch}" for branch in range(branches)]


def pipeline_scope(parent: str, stage: int, item: int) -> str:
    """Return the scope of one item in one stage."""
    return _join(parent, f"pipe:{stage}:{item}")


def workflow_scope(parent: str, name: str, ordinal: int) -> str:
    """Return the scope of the n-th start of a child workflow."""
    return _join(parent, f"wf:{name}:{ordinal}")


def agent_scope(parent: str, seq: int) -> str:
    """Return the scope inside the agent call whose running entry has that seq."""
    return _join(parent, f"agent:{seq}")


def plan_node_scope(node_id: str) -> str:
    """Return the scope of a plan's node."""
    return f"plan/{node_id}"


def scopes_around(path: str) -> list[str]:
    """Return a scope and those that it stands in, outermost first; the body's is left out."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def parse_scope(path: str) -> tuple[ScopeSegment, ...]:
    """Read a scope path; ``""`` is the body and has no segments.

    Raises:
        ConfigError: the path does not follow the grammar, or a workflow in it has a name with a slash.
    """
    segments: list[ScopeSegment] = []
    parts = path.split("/") if path else []
    index = 0
    while index < len(parts):
        segment, index = _segment(parts, index, path)
        segments.append(segment)
    return tuple(segments)


def _segment(parts: list[str], index: int, path: str) -> tuple[ScopeSegment, int]:
    part = parts[index]
    if part == "plan":
        if index + 1 < len(parts) and _NODE_ID.fullmatch(parts[index + 1]):
            return PlanNodeScope(parts[index + 1]), index + 2
        raise _unreadable(path, "plan needs a node id")
    if match := _PARALLEL.fullmatch(part):
        return ParallelScope(int(match[1]), int(match[2])), index + 1
    if match := _PIPELINE.fullmatch(part):
        return PipelineScope(int(match[1]), int(match[2])), index + 1
    if match := _AGENT.fullmatch(part):
        return AgentScope(int(match[1])), index + 1
    if match := _WORKFLOW.fullmatch(part):
        return WorkflowScope(match[1], int(match[2])), index + 1
    raise _unreadable(path, f"{part!r} is no segment")


def _unreadable(path: str, why: str) -> ConfigError:
    return ConfigError(f"scope path {path!r}: {why}")


def _join(parent: str, segment: str) -> str:
    return f"{parent}/{segment}" if parent else segment
