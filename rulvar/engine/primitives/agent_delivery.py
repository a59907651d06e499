"""What an agent call came to: handed to the workflow, and told to observers and listeners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.outcome import Dropped
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.stream import WireError
from rulvar.contracts.usage import ZERO_USAGE
from rulvar.engine.branch import Place
from rulvar.engine.primitives.agent_events import announce_recorded
from rulvar.engine.primitives.agent_plan import AgentOptions, AgentPlan
from rulvar.engine.run import Run
from rulvar.errors import AgentCallError, OutcomeUnknownError
from rulvar.kernel.matching import Operation
from rulvar.runtime.agent import AgentResult
from rulvar.runtime.billing import Bill

__all__ = ["deliver", "deliver_recorded", "hand_over"]


async def deliver_recorded(run: Run, place: Place, plan: AgentPlan, operation: Operation) -> Any:
    """Hand the recorded end of a call to the workflow, and tell of it."""
    assert operation.terminal is not None
    wire = operation.terminal.to_wire()
    bill = run.spend.bill(wire)
    await announce_recorded(run, place, plan, operation, bill, str(wire["status"]))
    if run.observe:
        run.observe.call(
            "agent",
            place.scope,
            plan.key,
            Served(how="journal"),
            plan.site,
            label=plan.options.label,
            agent_type=plan.agent_type or None,
            adapter=plan.choice.adapter_id,
            model=plan.choice.model,
            usage=bill.usage,
            cost_usd=bill.cost_usd,
        )
    return deliver(run, place, plan, wire, bill)


def deliver(
    run: Run, place: Place, plan: AgentPlan, wire: Mapping[str, Any], bill: Bill, *, note: str | None = None
) -> Any:
    """Hand a terminal entry to the workflow: its value, its full result or its error; see :func:`hand_over`."""
    status = wire["status"]
    recorded = wire.get("error") if status != "ok" else None
    error = WireError.from_wire(recorded) if recorded else None
    output = None
    if status == "ok":
        value = wire.get("value")
        output = value if plan.schema is None else plan.schema.revive(value)
    elif status == "escalated":  # what it has to say is no answer, and fits no schema
        output = wire.get("value")
    result = AgentResult(
        status=status,
        output=output,
        error=error,
        failure=error or _failure(status, wire),
        usage=bill.usage or ZERO_USAGE,
        served_by=wire.get("servedBy"),
        cost_usd=bill.cost_usd,
        entry_ref=wire.get("seq"),
        call_ref=wire.get("ref"),
    )
    return hand_over(run, place, plan.options, result, note)


def hand_over(
    run: Run, place: Place, options: AgentOptions, result: AgentResult, note: str | None = None
) -> Any:
    """Return or raise a result as the call asked for it.

    Args:
        note: what else is known of a failure, for whoever reads the exception's traceback.
    """
    if options.result == "full":
        return result
    if result.failure is None:
        return result.output
    if options.on_error == "null":
        run.dropped.append(
            Dropped(
                source="agent-onerror-null",
                scope=place.scope,
                error=result.failure,
                entry_ref=result.entry_ref,
                label=options.label,
            )
        )
        return None
    raised = _call_error(result.failure, result)
    if note is not None:
        raised.add_note(note)
    raise raised


def _failure(status: str, wire: Mapping[str, Any]) -> WireError | None:
    """Return why an entry that holds no error has no value either; None when it has one."""
    if status == "ok":
        return None
    text = _limit_text(wire) if status == "limit" else f"the agent ended {status}"
    return WireError(code="agent", message=text, retryable=False, data={"kind": "terminal"})


def _limit_text(wire: Mapping[str, Any]) -> str:
    """Tell of a limit what its entry holds: the text goes into prompts, and a replay must tell the same."""
    calls = wire.get("providerCalls")
    turns = sum(call.get("outcome") == "ok" for call in calls) if isinstance(calls, list) else 0
    return f"the agent reached a limit after {turns} model turn{'' if turns == 1 else 's'}"


def _call_error(error: WireError, result: AgentResult) -> AgentCallError:
    data = {"kind": "terminal", **(error.data or {})}
    raised = AgentCallError(error.message, data=data, retryable=error.retryable)
    raised.result = result
    if error.code == OutcomeUnknownError.code:
        raised.run_status = OutcomeUnknownError.run_status
    return raised
