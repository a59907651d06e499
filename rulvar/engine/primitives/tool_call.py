"""``ctx.call_tool``: one call of a tool from a workflow, journaled with its receipt.

A finished call is served from the journal; its tool does not run again. A write that was under way
when its process died may have happened: it is not made again unless its entry is invalidated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rulvar.contracts.envelope import Receipt, ToolEnvelope, ToolResult, decode_envelope
from rulvar.contracts.jsonable import fragment, journal_form, journal_value
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.ports.tools import Handler, ToolCall
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.calls import Call, Claim, Opened
from rulvar.engine.primitives.approval import wait_approval
from rulvar.engine.primitives.async_tool import finish_pending
from rulvar.engine.primitives.double import call_double
from rulvar.engine.primitives.standing import stand_at_waits
from rulvar.engine.purse import RunPurse
from rulvar.engine.run import Run
from rulvar.errors import (
    ConfigError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ReplayDriftError,
    ReplayStopped,
    RulvarError,
)
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import Operation
from rulvar.tools.faults import recorded_fault, wire_fault
from rulvar.tools.gate import decide
from rulvar.tools.injection import ToolContext
from rulvar.tools.permissions import ToolRequest
from rulvar.tools.pipeline import ToolRun, ToolTask, run_tool_task
from rulvar.tools.tool import Tool

__all__ = ["ToolOptions", "held_receipt", "run_tool_call", "stop_on_drift", "tool_handlers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """Options of one call; see ``Ctx.call_tool``."""

    config: Any = None
    key: str | None = None
    result: str = "value"
    call_id: str | None = None
    signal: asyncio.Event | None = None


async def run_tool_call(
    run: Run, tool: Tool | str, args: Any, options: ToolOptions, site: CallSite | None
) -> Any:
    """Call a tool; see ``Ctx.call_tool``."""
    place = run.place()
    chosen = _tool(run, tool)
    what = f"ctx.call_tool({chosen.id!r})"
    if options.result not in ("value", "full"):
        raise ConfigError(
            f"{what} result={options.result!r}: use 'value' or 'full'", data={"field": "result"}
        )
    plain = journal_value({} if args is None else args, f"{what} args")
    config = None if options.config is None else journal_value(options.config, f"{what} config")
    identity: dict[str, Any] = {
        "kind": "step",
        "key": f"tool:{chosen.id}" if options.key is None else options.key,
        "deps": [plain] if config is None else [plain, config],
    }
    key = content_key(identity)
    assert key is not None
    claim = run.claim(place, Call(identity, key, chosen.id, site))
    if claim.action == "skip":
        return None
    if claim.action == "wait":
        return await stand_at_waits(run, place, claim.operation)
    served = Served(how="journal" if claim.action == "replay" else "live")
    if run.observe:
        run.observe.call("step", place.scope, key, served, site, label=f"tool:{chosen.id}")
    if claim.action == "replay":
        assert claim.operation is not None
        return _deliver_recorded(run, place, chosen, claim.operation, options)
    handlers = tool_handlers(run, place, chosen, plain, config)
    opened = await _open(run, place, chosen, key, claim, plain, config)
    return await _call(run, place, chosen, opened, claim, (plain, config, handlers, options))


def _tool(run: Run, tool: Tool | str) -> Tool:
    chosen = run.engine.providers.tool(tool) if isinstance(tool, str) else tool
    if isinstance(chosen, Tool):
        double = run.engine.providers.double(chosen)
        return double if isinstance(double, Tool) else chosen
    raise ConfigError(
        f"ctx.call_tool: expected a tool made by @tool or the id of one, got {type(tool).__name__}",
        data={"field": "tool"},
    )


def tool_handlers(run: Run, place: Place, tool: Tool, args: Any, config: Any) -> list[Handler]:
    """Show a call to the interceptors at the moment it is made, and return what they claimed."""
    if not run.engine.interceptors or run.engine.providers.double(tool) is not None:
        return []
    call = ToolCall(
        tool_id=tool.id,
        args=args,
        config=config,
        workflow=place.workflow.name,
        transition=None if place.attempt is None else place.attempt.transition,
        run_id=run.run_id,
        scope=place.scope,
    )
    claimed = (interceptor.intercept(call) for interceptor in run.engine.interceptors)
    return [handler for handler in claimed if handler is not None]


async def _open(run: Run, place: Place, tool: Tool, key: str, claim: Claim, args: Any, config: Any) -> Opened:
    value: dict[str, Any] = {"tool": tool.id}
    if run.tracing:
        value["args"] = args
        if config is not None:
            value["config"] = config
    extra: dict[str, Any] = {"value": value}
    if place.attempt is not None:
        # a failed call of a transition stands: another attempt has a scope of its own
        extra["memoizeOutcome"] = True
    return await run.begin(place, "step", key, run.next_span(), claim, tool.id, extra)


async def _call(
    run: Run, place: Place, tool: Tool, opened: Opened, claim: Claim, given: tuple[Any, Any, Any, ToolOptions]
) -> Any:
    args, config, handlers, options = given
    call_id = options.call_id or f"{run.run_id}:{opened.seq}"
    if _may_have_happened(run, tool, claim):
        error = OutcomeUnknownError(
            f"tool {tool.id} was called before the run stopped and may have happened; look, and resume with "
            f"invalidate=[{opened.seq}] to call it again",
            data={"tool": tool.id, "seq": opened.seq},
        )
        receipt = held_receipt(run, place, tool, call_id)
        await run.finish(opened, "error", _failure_fields(error, receipt))
        raise error
    context = ToolContext(
        run_id=run.run_id,
        call_id=call_id,
        tool_id=tool.id,
        workflow=place.workflow.name,
        transition=None if place.attempt is None else place.attempt.transition,
        config=config,
        scope=run.request.scope or {},
        cost_micros=tool.cost_micros,
        provide=run.engine.providers.provide,
        signal=options.signal or asyncio.Event(),
    )
    facts: dict[str, Any] = {"toolName": tool.id, "toolCallId": call_id}
    run.bus.emit("tool:start", opened.span, place.span, facts)
    started = run.clock.now_ms()
    place.branch.busy(1)
    token = CURRENT_PLACE.set(place.at(step=f"tool {tool.id}", attempt=None))
    try:
        double = run.engine.providers.double(tool)
        if double is not None:
            ended = await call_double(double, tool, args, config, call_id)
        else:
            ended = await run_tool_task(_task(run, place, tool, opened, context, (args, handlers)))
    finally:
        CURRENT_PLACE.reset(token)
        place.branch.busy(-1)
    extra: dict[str, Any] = {}
    if ended.envelope is not None and ended.envelope.pending is not None:
        extra["pending"] = True
        ended = await finish_pending(run, tool, ended)
    if double is None:  # a stand-in is there instead of the pipeline, and declares nothing
        ended = _declare(place, tool, opened.seq, ended)
    await _journal(run, place, opened, ended, extra)
    outcome = "ok" if ended.error is None else "error"
    facts = {**facts, "outcome": outcome, "durationMs": run.clock.now_ms() - started}
    run.bus.emit("tool:end", opened.span, place.span, facts)
    return _deliver(run, place, tool, ended, options)


def _task(
    run: Run, place: Place, tool: Tool, opened: Opened, context: ToolContext, given: tuple[Any, Any]
) -> ToolTask:
    args, handlers = given

    async def gate() -> RulvarError | None:
        decision = await decide(run.engine.permissions, ToolRequest(tool, args, run.run_id))
        if decision.verdict == "allow":
            return None
        reason = decision.reason
        if decision.verdict == "ask":
            answer = await wait_approval(run, place, opened, tool, args)
            if answer.get("decision") == "allow":
                return None
            reason = answer.get("reason") if isinstance(answer.get("reason"), str) else None
        text = f"tool {tool.id} was denied"
        return PermissionDeniedError(f"{text}: {reason}" if reason else text, data={"tool": tool.id})

    return ToolTask(
        tool=tool,
        arguments=args,
        context=context,
        clock=run.clock,
        purse=RunPurse(run, place),
        handlers=handlers,
        grants=place.grants,
        gate=gate,
    )


def _may_have_happened(run: Run, tool: Tool, claim: Claim) -> bool:
    operation = claim.operation
    if operation is None or tool.effects not in ("write", "host") or operation.terminal is not None:
        return False
    return operation.first.seq not in run.request.invalidate


def held_receipt(run: Run, place: Place, tool: Tool, call_id: str) -> Receipt:
    """Keep what a call may have cost reserved, and return its receipt."""
    if tool.cost_micros:
        run.spend.add_tool(0, tool.cost_micros, place.scope)
        run.budget.ledger.hold(place.account, tool.cost_micros / 1_000_000)
    return Receipt(
        call_id=call_id,
        tool_id=tool.id,
        execution="unknown",
        disclosure="withheld",
        reserved_micros=tool.cost_micros,
    )


async def _journal(run: Run, place: Place, opened: Opened, ended: ToolRun, extra: Mapping[str, Any]) -> None:
    """Journal what the call came to, before anybody sees it."""
    fields: dict[str, Any]
    if ended.error is not None:
        fields = _failure_fields(ended.error, ended.receipt)
        if place.attempt is None and not isinstance(ended.error, OutcomeUnknownError):
            fields.pop("memoizeOutcome")
    else:
        assert ended.envelope is not None
        data = journal_form(ended.envelope.to_wire(), f"tool {ended.receipt.tool_id}")
        fields = {"value": fragment(data), "receipt": ended.receipt.to_wire()}
    fields.update(extra)
    if run.tracing and ended.raw is not None and not extra:
        fields["envelope"] = fragment(journal_form(ended.raw.to_wire(), f"tool {ended.receipt.tool_id}"))
    cancelled = ended.interrupted is not None and not isinstance(ended.error, OutcomeUnknownError)
    status = "cancelled" if cancelled else "ok" if ended.error is None else "error"
    writing = run.finish(opened, status, fields)
    try:
        await (asyncio.shield(writing) if ended.interrupted is not None else writing)
    except (RulvarError, OSError) as error:
        unknown = OutcomeUnknownError(
            f"tool {ended.receipt.tool_id} ran, and what it came to could not be written: {error}",
            data={"tool": ended.receipt.tool_id},
        )
        raise unknown from error


def _failure_fields(error: RulvarError, receipt: Receipt) -> dict[str, Any]:
    return {"error": wire_fault(error), "receipt": receipt.to_wire(), "memoizeOutcome": True}


def _deliver(run: Run, place: Place, tool: Tool, ended: ToolRun, options: ToolOptions) -> Any:
    if place.attempt is not None:
        place.attempt.called()
    pass_on_interruption(place, ended)
    stop_on_drift(run, ended)
    if ended.error is not None:
        raise ended.error from (None if ended.exception is ended.error else ended.exception)
    assert ended.envelope is not None
    envelope = ended.envelope
    wire = journal_value(envelope.to_wire(), f"tool {tool.id}")
    return _hand_over(tool, decode_envelope(wire, f"tool {tool.id}"), ended.receipt, options)


def pass_on_interruption(place: Place, ended: ToolRun) -> None:
    """Raise the cancellation that interrupted a call, once it is told that the call may have happened."""
    if ended.interrupted is None:
        return
    if place.attempt is not None and isinstance(ended.error, OutcomeUnknownError):
        place.attempt.keep_unknown(ended.error)
    raise ended.interrupted


def stop_on_drift(run: Run, ended: ToolRun) -> None:
    """End the run when a call did not follow its tool fixture: no workflow may catch that."""
    if isinstance(ended.error, ReplayDriftError):
        run.stop(ended.error)
        raise ReplayStopped(ended.error)


def _declare(place: Place, tool: Tool, seq: int, ended: ToolRun) -> ToolRun:
    """Save the documents that a call declares before it is over: one that cannot be saved fails the call."""
    if place.attempt is None or place.attempt.is_over or ended.envelope is None:
        return ended
    try:
        if ended.envelope.documents:
            place.attempt.declare(ended.envelope.documents, tool, seq)
    except RulvarError as error:
        receipt = replace(ended.receipt, disclosure="withheld")
        return replace(ended, envelope=None, error=error, receipt=receipt)
    return ended


def _deliver_recorded(run: Run, place: Place, tool: Tool, operation: Operation, options: ToolOptions) -> Any:
    assert operation.terminal is not None
    wire = operation.terminal.to_wire()
    if wire["status"] != "ok":
        if place.attempt is not None:
            place.attempt.called()
        raise recorded_fault(wire.get("error") or {})
    receipt = Receipt.from_wire(wire["receipt"]) if wire.get("receipt") else None
    envelope = decode_envelope(wire.get("value"), f"tool {tool.id}")
    if place.attempt is not None:
        if envelope.documents and run.engine.providers.double(tool) is None:
            place.attempt.declare(envelope.documents, tool, operation.first.seq)
        place.attempt.called()
    return _hand_over(tool, envelope, receipt, options)


def _hand_over(tool: Tool, envelope: ToolEnvelope, receipt: Receipt | None, options: ToolOptions) -> Any:
    data = envelope.data
    if tool.result is not None and not tool.result.issues(data):  # a stand-in may answer anything
        data = tool.result.revive(data)
    if options.result == "value":
        return data
    return ToolResult(data=data, metadata=envelope.metadata, type=envelope.type, receipt=receipt)
