"""``ctx.workflow``: a child workflow, admitted by a journaled decision and replayed as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rulvar.contracts.canonical import decode_json, hash_canonical
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_value, refused_at
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.ports.provider import Served
from rulvar.contracts.schema import canonical_schema
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.calls import Call, Claim
from rulvar.engine.control import unwrapped
from rulvar.engine.failure import returned_form
from rulvar.engine.primitives.step import wire_error
from rulvar.engine.run import Run
from rulvar.engine.workflow import RunsAs, Workflow, takes_args
from rulvar.errors import (
    AdmissionRejectedError,
    BudgetExhaustedError,
    ChildWorkflowError,
    ConfigError,
    NonSerializableValueError,
    RulvarError,
)
from rulvar.kernel.admission import HARD_MAX_DEPTH, Estimate
from rulvar.kernel.keys import content_key
from rulvar.kernel.ledger import Reservation
from rulvar.kernel.scope import workflow_scope
from rulvar.tools.grants import narrow_grants

__all__ = ["check_args", "revived_args", "run_child"]


async def run_child(
    run: Run,
    child: Workflow[Any] | RunsAs[Any] | type | str,
    args: Any,
    key: str | None,
    site: CallSite | None,
    *,
    scope: str | None = None,
    counts_depth: bool = True,
) -> Any:
    """Run a child workflow; see ``Ctx.workflow``.

    Args:
        scope: where the child stands, when its caller has chosen that before. A child that a transition
            has started fails for good: its failure is kept, and a resume does not run it again.
        counts_depth: whether it is one level deeper; the children of machines and tools are bounded by the
            spawn cap alone.
    """
    place = run.place()
    workflow = run.engine.workflow_of(child)
    if key is not None and not isinstance(key, str):
        raise ConfigError(
            f"ctx.workflow({workflow.name!r}) key: expected a string, got {type(key).__name__}",
            data={"field": "key"},
        )
    what = f"ctx.workflow({workflow.name!r}) args"
    plain = journal_value(args, what)
    identity: dict[str, Any] = {"kind": "child", "workflow": workflow.name}
    if key is None:
        identity["args"] = plain
    else:
        identity["args"] = key  # an explicit key stands where the args stand
    try:
        hashed = content_key(identity)
    except NonSerializableValueError as error:  # a number that no double holds
        raise refused_at(error, f"ctx.workflow({workflow.name!r})") from None
    assert hashed is not None
    keeps_failure = scope is not None or place.attempt is not None
    if scope is None:
        scope = workflow_scope(place.scope, workflow.name, run.next_site(place.scope, f"wf:{workflow.name}"))
    call = Call(identity, hashed, workflow.name, site)
    claim = run.claim(place, call)
    if claim.action == "skip":
        return None
    if claim.action == "replay":
        assert claim.operation is not None and claim.operation.terminal is not None
        run.accounting.served_children.append(_child_scope(claim.operation.first) or scope)
        run.observe.call("child", place.scope, hashed, Served(how="journal"), site, label=workflow.name)
        return _recorded_end(claim.operation.terminal)
    if claim.action == "wait":
        claim = Claim("rerun", claim.operation)  # to where it waits
    if claim.operation is not None:  # it goes on where it stood
        scope = _child_scope(claim.operation.first) or scope
    span = run.next_span()
    depth = place.depth + 1 if counts_depth else place.depth
    reservation = await _admit(run, place, workflow, scope, span, depth)
    if reservation is not None:
        # the child's own calls are promised on the same accounts: its own promise has done its work
        run.budget.ledger.release(reservation)
    extra: dict[str, Any] = {"value": {"workflow": workflow.name, "childScope": scope}}
    if keeps_failure:
        extra["memoizeOutcome"] = True
    if run.tracing and plain is not None:
        extra["value"]["args"] = plain
    opened = await run.begin(place, "child", hashed, span, claim, workflow.name, extra)
    here = place.at(
        scope=scope,
        span=opened.span,
        workflow=workflow,
        account=scope,
        depth=depth,
        phase=None,
        attempt=None,
        grants=narrow_grants(place.grants, workflow.grants),
    )
    run.models.bring(workflow.adapters)
    run.bus.emit("child:start", opened.span, place.span, {"workflow": workflow.name, "scope": scope})
    status, fields, failure, result = await _body(run, here, workflow, plain)
    if run.strict:  # it did not come to a wait: that it has ended cannot be journaled
        run.not_served("rerun", claim.operation, place, call)
    if keeps_failure and isinstance(failure, Exception):
        failure = _kept(failure)
        fields = {"error": failure.to_wire()}
    await asyncio.shield(run.finish(opened, status, fields))
    ended = {"workflow": workflow.name, "scope": scope, "status": status}
    run.bus.emit("child:end", opened.span, place.span, ended)
    run.observe.call("child", place.scope, hashed, Served(how="live"), site, label=workflow.name)
    if failure is not None:
        raise failure
    return result


def _recorded_end(terminal: JournalEntry) -> Any:
    if terminal.status != "error":
        return terminal.value
    wire = terminal.to_wire().get("error") or {}
    raise ChildWorkflowError(str(wire.get("message", "")), data=wire.get("data"))


def _kept(failure: Exception) -> ChildWorkflowError:
    """Return a failure in the form in which the journal keeps it."""
    data = {"kind": "terminal", "error": wire_error(failure)}
    kept = ChildWorkflowError(str(failure), data=data)
    kept.run_status = getattr(failure, "run_status", "error")
    kept.__cause__ = failure
    return kept


async def _body(
    run: Run, here: Place, workflow: Workflow[Any], args: Any
) -> tuple[str, Mapping[str, Any], BaseException | None, Any]:
    """Run a child's body; return its status, its terminal fields, its failure and its value."""
    token = CURRENT_PLACE.set(here)
    try:
        if workflow.args is not None:
            _check_args(workflow, args)
            args = revived_args(workflow, args)
        body = workflow.body
        if not workflow.is_driver:
            run.engine.guard.watch(run, body)
        ctx = run.engine.ctx_of(run)
        coroutine = body(ctx, args) if takes_args(body) else body(ctx)
        value = await (coroutine if workflow.is_driver else run.inside(coroutine))
        data = returned_form(workflow, value)
        return "ok", {"value": fragment(data)}, None, decode_json(data)
    except BaseException as raised:
        error = unwrapped(raised)
        if isinstance(error, asyncio.CancelledError):
            return "cancelled", {}, error, None
        if isinstance(error, Exception):
            return "error", {"error": wire_error(error)}, error, None
        raise error from None  # the child stays dangling: it goes on when the run does
    finally:
        CURRENT_PLACE.reset(token)


