"""Whether a child workflow may start, and what it may spend: decided once, journaled, and read from there ever after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rulvar.contracts.canonical import hash_canonical
from rulvar.engine.branch import Place
from rulvar.engine.run import Run
from rulvar.engine.workflow import Workflow
from rulvar.errors import AdmissionRejectedError, BudgetExhaustedError
from rulvar.kernel.admission import HARD_MAX_DEPTH, Estimate
from rulvar.kernel.ledger import Reservation

__all__ = ["admit_child"]


async def admit_child(
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
    recorded = run.budget.recorded_admissions().get((parent, child))
    if recorded is None:
        return None
    seq, decision = recorded
    reason = decision["verdict"].get("reason")
    for_money = isinstance(reason, Mapping) and reason.get("code") == "budget"
    return None if for_money and run.budget.is_raised_since(seq) else recorded
