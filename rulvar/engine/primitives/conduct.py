"""The seam through which an agent value conducts its call: what it admits, and what ends it.

Without a conduct the model works freely: what goes wrong in a tool is told to it. With one, the agent's
own rules decide, and an end that they bring keeps its code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rulvar.contracts.messages import ChatRequest, ToolCallPart
from rulvar.engine.branch import Place
from rulvar.engine.calls import Opened
from rulvar.engine.run import Run
from rulvar.errors import RulvarError
from rulvar.kernel.matching import Operation
from rulvar.runtime.checkpoint import LoopState
from rulvar.runtime.loop import AgentTask
from rulvar.runtime.turn import Turn
from rulvar.tools.invoke import ToolOutcome
from rulvar.tools.pipeline import ToolRun
from rulvar.tools.tool import Tool
from rulvar.tools.toolset import Toolset

__all__ = ["Conduct", "ConductedCall"]


@dataclass(slots=True)
class ConductedCall:
    """The agent call that is conducted.

    Attributes:
        ended: what the last tool call came to; None before one, and for one that never reached its tool.
    """

    run: Run
    place: Place
    opened: Opened
    task: AgentTask
    toolset: Toolset
    ended: ToolRun | None = None

    def see_ended(self, ended: ToolRun) -> None:
        """Note what a tool call came to."""
        self.ended = ended

    def receipt_facts(self) -> dict[str, Any]:
        """Return what an event tells of the last tool call's receipt."""
        if self.ended is None:
            return {"execution": "not_started", "disclosure": "withheld"}
        receipt = self.ended.receipt
        return {"execution": receipt.execution, "disclosure": receipt.disclosure}


class Conduct(Protocol):
    """Decides over one agent call; a returned error ends it."""

    schema_attempts: int
    """How often an answer that does not fit is asked for again."""

    def resumed(self, call: ConductedCall, state: LoopState) -> None:
        """The call goes on where a checkpoint left it."""

    def notes(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the conduct, as JSON."""

    def served(self, run: Run, operation: Operation) -> None:
        """The call is served from the journal."""

    def end_notes(self) -> dict[str, Any]:
        """Return what the call's last entry keeps of the conduct, as JSON."""

    async def admit_turn(
        self, call: ConductedCall, request: ChatRequest, state: LoopState
    ) -> RulvarError | None:
        """The next turn is about to be sent."""

    async def admit_answer(self, call: ConductedCall, turn: Turn, state: LoopState) -> RulvarError | None:
        """A turn has been answered or has failed."""

    async def admit_calls(
        self, call: ConductedCall, calls: Sequence[ToolCallPart], state: LoopState
    ) -> RulvarError | None:
        """A turn asks for tool calls, none of which has run."""

    async def tool_ended(
        self, call: ConductedCall, tool: Tool | None, part: ToolCallPart, outcome: ToolOutcome
    ) -> ToolOutcome:
        """A tool call is over; an outcome with a fault ends the agent."""

    def exchanged(self, call: ConductedCall, turn: Turn) -> None:
        """One exchange is over, answered or not."""

    def bounds_cost(self, call: ConductedCall) -> bool:
        """Whether the conduct reserves what a turn may cost, so that its output needs no other bound."""

    def on_event(self, call: ConductedCall) -> Callable[[Any], None] | None:
        """Return what is called with every event of a turn."""
