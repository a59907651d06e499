"""What ended an agent, from what its model call came to."""

from __future__ import annotations

from collections.abc import Mapping

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

_REASONS: Mapping[str, str] = {
    "authentication": "the provider refused the credentials; check the key and what it may do",
    "rate_limited": "the provider's rate limit or credit is used up; wait, or raise it there",
    "unavailable": "the provider could not be reached, or failed; try again",
    "timeout": "the provider did not answer in time; try again, or raise the time-out",
    "rejected": "the provider refused the request; check the model's name and the size of what is sent",
    "refused": "the model refused to answer, or had no room for it",
    "invalid_response": "what it answered cannot be used (invalid_response)",
    "configuration": "its adapter is not set up; check its options (configuration)",
}


def agent_fault(agent_id: str, result: AgentResult) -> RulvarError:
    """Return the error of an agent whose call did not end ok, live or served from the journal.

    Neither what an exception says is told nor what a provider says: either may hold anything. Why the
    provider did not answer is told in words of our own.
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
    told, status = _REASONS.get(reason, reason), data.get("status")
    http = f" (HTTP {status})" if isinstance(status, int) else ""
    return ModelFailedError(
        f"the model of agent {agent_id} failed: {told}{http}", data={**data, "reason": reason}
    )
