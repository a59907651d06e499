"""``ctx.agent``: one model call, journaled as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.outcome import Dropped
from rulvar.contracts.ports.clock import epoch_ms
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.schema import SchemaContract
from rulvar.contracts.stream import WireError
from rulvar.contracts.usage import Usage
from rulvar.engine.branch import Place
from rulvar.engine.primitives.agent_host import AgentHost, load_checkpoint
from rulvar.engine.run import Call, Claim, Opened, Run
from rulvar.errors import AgentCallError, ConfigError, ReplayStopped, RulvarError
from rulvar.kernel.keys import EMPTY_SCHEMA_HASH, EMPTY_TOOLSET_HASH, content_key, schema_hash, toolset_hash
from rulvar.kernel.ledger import Reservation
from rulvar.kernel.matching import Operation
from rulvar.runtime.agent import AgentProfile, AgentResult
from rulvar.runtime.limits import UsageLimits
from rulvar.runtime.loop import AgentLoop, AgentTask, LoopEnd
from rulvar.runtime.retry import RetryPolicy
from rulvar.runtime.router import ModelChoice, RoutingLayer, choose_model
from rulvar.tools.tool import Tool
from rulvar.tools.toolset import Toolset

__all__ = ["AgentOptions", "run_agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The keyword arguments of ``ctx.agent``, as they were given."""

    agent_type: str | None = None
    schema: Any = None
    label: str | None = None
    key: str | None = None
    model: Any = None
    effort: str | None = None
    routing: Mapping[str, Any] | None = None
    role: str = "loop"
    tools: Iterable[Tool | str] | None = None
    result: str = "value"
    on_error: str = "raise"
    retry: Any = None
    fallback: Any = None
    limits: Any = None
    est_cost: float | None = None
    memoize_outcome: bool = False
    replay: str = "auto"
    isolation: Any = "none"
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """An agent call with every option resolved."""

    prompt: str
    options: AgentOptions
    agent_type: str
    choice: ModelChoice
    toolset: Toolset
    schema: SchemaContract | None
    profile: AgentProfile
    identity: Mapping[str, Any]
    key: str
    site: CallSite | None


async def run_agent(run: Run, prompt: str, options: AgentOptions, site: CallSite | None) -> Any:
    """Run one agent call; see ``Ctx.agent``."""
    place = run.place()
    fallback = _fallback(options, run.engine.profile(options.agent_type or ""))
    if fallback is None:
        return await _call(run, place, prompt, options, site)
    full = replace(options, result="full", fallback=None)
    result: AgentResult = await _call(run, place, prompt, full, site)
    if result.status in fallback["on"]:
        await run.decide(
            place.scope,
            "",
            place.span,
            {
                "decisionType": "model.fallback",
                "targetRef": result.call_ref,
                "trigger": result.status,
                "model": fallback["model"],
            },
        )
        return await _call(run, place, prompt, replace(options, model=fallback["model"], fallback=None), site)
    return _hand_over(run, place, options, result)


async def _call(run: Run, place: Place, prompt: str, options: AgentOptions, site: CallSite | None) -> Any:
    plan = plan_agent(run, place, prompt, options, site)
    call = Call(plan.identity, plan.key, options.label, site, options.replay)
    claim = run.claim(place, call)
    if claim.action == "skip":
        return None
    if claim.action == "replay":
        assert claim.operation is not None
        return _deliver_recorded(run, place, plan, claim.operation)
    return await _run_live(run, place, plan, claim)


