"""The guards of a tool: asked side by side, and they fail closed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

from rulvar.errors import ControlFlow, GuardBlockedError, GuardUnavailableError, RulvarError
from rulvar.tools.injection import ToolContext
from rulvar.tools.tool import Guard, Tool

__all__ = ["Refused", "check_guards"]


class Refused(Exception):
    """A call is refused.

    Attributes:
        error: what the caller is told.
        exception: what a guard raised, for a debugger.
    """

    def __init__(self, error: RulvarError, exception: BaseException | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.exception = exception


async def check_guards(
    tool: Tool, guards: Sequence[Guard], value: Any, context: ToolContext, side: str
) -> None:
    """Ask guards side by side; all are asked, and any that breaks blocks the call."""
    if not guards:
        return
    answers = await asyncio.gather(*(_ask(guard, value, context) for guard in guards), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, ControlFlow | asyncio.CancelledError):
            raise answer
    data = {"tool": tool.id, "side": side}
    broken = next((answer for answer in answers if isinstance(answer, BaseException)), None)
    if broken is not None:
        raise Refused(GuardUnavailableError(f"an {side} guard of tool {tool.id} failed", data=data), broken)
    for answer in answers:
        if answer is True or answer is None:
            continue
        # why is for whoever debugs: a reason may quote what the guard keeps from being shown
        reason = RulvarError(answer) if isinstance(answer, str) and answer else None
        raise Refused(GuardBlockedError(f"an {side} guard blocked tool {tool.id}", data=data), reason)


async def _ask(guard: Guard, value: Any, context: ToolContext) -> Any:
    parameters = inspect.signature(guard).parameters
    answer: Any = guard(value, context) if len(parameters) > 1 else guard(value)
    return await answer if inspect.isawaitable(answer) else answer
