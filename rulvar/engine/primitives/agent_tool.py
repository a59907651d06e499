"""A tool call of an agent, once the gate has let it through: the pipeline, and what the model is told.

A call of a tool with effects is journaled before it is made and with what it came to. A resumed agent
takes a finished one from the journal; one that was under way may have happened, and is not made again
unless the agent's entry is invalidated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.envelope import Receipt, decode_envelope
from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.messages import ToolCallPart
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.calls import Opened
from rulvar.engine.primitives.async_tool import finish_pending
from rulvar.engine.primitives.double import call_double
from rulvar.engine.primitives.tool_call import (
    held_receipt,
    pass_on_interruption,
    stop_on_drift,
    tool_handlers,
)
from rulvar.engine.purse import RunPurse
from rulvar.engine.run import Run
from rulvar.errors import OutcomeUnknownError
from rulvar.kernel.scope import agent_scope
from rulvar.tools.faults import recorded_fault, wire_fault
from rulvar.tools.injection import ToolContext
from rulvar.tools.invoke import ToolOutcome
from rulvar.tools.pipeline import ToolRun, ToolTask, run_tool_task
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal

__all__ = ["run_agent_tool"]

_EFFECTS = ("write", "host")
_START, _CALL = "tool-start", "tool-call"


async def run_agent_tool(
    run: Run,
    place: Place,
    opened: Opened,
    tool: Tool,
    call: ToolCallPart,
    number: int,
    keep: Callable[[], Awaitable[None]],
    seen: Callable[[ToolRun], None] | None = None,
) -> ToolOutcome:
    """Run a tool call of an agent.

    Args:
        place: where the agent was called.
        opened: the agent call under way; a child that supplies the result runs in its scope.
        number: how many tool calls the agent has made before.
        keep: stores where the agent stands, before anything that may suspend the run.
        seen: shown what the call came to, also when a cancellation is raised next.
    """
    if tool.effects in _EFFECTS:
        await keep()
        ended = await _begin(run, place, opened, tool, call, number)
        if ended is not None:
            if seen is not None:
                seen(ended)
            return _told(ended, is_held=_is_held(run, opened, number))
    elif tool.cost_micros and (ended := _paid_before(run, opened, tool, number)) is not None:
        if seen is not None:
            seen(ended)
        return _told(ended)
    inner = place.at(scope=agent_scope(opened.scope, opened.root), span=opened.span)
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
    facts: dict[str, Any] = {"order": order, "calledAt": started, "args": args, "number": number}
    if pending:
        facts["pending"] = True
    _keep(run, opened, tool, ended, facts)
    if ended.receipt.execution != "not_started":
        run.budget.calls += 1
    if seen is not None:
        seen(ended)
    pass_on_interruption(place, ended)
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
    effects = tool.effects in _EFFECTS
    if not run.tracing and not tool.cost_micros and not effects:
        return
    facts: dict[str, Any] = {
        "decisionType": _CALL,
        "agentRef": opened.root,
        "tool": tool.id,
        "receipt": ended.receipt.to_wire(),
    }
    if ended.error is not None:
        facts["error"] = wire_fault(ended.error)
    if effects or (tool.cost_micros and "pending" not in traced):
        facts["number"] = traced["number"]
        if "held" in traced:
            facts["held"] = True
        if ended.envelope is not None:
            facts["value"] = fragment(journal_form(ended.envelope.to_wire(), f"tool {tool.id}"))
    if run.tracing:
        facts.update(traced)
        if ended.raw is not None and "pending" not in traced:
            facts["envelope"] = fragment(journal_form(ended.raw.to_wire(), f"tool {tool.id}"))
    run.decide_soon(agent_scope(opened.scope, opened.root), f"tc:{ended.receipt.call_id}", opened.span, facts)


async def _begin(
    run: Run, place: Place, opened: Opened, tool: Tool, call: ToolCallPart, number: int
) -> ToolRun | None:
    """Journal that a call with effects is about to be made; one that was made before is returned instead."""
    before = None if opened.is_invalidated else _recorded(run, opened, number)
    if before is None:
        facts = {"decisionType": _START, "agentRef": opened.root, "tool": tool.id, "number": number}
        await run.decide(agent_scope(opened.scope, opened.root), f"ts:{call.id}", opened.span, facts)
        return None
    value = before.value
    assert isinstance(value, dict)
    if value["decisionType"] == _CALL and value["tool"] == tool.id:
        return _finished(tool, value)
    ended = ToolRun(
        receipt=held_receipt(run, place, tool, call.id),
        error=OutcomeUnknownError(
            f"tool {tool.id} was called before the run stopped and may have happened; look, and resume with "
            f"invalidate=[{opened.seq}] to call it again",
            data={"tool": tool.id, "seq": opened.seq},
        ),
    )
    _keep(run, opened, tool, ended, {"number": number, "order": run.journal.next_seq, "held": True})
    return ended


def _paid_before(run: Run, opened: Opened, tool: Tool, number: int) -> ToolRun | None:
    """Return a call without effects that has ended well and has been paid for: it is not paid for again."""
    before = None if opened.is_invalidated else _recorded(run, opened, number)
    value = None if before is None else before.value
    if not isinstance(value, dict) or value["decisionType"] != _CALL or value["tool"] != tool.id:
        return None
    return None if "error" in value else _finished(tool, value)


def _recorded(run: Run, opened: Opened, number: int) -> JournalEntry | None:
    """Return the last entry of an agent's call with effects, unless it is known not to have begun."""
    last: JournalEntry | None = None
    for kind in (_START, _CALL):
        for entry in run.index.decisions_of(kind, opened.root):
            value = entry.value
            assert isinstance(value, dict)
            if value.get("number") != number:
                continue
            if last is None or entry.seq > last.seq:
                last = entry
    if last is None:
        return None
    value = last.value
    assert isinstance(value, dict)
    not_begun = value["decisionType"] == _CALL and value["receipt"]["execution"] == "not_started"
    return None if not_begun else last


def _finished(tool: Tool, value: dict[str, Any]) -> ToolRun:
    """Return what a call came to, as its entry tells."""
    receipt = Receipt.from_wire(value["receipt"])
    if "error" in value:
        return ToolRun(receipt=receipt, error=recorded_fault(value["error"]))
    return ToolRun(receipt=receipt, envelope=decode_envelope(value.get("value"), f"tool {tool.id}"))


def _is_held(run: Run, opened: Opened, number: int) -> bool:
    """Whether a call with effects was cut short by the end of its process, and nobody has looked since."""
    last = _recorded(run, opened, number)
    value = None if last is None else last.value
    return isinstance(value, dict) and (value["decisionType"] == _START or value.get("held") is True)


def _told(ended: ToolRun, *, is_held: bool = False) -> ToolOutcome:
    if ended.error is None:
        assert ended.envelope is not None
        return ToolOutcome("ok", ended.envelope.data)
    exception = ended.exception or ended.error
    if isinstance(exception, (ModelRetry, ToolRefusal)):
        return ToolOutcome("error", {"error": exception.message}, exception)
    status: Any = "denied" if ended.error.code == "permission_denied" else "error"
    # what may have happened is for a person to look at: no model goes on from there
    fault = ended.error if is_held else None
    return ToolOutcome(status, {"error": ended.error.message}, exception, fault)
