"""Every error that rulvar raises on purpose.

::

    RulvarError                     an error a caller may catch; has code, retryable, data, to_wire()
    ├── ConfigError                 a value, file or option is wrong; names the field
    │   ├── SchemaError             a JSON Schema cannot be used
    │   ├── NotAwaitableError       a branch or a stage returned what cannot be awaited
    │   ├── MachineDefinitionError  a state machine's class cannot be compiled
    │   └── FakeResponderError      the fake tier has no responder for a call
    ├── NonSerializableValueError   a value cannot enter the journal; names the path
    ├── JournalCompatibilityError   a journal of another version
    ├── JournalOrderViolation       a line that cannot be read, or an append out of order
    ├── SettlementError             a run's last entry could not be written
    ├── DeterminismError            nondeterminism where the run forbids it
    ├── JournalMissError            strict replay would have gone live
    ├── VcrMissError                no cassette row serves the request
    ├── BudgetExhaustedError        a ceiling does not admit the call
    │   └── BudgetExceededError     a ceiling does not admit a tool's cost
    ├── AgentCallError              a model call ended in an error
    ├── ModelFailedError            an agent's model did not answer, or not usably
    ├── LimitExceededError          a model call ended at a usage limit
    │   └── AgentLimitError         an agent reached one of its limits
    ├── NotFoundError               an agent's model names a tool that the agent does not have
    ├── ConflictError               something is done twice that may be done once
    ├── ToolDeniedError             the gate refused a tool call
    │   └── PermissionDeniedError   a grant is missing
    ├── ToolFailedError             a tool raised, refused or answered with an error
    ├── CallTimeoutError            a tool call or a transition took longer than it may
    ├── ToolCancelledError          a tool call was cancelled before it began
    ├── InvalidInputError           a tool's arguments do not fit
    ├── InvalidOutputError          a tool's result, a state or a document does not fit
    ├── GuardBlockedError           a guard blocked a tool call
    ├── GuardUnavailableError       a guard broke, so the call is blocked
    ├── OutcomeUnknownError         a write may have happened, and nobody knows
    ├── TransitionError             a transition of a state machine failed
    ├── ReplayDriftError            a call does not follow the tool fixture
    ├── ReplayLeftoverError         a run ended before the tool fixture did
    ├── AdmissionRejectedError      a child may not be started (depth, spawn cap)
    ├── ChildWorkflowError          a child workflow failed
    ├── RunCancelledError           the run was cancelled
    ├── RunFailedError              the value of a run that did not end ok was asked for
    ├── RunInterruptedError         a run breaks off again and again at the same place
    ├── RunNotFoundError            no run of that id in the store
    ├── ResolutionError             an external wait cannot be resolved that way
    ├── LeaseHeldError              another owner drives the run
    ├── SupersededError             this owner has lost the run to a later one
    └── StoreError                  a store could not do what it was asked: disk, database, lock

Control flow is not an error: :class:`ControlFlow` and its children derive from ``BaseException``,
so that a workflow's ``except Exception`` cannot swallow a suspension or a strict-replay miss.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AdmissionRejectedError",
    "AgentCallError",
    "AgentLimitError",
    "BudgetExceededError",
    "BudgetExhaustedError",
    "CallTimeoutError",
    "ChildWorkflowError",
    "ConfigError",
    "ConflictError",
    "ControlFlow",
    "DeterminismError",
    "FakeResponderError",
    "GuardBlockedError",
    "GuardUnavailableError",
    "InvalidInputError",
    "InvalidOutputError",
    "JournalCompatibilityError",
    "JournalMissError",
    "JournalOrderViolation",
    "LeaseHeldError",
    "LimitExceededError",
    "MachineDefinitionError",
    "ModelFailedError",
    "NonSerializableValueError",
    "NotAwaitableError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "ReplayDriftError",
    "ReplayLeftoverError",
    "ReplayStopped",
    "ResolutionError",
    "RulvarError",
    "RunCancelledError",
    "RunFailedError",
    "RunInterruptedError",
    "RunNotFoundError",
    "RunSuspended",
    "SchemaError",
    "SettlementError",
    "StoreError",
    "SupersededError",
    "ToolCancelledError",
    "ToolDeniedError",
    "ToolFailedError",
    "TransitionAborted",
    "TransitionError",
    "VcrMissError",
]


class RulvarError(Exception):
    """Base of every error that rulvar raises on purpose.

    Attributes:
        code: stable, machine-readable name of the kind of error.
        retryable: whether the same call may succeed when it is made again.
        data: JSON-ready facts about the error; never a secret.
        run_status: how a run ends that this error ends.
    """

    code: ClassVar[str] = "error"
    run_status: str = "error"

    def __init__(self, message: str, *, data: dict[str, Any] | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = data or {}
        self.retryable = retryable

    def to_wire(self) -> dict[str, Any]:
        """Return the error as the JSON object that outcomes, journals and events carry."""
        wire: dict[str, Any] = {
            "code": self.wire_code,
            "message": self.message,
            "retryable": self.retryable,
        }
        if self.data:
            wire["data"] = self.data
        return wire

    @property
    def wire_code(self) -> str:
        """The code that outcomes and journals carry."""
        return self.code


class ConfigError(RulvarError):
    """A value, a file or an option is wrong: the message names it and says what is allowed."""

    code = "config"


class SchemaError(ConfigError):
    """A JSON Schema cannot be used: the message names the keyword or reference."""


class NotAwaitableError(ConfigError):
    """A branch, a stage or the body of a phase returned what cannot be awaited: it is wrong for every item."""


class MachineDefinitionError(ConfigError):
    """A state machine's class cannot be compiled: the message names class and transition."""


