"""What ended an agent, from what its model call came to."""

from __future__ import annotations

from rulvar.contracts.failure import failure_reason
from rulvar.errors import (
    BudgetExceededError,
    InvalidOutputError,
    ModelFailedError,
    RulvarError,
)
from rulvar.runtime.agent import AgentResult
from rulvar.tools.faults import is_recorded_fault, recorded_fault

__all__ = ["agent_fault"]


def agent_fault(agent_id: str, result: AgentResult) -> RulvarError:
    """Return the error of an agent whose call did not end ok, live or served from the journal.

    What an unknown exception says is not told: it may hold anything. What a provider's adapter says of a
    failure of transport is.
    """
    error = result.error
    data = {"agent": agent_id, **((error.data if error is not None else None) or {})}
    if error is not None and is_recorded_fault(error.code):
        return recorded_fault(error.to_wire())
    kind = data.get("kind")
    if kind == "schema-mismatch":
        assert error is not None
        return InvalidOutputError(f"the output of agent {agent_id} does not fit: {error.message}", data=data)
    if kind == "budget":
        assert error is not None
        return BudgetExceededError(error.message, data=data)
    if result.status == "limit":
        # an agent's own limits end it elsewhere: its model stopped before its answer was whole
        return ModelFailedError(
            f"the model of agent {agent_id} stopped before its answer was whole: raise limits.max_output_tokens",
            data={**data, "reason": "refused"},
        )
    reason = failure_reason(error)
    told = (
        f": {error.message}" if error is not None and kind in ("transport", "rate-limit") else f" ({reason})"
    )
    return ModelFailedError(f"the model of agent {agent_id} failed{told}", data={**data, "reason": reason})
