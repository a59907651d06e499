"""What an agent call tells listeners: that it began, what it paid, how it ended, and all that again on a replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.ports.clock import recorded_ms
from rulvar.contracts.usage import ZERO_USAGE
from rulvar.engine.branch import Place
from rulvar.engine.primitives.agent_plan import AgentPlan
from rulvar.engine.run import Run
from rulvar.errors import StoreError
from rulvar.kernel.matching import Operation
from rulvar.runtime.billing import Bill

__all__ = ["announce_end", "announce_recorded", "announce_start", "call_facts"]


def announce_start(run: Run, place: Place, plan: AgentPlan, span: str, *, replayed: bool) -> None:
    """Tell that a call begins, and its one phase with it."""
    facts = {**call_facts(plan), "model": plan.choice.reference, "role": plan.options.role}
    run.bus.emit("agent:start", span, place.span, facts, replayed)
    if not replayed:
        run.bus.emit("agent:phase:start", span, place.span, _phase(plan))


def announce_end(
    run: Run, place: Place, plan: AgentPlan, wire: Mapping[str, Any], bill: Bill, span: str, *, retries: int
) -> None:
    """Tell how a live call ended, after its phase."""
    phase = {
        **_phase(plan),
        "durationMs": run.clock.now_ms() - recorded_ms(wire, "startedAt"),
        "usage": wire.get("usage"),
        "costUsd": bill.usd,
        "costBasis": "per-call",
        "outcome": _outcome(wire),
    }
    if retries:
        phase["retries"] = retries
    run.bus.emit("agent:phase:end", span, place.span, phase)
    facts = _end(plan, wire, str(wire["status"]), bill, wire.get("seq"))
    if retries:
        facts["retryCount"] = retries
    run.bus.emit("agent:end", span, place.span, facts)


async def announce_recorded(
    run: Run, place: Place, plan: AgentPlan, operation: Operation, bill: Bill, status: str
) -> None:
    """Tell of a call that the journal serves what was told of it live: no durations, and no retries."""
    span = run.next_span()
    announce_start(run, place, plan, span, replayed=True)
    ended = operation.terminal
    wire: Mapping[str, Any] = {} if ended is None else ended.to_wire()
    for facts, outcome in await _tool_calls(run, wire):
        run.bus.emit("tool:start", span, place.span, facts, True)
        run.bus.emit("tool:end", span, place.span, {**facts, "outcome": outcome, "durationMs": 0}, True)
    for phase in _phases(plan, wire, bill):
        begun = {name: phase[name] for name in (*call_facts(plan), "role", "model", "invocation")}
        run.bus.emit("agent:phase:start", span, place.span, begun, True)
        run.bus.emit("agent:phase:end", span, place.span, phase, True)
    seq = operation.first.seq if ended is None else ended.seq
    run.bus.emit("agent:end", span, place.span, _end(plan, wire, status, bill, seq), True)


def call_facts(plan: AgentPlan) -> dict[str, Any]:
    """Return what every event of a call says of it."""
    label = {} if plan.options.label is None else {"label": plan.options.label}
    return {"agentType": plan.agent_type, **label}


def _phase(plan: AgentPlan) -> dict[str, Any]:
    return {**call_facts(plan), "role": plan.options.role, "model": plan.choice.reference, "invocation": 1}


def _end(
    plan: AgentPlan, wire: Mapping[str, Any], status: str, bill: Bill, seq: int | None
) -> dict[str, Any]:
    facts = {
        **call_facts(plan),
        "status": status,
        "usage": wire.get("usage") or ZERO_USAGE.to_wire(),
        "costUsd": bill.usd,
        "costBasis": _basis(bill.per_call or not wire.get("usage")),
        "entryRef": seq,
    }
    if wire.get("usageApprox"):
        facts["usageApprox"] = True
    return facts


def _phases(plan: AgentPlan, wire: Mapping[str, Any], bill: Bill) -> Iterator[dict[str, Any]]:
    """Yield one phase per model and role that an entry has tokens of."""
    paid: dict[tuple[str, str], float] = {}
    by_exchange = {unit.model for unit in bill.units if unit.is_exchange}
    for unit in bill.units:
        key = unit.role or plan.options.role, unit.model
        paid[key] = paid.get(key, 0.0) + unit.usd
    listed = wire.get("usageByModel")
    if not isinstance(listed, list) or not listed:
        listed = [{"servedBy": wire["servedBy"], "usage": wire["usage"]}] if _has_usage(wire) else []
    for number, item in enumerate(filter(_has_usage, listed), 1):
        role, model = str(item.get("role") or plan.options.role), str(item["servedBy"])
        yield {
            **call_facts(plan),
            "role": role,
            "model": model,
            "invocation": number,
            "durationMs": 0,
            "usage": item["usage"],
            "costUsd": paid.get((role, model), 0.0),
            "costBasis": _basis(model in by_exchange),
            "outcome": _outcome(wire),
        }


def _has_usage(item: Any) -> bool:
    return isinstance(item, Mapping) and "servedBy" in item and bool(item.get("usage"))


def _basis(by_exchange: bool) -> str:
    return "per-call" if by_exchange else "aggregate-estimate"


def _outcome(wire: Mapping[str, Any]) -> str:
    """Return how a phase went: one that met a limit did its work."""
    return "error" if wire["status"] in ("error", "cancelled") else "ok"


async def _tool_calls(run: Run, wire: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return the tool calls that the last state of a call holds, and how each ended; none when it is gone."""
    ref = wire.get("checkpointRef")
    if not isinstance(ref, str):
        return []
    try:
        data = await run.transcript_store.get(ref)
        # a byte that names the format may stand before the object
        state = {} if data is None else decode_json(data.removeprefix(b"\x01"))
    except (StoreError, OSError, ValueError, RecursionError):
        return []  # what is told of a replay is no reason to fail it
    messages = state.get("messages") if isinstance(state, Mapping) else None
    found: list[tuple[dict[str, Any], str]] = []
    for message in messages if isinstance(messages, list) else ():
        parts = (
            message.get("parts") if isinstance(message, Mapping) and message.get("role") == "tool" else None
        )
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping) and part.get("type") == "tool-result":
                facts = {"toolName": part.get("name"), "toolCallId": part.get("id")}
                found.append((facts, "error" if part.get("isError") is True else "ok"))
    return found