async def _admit(
    run: Run, place: Place, workflow: Workflow[Any], scope: str, span: str, depth: int
) -> Reservation | None:
    """Journal whether the child may start, and open its account; a recorded decision stands."""
    budget, share = run.budget, workflow.budget_share
    recorded = _recorded_admission(run, place.scope, scope)
    if recorded is not None or run.strict:
        admitted_at, decision = recorded or (-1, {"verdict": {"kind": "admit"}})
        if recorded is not None:
            _announce(run, place, workflow, span, admitted_at, decision, replayed=True)
        _raise_rejection(run, workflow, decision["verdict"], None)
        budget.reopen_child(place, scope, admitted_at, _recorded_bound(decision["verdict"]), share)
        return None
    bound = budget.child_bound(place, share)
    reservation, decision, refused = _decide(run, place, workflow, bound, depth)
    seq = await run.decide(
        place.scope,
        "",
        span,
        {
            "decisionType": "spawn-admission",
            "origin": "ctx.workflow",
            "name": workflow.name,
            "childScope": scope,
            "parentAccountScope": place.account,
            "decision": decision,
        },
    )
    _announce(run, place, workflow, span, seq, decision)
    _raise_rejection(run, workflow, decision["verdict"], refused)
    budget.open_child(place, scope, bound)
    return reservation


def _decide(
    run: Run, place: Place, workflow: Workflow[Any], bound: float | None, depth: int
) -> tuple[Reservation | None, dict[str, Any], BudgetExhaustedError | None]:
    """Return the promise for a child, the decision on it, and what the budget said where that refused it."""
    budget = run.budget
    children = budget.children.get(place.account, 0)
    stats = {"spawnsBefore": budget.spawned, "childrenOfParentBefore": children, "depth": depth}
    promise, bounded = budget.estimate(workflow.promise_usd, None), False
    if bound is not None and promise.reserve_usd > bound:
        promise, bounded = Estimate(bound, promise.source), True
    code, reservation, refused = None, None, None
    if depth > run.engine.budget_defaults.max_depth:
        code = "depth"
    elif not budget.spawns_left:
        code = "lifetime"
    else:
        try:
            reservation = budget.reserve(place, promise)
        except BudgetExhaustedError as error:
            code, refused = "budget", error
    if code is not None:
        return None, {"verdict": {"kind": "reject", "reason": {"code": code}}, "statsBefore": stats}, refused
    reserve: dict[str, Any] = {"reserveUsd": promise.reserve_usd, "source": _SOURCES[promise.source]}
    if bounded:
        reserve["clampedBy"] = "fraction-ceiling"
    if bound is not None:
        reserve["childCeilingUsd"] = bound
    budget.count_spawn()
    budget.children[place.account] = children + 1
    return reservation, {**_lineage(run, workflow, reserve, depth), "statsBefore": stats}, None


_SOURCES = {"default": "default", "est-cost": "estCost"}
"""Where a promise comes from, in the words of the journal."""


