"""The second half of an async tool: its child runs, and what it ends with becomes the tool's result."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from typing import Any

from rulvar.contracts.envelope import ToolEnvelope
from rulvar.contracts.exception_text import exception_text
from rulvar.engine.primitives.child import run_child
from rulvar.engine.run import Run
from rulvar.errors import ConfigError, ControlFlow, RulvarError, ToolFailedError
from rulvar.tools.pending import ChildOutcome, PendingChild
from rulvar.tools.pipeline import ToolRun, release_envelope
from rulvar.tools.tool import Tool

__all__ = ["finish_pending"]


async def finish_pending(run: Run, tool: Tool, ended: ToolRun) -> ToolRun:
    """Run the child that a pending envelope names, at the current place, and return the finished call."""
    assert ended.envelope is not None
    pending = ended.envelope.pending
    if not isinstance(pending, PendingChild) or tool.effects in ("write", "host"):
        problem = (
            "a tool with effects of its own cannot leave its result to a child"
            if isinstance(pending, PendingChild)
            else "a pending envelope names the child to run; return from_child(...)"
        )
        error = ConfigError(f"tool {tool.id}: {problem}", data={"tool": tool.id})
        return replace(ended, envelope=None, error=error)
    outcome = await _child(run, pending)
    try:
        value = (pending.complete or _pass_through)(outcome)
        if inspect.isawaitable(value):
            value = await value
    except RulvarError as error:
        return replace(ended, envelope=None, error=error, exception=error)
    except Exception as error:
        told = ToolFailedError(f"tool {tool.id} failed", data={"tool": tool.id})
        return replace(ended, envelope=None, error=told, exception=error)
    envelope = value if isinstance(value, ToolEnvelope) else ToolEnvelope(data=value)
    return release_envelope(tool, envelope, ended.receipt)


async def _child(run: Run, pending: PendingChild) -> ChildOutcome:
    try:
        data = await run_child(run, pending.workflow, pending.args, None, None, counts_depth=False)
    except (asyncio.CancelledError, ControlFlow):
        raise
    except Exception as error:
        return ChildOutcome(status="failed", message=exception_text(error), error=error)
    return ChildOutcome(status="completed", data=data)


def _pass_through(outcome: ChildOutcome) -> Any:
    if outcome.status != "completed":
        raise ToolFailedError(outcome.message or f"the child {outcome.status}")
    return outcome.data
