"""Agents as values: defined once, checked when they are defined, run by an engine or by another agent."""

from rulvar.agents.agent import Agent, check_agent
from rulvar.agents.delegate import agent_as_tool, with_preflight
from rulvar.agents.guards import AgentGuards, Rewrite
from rulvar.agents.hooks import Hook
from rulvar.agents.limits import Limits
from rulvar.agents.stream import StreamPolicy

__all__ = [
    "Agent",
    "AgentGuards",
    "Hook",
    "Limits",
    "Rewrite",
    "StreamPolicy",
    "agent_as_tool",
    "check_agent",
    "with_preflight",
]