def plan_agent(
    run: Run, place: Place, prompt: str, options: AgentOptions, site: CallSite | None
) -> AgentPlan:
    """Resolve every option of a call, and its identity.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    _check_options(prompt, options)
    agent_type = options.agent_type or ""
    profile = run.engine.profile(agent_type)
    choice = choose_model(
        options.role,
        (
            RoutingLayer(
                where="ctx.agent", model=options.model, effort=options.effort, routing=options.routing
            ),
            RoutingLayer(
                where="profile", model=profile.model, effort=profile.effort, routing=profile.routing
            ),
            RoutingLayer(
                where="workflow",
                model=place.workflow.model,
                effort=place.workflow.effort,
                routing=place.workflow.routing,
            ),
            RoutingLayer(where="engine", routing=run.engine.routing),
        ),
    )
    toolset = _toolset(options, profile)
    raw = options.schema if options.schema is not None else profile.schema
    schema = None if raw is None else run.engine.schema(raw, "ctx.agent schema")
    spec: dict[str, Any] = {"kind": "model", "model": choice.reference}
    if choice.effort is not None:
        spec["effort"] = choice.effort
    identity = {
        "kind": "agent",
        "agentType": agent_type,
        "modelSpec": spec,
        "prompt": prompt if options.key is None else options.key,
        "schemaHash": EMPTY_SCHEMA_HASH if schema is None else run.engine.hash_of_schema(schema, schema_hash),
        "toolsetHash": toolset_hash(toolset.contracts) if len(toolset) else EMPTY_TOOLSET_HASH,
        "isolation": options.isolation,
    }
    key = content_key(identity)
    assert key is not None
    return AgentPlan(
        prompt=prompt,
        options=options,
        agent_type=agent_type,
        choice=choice,
        toolset=toolset,
        schema=schema,
        profile=profile,
        identity=identity,
        key=key,
        site=site,
    )


def _toolset(options: AgentOptions, profile: AgentProfile) -> Toolset:
    if options.tools is None:
        return Toolset(profile.tools)
    own = {tool.name: tool for tool in profile.tools}
    chosen: list[Tool] = []
    for item in options.tools:
        if isinstance(item, str):
            if item not in own:
                raise ConfigError(
                    f"ctx.agent tools: the profile has no tool named {item!r}", data={"field": "tools"}
                )
            chosen.append(own[item])
        else:
            chosen.append(item)
    return Toolset(chosen)


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "result": ("value", "full"),
    "on_error": ("raise", "null"),
    "replay": ("auto", "cache", "never"),
}


def _check_options(prompt: object, options: AgentOptions) -> None:
    if not isinstance(prompt, str):
        raise ConfigError(
            f"ctx.agent prompt: expected a string, got {type(prompt).__name__}", data={"field": "prompt"}
        )
    for name, allowed in _CHOICES.items():
        value = getattr(options, name)
        if value not in allowed:
            raise ConfigError(
                f"ctx.agent {name}={value!r}: use {' or '.join(map(repr, allowed))}", data={"field": name}
            )
    for name in ("agent_type", "label", "key"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(
                f"ctx.agent {name}: expected a string, got {type(value).__name__}", data={"field": name}
            )


async def _run_live(run: Run, place: Place, plan: AgentPlan, claim: Claim) -> Any:
    task = _task(run, plan)
    promise = run.budget.estimate(plan.options.est_cost, plan.profile.est_cost)
    reservation = run.budget.reserve(place, promise)
    try:
        if claim.operation is None or claim.operation.terminal is not None:
            run.budget.count_spawn()
        return await _run_admitted(run, place, plan, claim, task, reservation)
    finally:
        run.budget.ledger.release(reservation)


async def _run_admitted(
    run: Run, place: Place, plan: AgentPlan, claim: Claim, task: AgentTask, reservation: Reservation
) -> Any:
    extra: dict[str, Any] = {}
    if plan.options.memoize_outcome:
        extra["memoizeOutcome"] = True
    if plan.options.isolation != "none":
        extra["value"] = {"isolation": plan.options.isolation}
    opened = await run.begin(place, "agent", plan.key, run.next_span(), claim, extra)
    state = await load_checkpoint(run, opened, claim)
    host = AgentHost(run, place, plan, opened, task, reservation)
    loop = AgentLoop(task, host, state)
    _announce_start(run, place, plan, opened.span, replayed=False)
    place.branch.busy(1)
    try:
        await asyncio.sleep(0)  # calls that start together are all admitted before the first one ends
        end = await _to_the_end(loop)
        wire = await _journal_end(run, place, plan, opened, loop, host, end)
    except asyncio.CancelledError:
        end = LoopEnd(status="error")
        await asyncio.shield(_journal_end(run, place, plan, opened, loop, host, end, cancelled=True))
        raise
    finally:
        place.branch.busy(-1)
    if end.fatal is not None:
        assert isinstance(end.fatal, RulvarError)
        run.stop(end.fatal)
        raise ReplayStopped(end.fatal)
    return _deliver(run, place, plan, wire, replayed=False)


async def _to_the_end(loop: AgentLoop) -> LoopEnd:
    timeout = loop.task.limits.timeout_s
    if timeout is None:
        return await loop.run()
    try:
        async with asyncio.timeout(timeout):
            return await loop.run()
    except TimeoutError:
        error = WireError(
            code="agent",
            message=f"the agent reached its limit timeout_s={timeout}",
            retryable=False,
            data={"kind": "terminal"},
        )
        return LoopEnd(status="limit", error=error)


def _task(run: Run, plan: AgentPlan) -> AgentTask:
    options, profile = plan.options, plan.profile
    limits = UsageLimits.of(profile.limits, "profile limits") if options.limits is None else None
    retry = options.retry if options.retry is not None else profile.retry
    return AgentTask(
        prompt=plan.prompt,
        agent_type=plan.agent_type,
        label=options.label,
        role=options.role,
        choice=plan.choice,
        adapter=run.engine.adapter(plan.choice.adapter_id),
        tools=plan.toolset.contracts,
        schema=plan.schema,
        system=profile.system,
        limits=limits or UsageLimits.of(options.limits, "ctx.agent limits"),
        retry=RetryPolicy.of(retry, "ctx.agent retry") if retry is not None else run.engine.retry,
    )


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
) -> dict[str, Any]:
    """Journal how a live call ended, and return the terminal entry with its seq."""
    state = loop.state
    status = "cancelled" if cancelled else end.status
    fields: dict[str, Any] = {}
    if status == "ok":
        fields["value"] = fragment(journal_form(end.output, "ctx.agent answer"))
    elif status == "error" and end.error is not None:
        fields["error"] = end.error.to_wire()
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
    fields["transcriptRef"] = await host.keep_transcript(state)
    if host.checkpoint_ref is not None:
        fields["checkpointRef"] = host.checkpoint_ref
    if plan.options.memoize_outcome and status in ("error", "limit"):
        pass  # the running entry carries the wish
    wire = run.terminal(opened, status, fields)
    seq = await run.journal.append(wire)
    cost = run.spend.add(wire)
    run.budget.release(host.reservation)
    wire = {**wire, "seq": seq, "limitError": None if end.error is None else end.error.to_wire()}
    if status == "ok":
        wire["value"] = decode_json(journal_form(end.output, "ctx.agent answer"))
    _announce_end(
        run, place, plan, wire, cost, opened.span, replayed=False, retries=_retries(state.provider_calls)
    )
    return wire


def _retries(calls: list[dict[str, Any]]) -> int:
    return sum(1 for call in calls if call["attempt"] > 1)


def _deliver_recorded(run: Run, place: Place, plan: AgentPlan, operation: Operation) -> Any:
    assert operation.terminal is not None
    wire = operation.terminal.to_wire()
    span = run.next_span()
    _announce_start(run, place, plan, span, replayed=True)
    usage = Usage.from_wire(wire["usage"]) if wire.get("usage") else None
    cost = None if usage is None else run.spend.price(str(wire.get("servedBy", "")), usage)
    _announce_end(run, place, plan, wire, cost, span, replayed=True, retries=0)
    if run.observers:
        run.observe_call(
            "agent",
            place.scope,
            plan.key,
            Served(how="journal"),
            plan.site,
            label=plan.options.label,
            agent_type=plan.agent_type or None,
            adapter=plan.choice.adapter_id,
            model=plan.choice.model,
            usage=usage,
            cost_usd=cost,
        )
    return _deliver(run, place, plan, wire, replayed=True)


def _deliver(run: Run, place: Place, plan: AgentPlan, wire: Mapping[str, Any], *, replayed: bool) -> Any:
    """Hand a terminal entry to the workflow: its value, its full result or its error."""
    status = wire["status"]
    error = _error_of(status, wire)
    output = None
    if status == "ok":
        value = wire.get("value")
        output = value if plan.schema is None else plan.schema.revive(value)
    usage = Usage.from_wire(wire["usage"])
    result = AgentResult(
        status=status,
        output=output,
        error=error,
        usage=usage,
        served_by=wire.get("servedBy"),
        cost_usd=run.spend.price(str(wire.get("servedBy", "")), usage),
        entry_ref=wire.get("seq"),
        call_ref=wire.get("ref"),
    )
    return _hand_over(run, place, plan.options, result)


def _hand_over(run: Run, place: Place, options: AgentOptions, result: AgentResult) -> Any:
    """Return or raise a result as the call asked for it."""
    if options.result == "full":
        return result
    if result.error is None:
        return result.output
    if options.on_error == "null":
        run.dropped.append(
            Dropped(
                source="agent-onerror-null",
                scope=place.scope,
                error=result.error,
                entry_ref=result.entry_ref,
                label=options.label,
            )
        )
        return None
    raise _call_error(result.error, result)


def _fallback(options: AgentOptions, profile: AgentProfile) -> Mapping[str, Any] | None:
    """Return ``{"model", "on"}`` of a call that may fall back to another model."""
    fallback = options.fallback if options.fallback is not None else profile.fallback
    if fallback is None:
        return None
    if isinstance(fallback, str):
        fallback = {"model": fallback}
    if not isinstance(fallback, Mapping) or not isinstance(fallback.get("model"), str):
        raise ConfigError(
            "ctx.agent fallback: expected {'model': 'adapter:model', 'on': ['error', 'limit']}",
            data={"field": "fallback"},
        )
    triggers = fallback.get("on", ("error",))
    if isinstance(triggers, str) or not set(triggers) <= {"error", "limit"}:
        raise ConfigError("ctx.agent fallback.on: use 'error' and 'limit'", data={"field": "fallback.on"})
    return {"model": fallback["model"], "on": tuple(triggers)}


def _error_of(status: str, wire: Mapping[str, Any]) -> WireError | None:
    if status == "ok":
        return None
    recorded = wire.get("error") or wire.get("limitError")
    if recorded:
        return WireError.from_wire(recorded)
    text = "the agent reached a limit" if status == "limit" else f"the agent ended {status}"
    return WireError(code="agent", message=text, retryable=False, data={"kind": "terminal"})


def _call_error(error: WireError, result: AgentResult) -> AgentCallError:
    data = {"kind": "terminal", **(error.data or {})}
    raised = AgentCallError(error.message, data=data, retryable=error.retryable)
    raised.result = result
    return raised


def _announce_start(run: Run, place: Place, plan: AgentPlan, span: str, *, replayed: bool) -> None:
    facts = {"agentType": plan.agent_type, "model": plan.choice.reference, "role": plan.options.role}
    run.bus.emit("agent:start", span, place.span, facts, replayed)
    phase = {"agentType": facts["agentType"], "role": facts["role"], "model": facts["model"], "invocation": 1}
    run.bus.emit("agent:phase:start", span, place.span, phase, replayed)


def _announce_end(
    run: Run,
    place: Place,
    plan: AgentPlan,
    wire: Mapping[str, Any],
    cost: float | None,
    span: str,
    *,
    replayed: bool,
    retries: int,
) -> None:
    facts: dict[str, Any] = {
        "agentType": plan.agent_type,
        "status": wire["status"],
        "usage": wire.get("usage"),
        "costUsd": cost or 0,
        "costBasis": "per-call",
        "entryRef": wire.get("seq"),
    }
    if wire.get("usageApprox"):
        facts["usageApprox"] = True
    if retries:
        facts["retryCount"] = retries
    _announce_phase_end(run, place, plan, wire, cost, span, replayed=replayed, retries=retries)
    run.bus.emit("agent:end", span, place.span, facts, replayed)


def _announce_phase_end(
    run: Run,
    place: Place,
    plan: AgentPlan,
    wire: Mapping[str, Any],
    cost: float | None,
    span: str,
    *,
    replayed: bool,
    retries: int,
) -> None:
    facts: dict[str, Any] = {
        "agentType": plan.agent_type,
        "role": plan.options.role,
        "model": plan.choice.reference,
        "invocation": 1,
        "durationMs": 0 if replayed else run.clock.now_ms() - epoch_ms(str(wire["startedAt"])),
        "usage": wire.get("usage"),
        "costUsd": cost or 0,
        "costBasis": "per-call",
        "outcome": "error" if wire["status"] == "cancelled" else wire["status"],
    }
    if retries:
        facts["retries"] = retries
    run.bus.emit("agent:phase:end", span, place.span, facts, replayed)


def brief_prompt(content: str) -> str:
    """Return the prompt of ``ctx.brief``."""
    return f"Give a short, faithful account of the following for a reader who has not seen it.\n\n{content}"
