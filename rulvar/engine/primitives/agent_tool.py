"""A tool call of an agent, once the gate has let it through: the pipeline, and what the model is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.messages import ToolCallPart
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.calls import Opened
from rulvar.engine.primitives.async_tool import finish_pending
from rulvar.engine.primitives.double import call_double
from rulvar.engine.primitives.tool_call import stop_on_drift, tool_handlers
from rulvar.engine.purse import RunPurse
from rulvar.engine.run import Run
from rulvar.kernel.scope import agent_scope
from rulvar.tools.injection import ToolContext
from rulvar.tools.invoke import ToolOutcome
from rulvar.tools.pipeline import ToolRun, ToolTask, run_tool_task
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal

__all__ = ["run_agent_tool"]


async def run_agent_tool(
    run: Run,
    place: Place,
    opened: Opened,
    tool: Tool,
    call: ToolCallPart,
    keep: Callable[[], Awaitable[None]],
    seen: Callable[[ToolRun], None] | None = None,
) -> ToolOutcome:
    """Run a tool call of an agent.

    Args:
        place: where the agent was called.
        opened: the agent call under way; a child that supplies the result runs in its scope.
        keep: stores where the agent stands, before anything that may suspend the run.
        seen: shown what the call came to, also when a cancellation is raised next.
    """
    inner = place.at(scope=agent_scope(opened.scope, opened.seq))
    double = run.engine.providers.double(tool)
    if isinstance(double, Tool):
        tool, double = double, None
    args = {} if call.args is None else call.args
    started, order = run.now_iso(), run.journal.next_seq
    # a tool is free code: a ctx call in it belongs to the agent's scope, and is refused like in a step
    token = CURRENT_PLACE.set(inner.at(step=f"tool {call.name}", attempt=None))
    try:
        if double is not None:
            ended = await call_double(double, tool, args, None, call.id)
        else:
            ended = await run_tool_task(_task(run, inner, tool, call, args))
    finally:
        CURRENT_PLACE.reset(token)
    pending = ended.envelope is not None and ended.envelope.pending is not None
    if pending:
        await keep()
        token = CURRENT_PLACE.set(inner.at(attempt=None))
        place.branch.busy(-1)  # the agent makes no progress by itself while its child runs
        try:
            ended = await finish_pending(run, tool, ended)
        finally:
            place.branch.busy(1)
            CURRENT_PLACE.reset(token)
    facts: dict[str, Any] = {"order": order, "calledAt": started, "args": args}
    if pending:
        facts["pending"] = True
    _keep(run, opened, tool, ended, facts)
    if ended.receipt.execution != "not_started":
        run.budget.calls += 1
    if seen is not None:
        seen(ended)
    if ended.interrupted is not None:
        raise ended.interrupted
    stop_on_drift(run, ended)
    if place.attempt is not None and ended.envelope is not None and ended.envelope.documents:
        place.attempt.declare(ended.envelope.documents, tool)
    return _told(ended)


def _task(run: Run, place: Place, tool: Tool, call: ToolCallPart, args: Any) -> ToolTask:
    context = ToolContext(
        run_id=run.run_id,
        call_id=call.id,
        tool_id=tool.id,
        workflow=place.workflow.name,
        transition=None if place.attempt is None else place.attempt.transition,
        scope=run.request.scope or {},
        cost_micros=tool.cost_micros,
        provide=run.engine.providers.provide,
    )
    return ToolTask(
        tool=tool,
        arguments=args,
        context=context,
        clock=run.clock,
        purse=RunPurse(run, place),
        handlers=tool_handlers(run, place, tool, args, None),
        grants=place.grants,
    )


def _keep(run: Run, opened: Opened, tool: Tool, ended: ToolRun, traced: dict[str, Any]) -> None:
    """Journal what the call cost, and what it was when the run is traced: the agent's own entry tells neither."""
    if not run.tracing and not tool.cost_micros and tool.effects not in ("write", "host"):
        return
    facts: dict[str, Any] = {
        "decisionType": "tool-call",
        "agentRef": opened.seq,
        "tool": tool.id,
        "receipt": ended.receipt.to_wire(),
    }
    if ended.error is not None:
        facts["error"] = ended.error.to_wire()
    if run.tracing:
        facts.update(traced)
        if ended.raw is not None and "pending" not in traced:
            facts["envelope"] = fragment(journal_form(ended.raw.to_wire(), f"tool {tool.id}"))
    run.decide_soon(agent_scope(opened.scope, opened.seq), f"tc:{ended.receipt.call_id}", opened.span, facts)


def _told(ended: ToolRun) -> ToolOutcome:
    if ended.error is None:
        assert ended.envelope is not None
        return ToolOutcome("ok", ended.envelope.data)
    exception = ended.exception or ended.error
    if isinstance(exception, (ModelRetry, ToolRefusal)):
        return ToolOutcome("error", {"error": exception.message}, exception)
    status: Any = "denied" if ended.error.code == "permission_denied" else "error"
    return ToolOutcome(status, {"error": ended.error.message}, exception)