class NonSerializableValueError(RulvarError):
    """A value cannot enter the journal: ``data["path"]`` names the offending field."""

    code = "non_serializable_value"


class JournalCompatibilityError(RulvarError):
    """A journal was written under a hash version that this engine does not read."""

    code = "journal_compat"


class JournalOrderViolation(RulvarError):
    """A journal's order is broken: a line before the last cannot be read, or an append is not after the tail."""

    code = "journal_order_violation"


class SettlementError(RulvarError):
    """The entry that settles a run could not be written; the outcome is not durable."""

    code = "settlement"


class DeterminismError(RulvarError):
    """A workflow read the clock, chance or the environment where the run forbids it."""

    code = "determinism"


class JournalMissError(RulvarError):
    """A strict replay reached a call that is not in the journal: it would have gone live."""

    code = "journal_miss"


class VcrMissError(RulvarError):
    """No cassette row serves a request.

    Attributes:
        adapter_id: adapter that was asked.
        request_hash: hash of the request.
        recorded_occurrences: 0 when never recorded, n when n rows were recorded and all are used up.
    """

    code = "vcr_miss"

    def __init__(
        self,
        message: str,
        *,
        adapter_id: str,
        request_hash: str,
        recorded_occurrences: int,
        data: dict[str, Any] | None = None,
    ) -> None:
        facts = {
            "adapterId": adapter_id,
            "requestHash": request_hash,
            "recordedOccurrences": recorded_occurrences,
        }
        super().__init__(message, data={**facts, **(data or {})})
        self.adapter_id = adapter_id
        self.request_hash = request_hash
        self.recorded_occurrences = recorded_occurrences


class FakeResponderError(ConfigError):
    """The fake tier has no responder for a call: add one, or the fallback ``"*"``."""


class BudgetExhaustedError(RulvarError):
    """A budget ceiling does not admit a call."""

    code = "budget_exhausted"
    run_status = "exhausted"


class BudgetExceededError(BudgetExhaustedError):
    """A ceiling does not admit a tool's declared cost."""

    code = "budget_exceeded"
    run_status = "exhausted"


class AgentCallError(RulvarError):
    """A model call ended in an error; ``data["kind"]`` is its kind.

    Kinds: transport, rate-limit, schema-mismatch, tool, budget, terminal.
    """

    code = "agent"
    result: Any = None
    """The call's AgentResult, when there is one."""

    @property
    def kind(self) -> str:
        """The kind of failure, one of the closed set in the class docstring."""
        return str(self.data.get("kind", "terminal"))


class LimitExceededError(RulvarError):
    """A model call ended at one of its usage limits; ``data["limit"]`` names it."""

    code = "limit"


class AgentLimitError(LimitExceededError):
    """An agent reached one of its limits; ``data["limit"]`` names it."""

    code = "limit_exceeded"


class ModelFailedError(RulvarError):
    """An agent's model did not answer, or not usably; ``reason`` says why."""

    code = "model_failed"

    @property
    def reason(self) -> str:
        """Why; see ``rulvar.contracts.failure``."""
        return str(self.data.get("reason", "invalid_response"))


class NotFoundError(RulvarError):
    """An agent's model names a tool that the agent does not have."""

    code = "not_found"


class ConflictError(RulvarError):
    """Something is done twice that may be done once, or after it is over."""

    code = "conflict"


class ToolDeniedError(RulvarError):
    """The gate refused a tool call."""

    code = "tool_denied"
    run_status = "blocked"


class PermissionDeniedError(ToolDeniedError):
    """A grant that the call needs is not given; ``data["missing"]`` names it."""

    code = "permission_denied"
    run_status = "blocked"


