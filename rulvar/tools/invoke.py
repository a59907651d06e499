"""What a model is told of a tool call that did not come to a result."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rulvar.errors import RulvarError
from rulvar.tools.tool import Tool

__all__ = ["ToolOutcome", "argument_problem", "denied", "unknown_tool"]


class ToolOutcome(msgspec.Struct, frozen=True):
    """What one tool call came to: a JSON result for the model, and whether it is an error.

    Attributes:
        exception: what the tool raised.
        fault: ends the agent that called; None lets the model see the result and go on.
    """

    status: Literal["ok", "error", "denied"]
    result: Any
    exception: BaseException | None = None
    fault: RulvarError | None = None

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status != "ok"

    @property
    def is_made(self) -> bool:
        """Whether the call counts as one of those an agent has made: what the gate refuses does not."""
        return self.status != "denied" or self.exception is not None


def unknown_tool(name: str) -> ToolOutcome:
    """Return the outcome of a call of a tool that the agent does not have."""
    return _error(f"there is no tool named {name}")


def denied(tool: Tool, reason: str | None) -> ToolOutcome:
    """Return the outcome of a call that the gate refused."""
    text = f"tool {tool.name} was denied"
    return ToolOutcome("denied", {"error": f"{text}: {reason}" if reason else text})


def argument_problem(tool: Tool, args: Any) -> ToolOutcome | None:
    """Return what to tell the model of arguments that do not fit; None when they do."""
    issues = tool.parameters.issues({} if args is None else args)
    if not issues:
        return None
    return ToolOutcome(
        "error",
        {"error": f"arguments of {tool.name} do not fit", "issues": [issue.to_wire() for issue in issues]},
    )


def _error(text: str) -> ToolOutcome:
    return ToolOutcome("error", {"error": text})
