"""The one tool pipeline: check the arguments, run the function, shape what the model gets back."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.jsonable import journal_value
from rulvar.errors import NonSerializableValueError
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal

__all__ = ["ToolOutcome", "argument_problem", "denied", "invoke_tool", "unknown_tool"]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What one tool call came to: a JSON result for the model, and whether it is an error."""

    status: Literal["ok", "error", "denied"]
    result: Any
    exception: BaseException | None = None

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status != "ok"


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


async def invoke_tool(tool: Tool, args: Any) -> ToolOutcome:
    """Run a tool whose arguments fit.

    The model sees the texts of ModelRetry and ToolRefusal, and of other exceptions only that the
    tool failed, unless the tool declares its errors public.
    """
    arguments = {} if args is None else args
    try:
        if tool.takes_object or not isinstance(arguments, dict):
            value = tool.function(arguments)
        else:
            value = tool.function(**arguments)
        if inspect.isawaitable(value):
            value = await value
        return ToolOutcome("ok", journal_value(value, f"tool {tool.name}"))
    except (ModelRetry, ToolRefusal) as error:
        return ToolOutcome("error", {"error": error.message}, error)
    except NonSerializableValueError as error:
        return ToolOutcome("error", {"error": error.message}, error)
    except Exception as error:
        text = f"tool {tool.name} failed"
        return ToolOutcome("error", {"error": f"{text}: {error}" if tool.public_errors else text}, error)


def _error(text: str) -> ToolOutcome:
    return ToolOutcome("error", {"error": text})
