"""How an agent call ends when there is no answer: limits, refusals, answers cut short."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rulvar.contracts.schema import SchemaIssue
from rulvar.contracts.stream import WireError
from rulvar.errors import BudgetExhaustedError, RulvarError
from rulvar.runtime.turn import Turn

__all__ = [
    "LoopEnd",
    "cut_answer",
    "exchange_error",
    "fault_error",
    "is_whole",
    "limit_reached",
    "mismatch",
    "refusal_told",
    "refused",
    "refused_or_full",
    "said_nothing",
    "unpaid",
]


class LoopEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a loop ended.

    Attributes:
        fatal: an error that no workflow may catch.
        denied: the budget's refusal.
        is_kept: whether a resume is served this end instead of making the call again.
    """

    status: Literal["ok", "error", "limit"]
    output: Any = None
    error: WireError | None = None
    fatal: BaseException | None = None
    denied: BudgetExhaustedError | None = None
    is_kept: bool = False


def limit_reached(name: str, bound: float) -> WireError:
    return WireError(
        code="agent",
        message=f"the agent reached its limit {name}={bound}",
        retryable=False,
        data={"kind": "terminal"},
    )


def refused_or_full(turn: Turn) -> LoopEnd | None:
    """Return the end of a call whose model refused, or whose conversation no longer fits."""
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
    return None


def is_whole(turn: Turn) -> bool:
    """Whether the model ended its answer itself, and not at the bound of its output tokens."""
    return turn.finish is None or turn.finish.finish.reason != "max-tokens"


def cut_answer(turn: Turn) -> WireError:
    return limit_reached("max_output_tokens", turn.usage.output_tokens)


def said_nothing() -> WireError:
    """Return the error of a call whose output tokens were used up before there was a text.

    The same call would end the same again, so a resume is served it.
    """
    return WireError(
        code="agent",
        message=(
            "the model used up its output tokens before it said anything; raise "
            "limits.max_output_tokens_per_turn, or lower the effort"
        ),
        retryable=False,
        data={"kind": "terminal", "abortClass": "output-truncated"},
    )


def exchange_error(error: WireError) -> WireError:
    """Return an exchange's error as that of the call which it ended: its kind, and what it says of the provider."""
    told = error.data or {}
    kind = "rate-limit" if error.code == "rate-limit" else told.get("kind")
    data: dict[str, Any] = {"kind": kind if isinstance(kind, str) else "transport"}
    data.update((name, told[name]) for name in ("retryAfterMs", "status", "reason") if name in told)
    return WireError(code="agent", message=error.message, retryable=error.retryable, data=data)


def fault_error(fault: RulvarError) -> WireError:
    """Return the error of a call that a fault ends: it keeps the fault's own code."""
    wire = fault.to_wire()
    kind = "budget" if isinstance(fault, BudgetExhaustedError) else "tool"
    return WireError.from_wire({**wire, "data": {"kind": kind, **(wire.get("data") or {})}})


def unpaid(error: BudgetExhaustedError) -> WireError:
    return WireError(code="agent", message=error.message, retryable=False, data={"kind": "budget"})


def refusal_told(turn: Turn) -> WireError | None:
    """Return a model's refusal as observers are told of it, with what the provider says; None when it is none."""
    if turn.finish is None or turn.finish.finish.reason != "refusal":
        return None
    refusal = turn.finish.finish.refusal
    data = {"kind": "terminal", **({} if refusal is None else {"refusal": refusal.to_wire()})}
    return WireError(code="agent", message=refused(turn).message, retryable=False, data=data)


def refused(turn: Turn) -> WireError:
    refusal = turn.finish.finish.refusal if turn.finish is not None else None
    details = {} if refusal is None else refusal.to_wire()
    category = (details.get("stopDetails") or {}).get("category")
    text = "the model refused to answer" + (f" ({category})" if isinstance(category, str) else "")
    return WireError(
        code="agent", message=text, retryable=False, data={"kind": "terminal", "reason": "refusal"}
    )


def mismatch(issues: list[SchemaIssue]) -> WireError:
    wire = [issue.to_wire() for issue in issues]
    text = "; ".join(issue.message for issue in issues[:3])
    return WireError(
        code="agent",
        message=f"the answer does not fit the schema: {text}",
        retryable=False,
        data={"kind": "schema-mismatch", "issues": wire},
    )
