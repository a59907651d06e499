"""How a run ended: the outcome, its cost, what was dropped, what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, cast

from rulvar.contracts.stream import WireError
from rulvar.contracts.type_variables import Value
from rulvar.contracts.usage import ZERO_USAGE, Usage
from rulvar.errors import RunFailedError

__all__ = ["CostReport", "Dropped", "Outcome", "Pending", "Preview", "Raised", "RunStatus", "Settled"]

RunStatus = Literal[
    "running", "ok", "error", "cancelled", "exhausted", "suspended", "blocked", "outcome_unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What a run cost, in USD; nothing here is an estimate of what is still to come.

    Attributes:
        total_usd: spend of the run's calls that have ended; an agent that waits for a human is told with its end,
            as its tokens are. What it has spent by then is in ``ctx.budget.spent()`` and ``budget:update`` events.
        gross_usd: spend with abandoned work included.
        abandoned_usd: spend of abandoned work.
        by_model, by_phase, by_agent_type, by_role, by_scope: the same spend by dimension.
        wire_requests: requests that went to a provider.
        usage_approx: whether a stream ended without exact token counts.
        unpriced: models that have no price; their spend is not in the totals.
    """

    total_usd: float = 0.0
    gross_usd: float = 0.0
    by_model: Mapping[str, float] = field(default_factory=dict)
    by_phase: Mapping[str, float] = field(default_factory=dict)
    by_agent_type: Mapping[str, float] = field(default_factory=dict)
    by_role: Mapping[str, float] = field(default_factory=dict)
    by_scope: Mapping[str, float] = field(default_factory=dict)
    wire_requests: int = 0
    usage_approx: bool = False
    unpriced: tuple[str, ...] = ()
    abandoned_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A result that the workflow went on without, and why."""

    source: str
    scope: str
    error: WireError
    entry_ref: int | None = None
    label: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        wire: dict[str, Any] = {"source": self.source, "scope": self.scope, "error": self.error.to_wire()}
        if self.entry_ref is not None:
            wire["entryRef"] = self.entry_ref
        if self.label is not None:
            wire["label"] = self.label
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A wait that is open: what a human is asked, and the key that answers it.

    ``transition`` names the wait transition that the answer fires, in a state machine; ``asserts_formats`` says
    whether the answer's texts have to be of the formats in ``schema``, as they do where the schema was written by
    hand and not made of a type.
    """

    key: str
    scope: str
    entry_ref: int
    prompt: str | None = None
    schema: Any = None
    transition: str | None = None
    asserts_formats: bool = True

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        wire: dict[str, Any] = {"key": self.key, "scope": self.scope, "entryRef": self.entry_ref}
        if self.prompt is not None:
            wire["prompt"] = self.prompt
        if self.schema is not None:
            wire["schema"] = self.schema
        if self.transition is not None:
            wire["transition"] = self.transition
        return wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The exception that ended a run: its type's name, and the innermost line of the user's code.

    ``file``, ``line`` and ``function`` are None where the exception never passed the user's code.
    """

    type: str
    file: str | None = None
    line: int | None = None
    function: str | None = None

    def __str__(self) -> str:
        return (
            self.type if self.file is None else f"{self.type} at {self.file}:{self.line} in {self.function}"
        )

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"type": self.type, "file": self.file, "line": self.line, "function": self.function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Value]):
    """How an execution segment of a run ended. It is awaited, never raised.

    Attributes:
        status: ok, error, cancelled, exhausted, suspended, blocked or outcome_unknown.
        value: what the workflow returned, as JSON; None unless status is ok, or exhausted: a workflow may return
            something though its money was used up. Its type is the workflow's, for what JSON has: of a model
            it is the JSON object.
        error: what ended the run, when it did not end ok. A run that was exhausted and returned has none, nor has
            one that ended with an exception that has nothing to do with money: that is in ``raised``.
        raised: the exception behind the error, and the line of the workflow's code that raised it; known to
            the segment that saw it, and not journaled.
        cost: spend of the whole run, earlier segments included.
        usage: tokens of the whole run.
        dropped: results that the workflow went on without.
        pending: waits that are open.
    """

    status: RunStatus
    value: Value | None = None
    error: WireError | None = None
    raised: Raised | None = field(default=None, compare=False)
    cost: CostReport = field(default_factory=CostReport)
    usage: Usage = ZERO_USAGE
    dropped: tuple[Dropped, ...] = ()
    pending: tuple[Pending, ...] = ()

    def unwrap(self) -> Value:
        """Return the value of a run that ended ok; see ``value`` for its type.

        Raises:
            RunFailedError: The run ended otherwise; the message says how, and why.
        """
        if self.status == "ok":
            return cast(Value, self.value)
        told = [f"the run ended {self.status}"]
        if self.error is not None:
            told.append(f"{self.error.code}: {self.error.message}")
        if self.raised is not None:
            told.append(f"raised by {self.raised}")
        if self.pending:
            told.append("waits for " + ", ".join(item.key for item in self.pending))
        error = {} if self.error is None else {"error": self.error.to_wire()}
        raise RunFailedError("; ".join(told), data={"status": self.status, **error})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a resume served from the journal and what it did not.

    Attributes:
        hits: calls served from the journal.
        misses: calls that were not in it.
        reruns: calls that were in it without an outcome to keep.
        skipped: calls covered by an abandoned operation.
        orphaned: seqs of dangling operations and open waits that no call took.
        invalid_resolutions: seqs of resolutions that their wait's schema refuses.
    """

    hits: int = 0
    misses: int = 0
    reruns: int = 0
    skipped: int = 0
    orphaned: tuple[int, ...] = ()
    invalid_resolutions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One branch of ``ctx.parallel(..., settle=True)``: how it ended, and with what."""

    status: Literal["ok", "error", "limit", "cancelled"]
    value: Any = None
    error: WireError | None = None
    result: Any = None
