"""How an agent call ends when there is no answer: limits, refusals, answers cut short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.schema import SchemaIssue
from rulvar.contracts.stream import WireError
from rulvar.errors import BudgetExhaustedError, RulvarError
from rulvar.runtime.turn import Turn

__all__ = ["LoopEnd", "cut_short", "fault_error", "limit_reached", "mismatch", "refused", "unpaid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnd:
    """How a loop ended. ``fatal`` is an error that no workflow may catch, ``denied`` the budget's refusal."""

    status: Literal["ok", "error", "limit"]
    output: Any = None
    error: WireError | None = None
    fatal: BaseException | None = None
    denied: BudgetExhaustedError | None = None


def limit_reached(name: str, bound: float) -> WireError:
    return WireError(
        code="agent",
        message=f"the agent reached its limit {name}={bound}",
        retryable=False,
        data={"kind": "terminal"},
    )


def cut_short(turn: Turn) -> LoopEnd | None:
    """Return the end of a call whose answer is not whole: it must not pass for one that is."""
    reason = turn.finish.finish.reason if turn.finish is not None else "stop"
    if reason == "refusal":
        return LoopEnd(status="error", error=refused(turn))
    if reason == "context-window-exceeded":
        error = WireError(
            code="agent",
            message="the conversation no longer fits the model's context window",
            retryable=False,
            data={"kind": "terminal", "reason": reason},
        )
        return LoopEnd(status="error", error=error)
    if reason == "max-tokens":
        return LoopEnd(status="limit", error=limit_reached("max_output_tokens", turn.usage.output_tokens))
    return None


def fault_error(fault: RulvarError) -> WireError:
    """Return the error of a call that a fault ends: it keeps the fault's own code."""
    wire = fault.to_wire()
    kind = "budget" if isinstance(fault, BudgetExhaustedError) else "tool"
    return WireError.from_wire({**wire, "data": {"kind": kind, **(wire.get("data") or {})}})


def unpaid(error: BudgetExhaustedError) -> WireError:
    return WireError(code="agent", message=error.message, retryable=False, data={"kind": "budget"})


def refused(turn: Turn) -> WireError:
    refusal = turn.finish.finish.refusal if turn.finish is not None else None
    data: dict[str, Any] = {"kind": "terminal", "reason": "refusal"}
    if refusal is not None:
        data["refusal"] = refusal.to_wire()
    return WireError(code="agent", message="the model refused to answer", retryable=False, data=data)


def mismatch(issues: list[SchemaIssue]) -> WireError:
    wire = [issue.to_wire() for issue in issues]
    text = "; ".join(issue.message for issue in issues[:3])
    return WireError(
        code="agent",
        message=f"the answer does not fit the schema: {text}",
        retryable=False,
        data={"kind": "schema-mismatch", "issues": wire},
    )
