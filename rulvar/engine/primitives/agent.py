"""``ctx.agent``: one model call, journaled as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.ports.observer import CallSite
from rulvar.engine.branch import Place
from rulvar.engine.calls import Call, Claim, Opened
from rulvar.engine.control import finished
from rulvar.engine.primitives.agent_delivery import deliver, deliver_recorded, hand_over
from rulvar.engine.primitives.agent_events import announce_end, announce_recorded, announce_start
from rulvar.engine.primitives.agent_host import AgentHost
from rulvar.engine.primitives.agent_plan import (
    AgentOptions,
    AgentPlan,
    agent_task,
    fallback_trigger,
    plan_agent,
    plan_fallback,
)
from rulvar.engine.primitives.agent_resume import load_checkpoint, take_up
from rulvar.engine.primitives.standing import stand_at_waits
from rulvar.engine.run import Run
from rulvar.errors import ReplayStopped, RulvarError
from rulvar.kernel.admission import Estimate
from rulvar.kernel.ledger import Reservation
from rulvar.kernel.matching import ALWAYS_ASKS
from rulvar.runtime.agent import AgentResult
from rulvar.runtime.billing import Bill
from rulvar.runtime.ends import LoopEnd, limit_reached
from rulvar.runtime.loop import AgentLoop, AgentTask
from rulvar.runtime.router import scrubbed

__all__ = ["run_agent"]


async def run_agent(run: Run, prompt: str, options: AgentOptions, site: CallSite | None) -> Any:
    """Run one agent call; see ``Ctx.agent``."""
    place = run.place()
    if options.conduct is not None:
        return await _call(run, place, prompt, options, site)
    fallback = plan_fallback(options, run.engine.profile(options.agent_type or ""))
    if fallback is None:
        return await _call(run, place, prompt, options, site)
    full = msgspec.structs.replace(options, result="full", fallback=None)
    result: AgentResult = await _call(run, place, prompt, full, site)
    trigger = fallback_trigger(result)
    if trigger is not None and trigger in fallback["on"]:
        await _journal_fallback(run, place, result, trigger, fallback["model"])
        second = msgspec.structs.replace(options, model=fallback["model"], routing=None, fallback=None)
        return await _call(run, place, prompt, second, site)
    return hand_over(run, place, options, result)


async def _journal_fallback(run: Run, place: Place, result: AgentResult, trigger: str, model: str) -> None:
    """Journal that another model is asked; a failure that was served from the journal has brought its decision."""
    decision = {
        "decisionType": "model.fallback",
        "targetRef": result.call_ref,
        "trigger": trigger,
        "model": model,
    }
    recorded = run.index.decisions_of("model.fallback", result.call_ref)
    if not run.strict and all(entry.value != decision for entry in recorded):
        _warn(run, place, f"the call ended with {trigger}: it is made once more with {model}")
        await run.decide(place.scope, "", place.span, decision)


def _warn(run: Run, place: Place, text: str) -> None:
    parent = None if place.span == run.root.span else run.root.span
    run.bus.emit("log", place.span, parent, {"level": "warn", "msg": text})


async def _call(run: Run, place: Place, prompt: str, options: AgentOptions, site: CallSite | None) -> Any:
    plan = plan_agent(run, place, prompt, options, site)
    call = Call(plan.identity, plan.key, options.label, site, options.replay)
    claim = run.claim(place, call)
    if claim.action == "skip":
        assert claim.operation is not None
        ended = claim.operation.terminal
        bill = run.spend.bill({} if ended is None else ended.to_wire())
        await announce_recorded(run, place, plan, claim.operation, bill, "skipped")
        return hand_over(run, place, options, AgentResult(status="skipped"))
    if claim.action == "wait":
        return await stand_at_waits(run, place, claim.operation)
    if claim.action == "replay":
        assert claim.operation is not None
        if options.conduct is not None:
            options.conduct.served(run, claim.operation)
        return await deliver_recorded(run, place, plan, claim.operation)
    return await _run_live(run, place, plan, claim)


async def _run_live(run: Run, place: Place, plan: AgentPlan, claim: Claim) -> Any:
    task = agent_task(run, plan)
    budget, is_recorded = run.budget, claim.operation is not None
    for note in scrubbed(plan.choice, task.adapter.caps(plan.choice.model)):
        _warn(run, place, note)
    if plan.options.conduct is None:
        if not is_recorded:
            budget.check_spawns()
        reservation = budget.reserve(place, _promise(run, plan), admitted=is_recorded)
    else:  # an agent value promises turn by turn
        reservation = Reservation(budget.ledger.account(place.account), 0)
    try:
        if claim.operation is None or claim.operation.terminal is not None:
            budget.count_spawn()
        return await _run_admitted(run, place, plan, claim, task, reservation)
    finally:
        budget.ledger.release(reservation)


def _promise(run: Run, plan: AgentPlan) -> Estimate:
    """Return what is promised for a call: nothing where nobody knows a price, unless somebody says what it costs."""
    call, profile = plan.options.est_cost, plan.profile.est_cost
    unknown = call is None and profile is None and run.models.price_of(plan.choice.reference) is None
    return Estimate(0.0, "unpriced") if unknown else run.budget.estimate(call, profile)


async def _run_admitted(
    run: Run, place: Place, plan: AgentPlan, claim: Claim, task: AgentTask, reservation: Reservation
) -> Any:
    extra: dict[str, Any] = {}
    if plan.options.memoize_outcome or place.attempt is not None:
        # a failed call of a transition stands: another attempt has a scope of its own
        extra["memoizeOutcome"] = True
    if (isolation := plan.identity["isolation"]) != "none":
        extra["value"] = {"isolation": isolation}
    name = plan.options.label or plan.agent_type or plan.choice.model
    span = run.next_span() + (ALWAYS_ASKS if plan.options.replay == "never" else "")
    opened = await run.begin(place, "agent", plan.key, span, claim, name, extra)
    state = await load_checkpoint(run, claim)
    take_up(run, opened, claim, state)
    host = AgentHost(run, place, plan, opened, task, reservation)
    if state is not None:
        host.resumed(state)
    loop = AgentLoop(task, host, state)
    place.branch.busy(1)
    try:
        try:  # whatever cancels the call from here on, its entry is closed
            if state is not None:
                await host.go_on(state)
            announce_start(run, place, plan, opened.span, replayed=False)
            await asyncio.sleep(0)  # calls that start together are all admitted before the first one ends
            end = await _to_the_end(loop)
        except asyncio.CancelledError:
            end = LoopEnd(status="error")
            work = _journal_end(run, place, plan, opened, loop, host, end, cancelled=True)
            await finished(work, at_once=run.stores_at_once)
            raise
        # an answer that has come is paid for: a cancellation finds it in the journal
        work = _journal_end(run, place, plan, opened, loop, host, end)
        wire, bill = await finished(work, at_once=run.stores_at_once)
    finally:
        place.branch.busy(-1)
    if run.stop_error is not None:
        raise ReplayStopped(run.stop_error)
    if end.fatal is not None:
        assert isinstance(end.fatal, RulvarError)
        run.stop(end.fatal)
        raise ReplayStopped(end.fatal)
    if plan.options.conduct is None and (
        end.denied is not None or (run.budget.is_exhausted and end.status != "ok")
    ):
        raise run.budget.exhausted_call(place, wire["seq"], end.denied)
    note = end.error.message if end.status == "limit" and end.error is not None else None
    return deliver(run, place, plan, wire, bill, note=note)


async def _to_the_end(loop: AgentLoop) -> LoopEnd:
    timeout = loop.task.limits.timeout_s
    if timeout is None:
        return await loop.run()
    try:
        async with asyncio.timeout(timeout):
            return await loop.run()
    except TimeoutError:
        return LoopEnd(status="limit", error=limit_reached("timeout_s", timeout))


async def _journal_end(
    run: Run,
    place: Place,
    plan: AgentPlan,
    opened: Opened,
    loop: AgentLoop,
    host: AgentHost,
    end: LoopEnd,
    *,
    cancelled: bool = False,
) -> tuple[dict[str, Any], Bill]:
    """Journal how a live call ended, and return the terminal entry with its seq, and its bill."""
    state = loop.state
    status = "cancelled" if cancelled else end.status
    fields: dict[str, Any] = {}
    answer = b""
    if status == "ok":
        answer = journal_form(end.output, "ctx.agent answer")
        fields["value"] = fragment(answer)
    elif end.error is not None and (status == "error" or end.is_kept):
        fields["error"] = end.error.to_wire()
    if end.is_kept:
        fields["memoizeOutcome"] = True
    fields["usage"] = state.usage.to_wire()
    if state.usage_approx:
        fields["usageApprox"] = True
    fields["servedBy"] = plan.choice.reference
    attribution: dict[str, Any] = {"phase": place.phase} if place.phase else {}
    attribution.update(agentType=plan.agent_type, role=plan.options.role, budgetAccount=place.account)
    if plan.options.label is not None:
        attribution["label"] = plan.options.label
    fields["costAttribution"] = attribution
    fields["providerCalls"] = state.provider_calls
    if semantics := getattr(loop.task.adapter, "usage_semantics", None):
        fields["usageSemantics"] = semantics
    if (reference := await host.keep_transcript(state)) is not None:
        fields["transcriptRef"] = reference
    if host.checkpoint_ref is not None:
        fields["checkpointRef"] = host.checkpoint_ref
    if plan.options.conduct is not None:
        fields["conduct"] = plan.options.conduct.end_notes()
    wire = run.terminal(opened, status, fields)
    seq = await run.journal.append(wire)
    bill = run.spend.add(wire)
    run.budget.release(host.reservation)
    wire = {**wire, "seq": seq}
    if status == "ok":
        is_plain = type(end.output) is str and end.output.isascii()
        wire["value"] = end.output if is_plain else decode_json(answer)
    announce_end(run, place, plan, wire, bill, opened.span, retries=_retries(state.provider_calls))
    return wire, bill


def _retries(calls: list[dict[str, Any]]) -> int:
    return sum(1 for call in calls if call["attempt"] > 1)