def _lineage(run: Run, workflow: Workflow[Any], reserve: Mapping[str, Any], depth: int) -> dict[str, Any]:
    task = run.engine.mint_id()
    signature = hash_canonical({"kind": "child", "workflow": workflow.name})
    verdict = {
        "kind": "admit",
        "reserve": reserve,
        "spawnUnitsAfter": run.budget.spawns_left,
        "lineage": {"logicalTaskId": task, "isNew": True, "depth": depth},
    }
    lineage = {
        "logicalTaskId": task,
        "relation": "first",
        "attemptOrdinal": 0,
        "ancestry": [],
        "approachSig": signature,
        "approachSigCoarse": signature,
        "sigVersion": 1,
        "approachTag": "default",
    }
    return {"verdict": verdict, "nodeId": run.engine.mint_id(), "lineage": lineage}


def _announce(
    run: Run,
    place: Place,
    workflow: Workflow[Any],
    span: str,
    seq: int,
    decision: Mapping[str, Any],
    *,
    replayed: bool = False,
) -> None:
    """Tell whether a child may start."""
    verdict = decision["verdict"]
    if verdict.get("kind") == "admit":
        lineage = verdict.get("lineage")
        facts = {
            "entryRef": seq,
            "verdict": "admit",
            "agentType": workflow.name,
            "logicalTaskId": lineage.get("logicalTaskId") if isinstance(lineage, Mapping) else None,
            "spawnUnitsAfter": verdict.get("spawnUnitsAfter"),
        }
        run.bus.emit("spawn:admitted", span, place.span, facts, replayed)
    else:
        reason = verdict.get("reason")
        code = reason.get("code") if isinstance(reason, Mapping) else None
        facts = {"entryRef": seq, "code": code, "agentType": workflow.name}
        run.bus.emit("spawn:rejected", span, place.span, facts, replayed)


def _raise_rejection(
    run: Run, workflow: Workflow[Any], verdict: Mapping[str, Any], refused: BudgetExhaustedError | None
) -> None:
    if verdict.get("kind") == "admit":
        return
    reason = verdict.get("reason") or {}
    text = f"child workflow {workflow.name!r} may not start: {_reason_text(run, reason, refused)}"
    if reason.get("code") in ("budget", "lifetime"):
        raise BudgetExhaustedError(text, data={**({} if refused is None else refused.data), "reason": reason})
    raise AdmissionRejectedError(text, data={"reason": reason})


def _reason_text(run: Run, reason: Mapping[str, Any], refused: BudgetExhaustedError | None) -> str:
    defaults = run.engine.budget_defaults
    code = reason.get("code")
    if code == "depth":
        return (
            f"children may be {defaults.max_depth} deep (budget_defaults max_depth, at most {HARD_MAX_DEPTH})"
        )
    if code == "lifetime":
        return (
            f"the run has started as many agents and children as it may ({defaults.max_spawns}: max_spawns)"
        )
    if code == "budget":
        return "the budget did not admit it" if refused is None else refused.message
    return str(code or "rejected")


def _recorded_bound(verdict: Mapping[str, Any]) -> float | None:
    """Return the ceiling that a recorded decision gave a child."""
    reserve = verdict.get("reserve")
    bound = reserve.get("childCeilingUsd") if isinstance(reserve, Mapping) else None
    return float(bound) if isinstance(bound, (int, float)) and not isinstance(bound, bool) else None


def _recorded_admission(run: Run, parent: str, child: str) -> tuple[int, Mapping[str, Any]] | None:
    """Return the decision on a child that the journal brought; one for want of money falls with a new ceiling."""
    recorded = run.recorded_admissions().get((parent, child))
    if recorded is None:
        return None
    seq, decision = recorded
    reason = decision["verdict"].get("reason")
    for_money = isinstance(reason, Mapping) and reason.get("code") == "budget"
    return None if for_money and run.budget.is_raised_since(seq) else recorded


def _child_scope(first: JournalEntry) -> str | None:
    value = first.value
    return value.get("childScope") if isinstance(value, dict) else None


def revived_args(workflow: Workflow[Any], args: Any) -> Any:
    """Return arguments as a workflow sees them: an instance of their type, defaults applied."""
    return args if workflow.args is None else workflow.args.revive(_filled(workflow, args))


def _filled(workflow: Workflow[Any], args: Any) -> Any:
    """Return no arguments as none of the fields, where there are fields: each may have a default."""
    if args is not None or workflow.args is None:
        return args
    schema = canonical_schema(workflow.args.json)
    is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    return {} if is_object else None


def _check_args(workflow: Workflow[Any], args: Any) -> None:
    assert workflow.args is not None
    issues = workflow.args.issues(_filled(workflow, args))
    if issues:
        path = "".join(f"[{part!r}]" for part in issues[0].path)
        none = "" if args is not None else "; no arguments were given: pass args"
        raise ConfigError(
            f"workflow {workflow.name!r} args{path}: {issues[0].message}{none}",
            data={"field": f"args{path}", "issues": [issue.to_wire() for issue in issues]},
        )


def check_args(workflow: Workflow[Any], args: Any) -> RulvarError | None:
    """Return what is wrong with a workflow's arguments, or None."""
    if workflow.args is None:
        return None
    try:
        _check_args(workflow, args)
    except RulvarError as error:
        return error
    return None
