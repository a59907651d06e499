"""The seam around tools: interceptors see a call when it is made, and may answer instead of the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rulvar.contracts.envelope import ToolEnvelope

__all__ = ["Handler", "Interceptor", "Proceed", "ToolCall"]

Proceed = Callable[[], Awaitable[ToolEnvelope]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool, and where it is made.

    Attributes:
        tool_id: the tool's id.
        args, config: what it is called with, as JSON; ``config`` is None when there is none.
        workflow: name of the workflow that calls.
        transition: name of the transition that calls; None outside a state machine.
        run_id, scope: where in which run.
    """

    tool_id: str
    args: Any
    config: Any = None
    workflow: str = ""
    transition: str | None = None
    run_id: str = ""
    scope: str = ""


class Handler(Protocol):
    """What an interceptor does about one call."""

    async def handle(self, proceed: Proceed) -> ToolEnvelope:
        """Answer the call, or ask ``proceed``: the interceptors further in and the tool itself."""

    def withdraw(self) -> None:
        """Give up the place that was claimed: the call was refused before it came here."""


class Interceptor(Protocol):
    """Stands around the tools of an engine; the first of a list is the outermost."""

    def intercept(self, call: ToolCall) -> Handler | None:
        """Claim a call at the moment it is made, in call order; None lets it pass."""