class ToolFailedError(RulvarError):
    """A tool raised, refused the call or answered with an error; the text of an exception is not in it."""

    code = "tool_failed"


class CallTimeoutError(RulvarError):
    """A tool call or a transition took longer than it may."""

    code = "timeout"


class ToolCancelledError(RulvarError):
    """A tool call was cancelled before it began."""

    code = "cancelled"
    run_status = "cancelled"


class InvalidInputError(RulvarError):
    """A tool's arguments do not fit its parameters; the tool did not run."""

    code = "invalid_input"


class InvalidOutputError(RulvarError):
    """A tool's result, a machine's state or a document does not fit its schema."""

    code = "invalid_output"


class GuardBlockedError(RulvarError):
    """A guard blocked a tool call or its result."""

    code = "guard_blocked"
    run_status = "blocked"


class GuardUnavailableError(RulvarError):
    """A guard broke, so the call is blocked: guards fail closed."""

    code = "guard_unavailable"
    run_status = "blocked"


class OutcomeUnknownError(RulvarError):
    """A write may or may not have happened; it is not made again unless somebody says so."""

    code = "outcome_unknown"
    run_status = "outcome_unknown"


class TransitionError(RulvarError):
    """A transition failed: carries the text, code and run status of what failed it."""

    def __init__(self, message: str, *, code: str, run_status: str, data: dict[str, Any]) -> None:
        super().__init__(message, data=data)
        self._wire_code = code
        self.run_status = run_status

    @property
    def wire_code(self) -> str:
        """The code of what failed the transition."""
        return self._wire_code


class ReplayDriftError(RulvarError):
    """A call does not follow the tool fixture; no workflow can catch it."""

    code = "replay_drift"


class ReplayLeftoverError(RulvarError):
    """A run ended before it had used the whole tool fixture."""

    code = "replay_leftover"


class AdmissionRejectedError(RulvarError):
    """A child workflow may not be started: depth or spawn cap."""

    code = "admission_rejected"


class ChildWorkflowError(RulvarError):
    """A child workflow failed; ``data["error"]`` is its error."""

    code = "child"


class RunCancelledError(RulvarError):
    """The run was cancelled by its caller.

    Args:
        of_agent: whether it is the run of an agent, whose outcomes name their code.
    """

    code = "cancelled"

    def __init__(self, message: str, *, of_agent: bool = False) -> None:
        super().__init__(message)
        self._of_agent = of_agent

    @property
    def wire_code(self) -> str:
        """Outcomes and journals carry ``error``, but for an agent's: the status says that it was cancelled."""
        return self.code if self._of_agent else "error"


class RunFailedError(RulvarError):
    """`Outcome.unwrap` was asked for the value of a run that did not end ok; ``data`` has its status and error."""

    code = "run_failed"


class RunInterruptedError(RulvarError):
    """A run broke off so often at the same place that it is not taken up by itself any more."""

    code = "interrupted"


class RunNotFoundError(RulvarError):
    """The store holds no run of that id."""

    code = "run_not_found"


class ResolutionError(RulvarError):
    """A wait cannot be resolved that way: unknown key, already resolved, or a refused value."""

    code = "invalid_resolution"


class LeaseHeldError(RulvarError):
    """Another owner holds the run's lease; ``data`` names it. Trying again later may succeed."""

    code = "lease_held"


class SupersededError(RulvarError):
    """A write came from an owner that has lost the run's lease; nothing was stored."""

    code = "superseded"


class StoreError(RulvarError):
    """A store could not do what it was asked; nothing of the refused write counts as stored.

    ``data["reason"]`` is one of ``full`` (no space), ``io``, ``read_only``, ``busy`` (another process
    holds the file), ``unavailable`` (no connection) and ``corrupt``. ``retryable`` says whether the
    same call may succeed once the cause is gone.
    """

    code = "store"


class ControlFlow(BaseException):
    """Base of signals that unwind a workflow body and must not be caught by user code."""


class RunSuspended(ControlFlow):
    """Unwinds a body whose every branch waits for an external answer, and what is left of one that is over."""

    def __init__(
        self, message: str = "the run waits for an answer, or is over: its ctx makes no calls"
    ) -> None:
        super().__init__(message)


class TransitionAborted(ControlFlow):
    """Unwinds what is left of a transition that timed out: it has been rolled back."""


class ReplayStopped(ControlFlow):
    """Unwinds a body in strict replay; ``error`` is the :class:`JournalMissError`."""

    def __init__(self, error: RulvarError) -> None:
        super().__init__(error.message)
        self.error = error
