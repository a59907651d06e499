"""The seam through which a test run watches engines: which calls were made, and what served them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.messages import ChatRequest, Part
from rulvar.contracts.outcome import Raised
from rulvar.contracts.ports.provider import Adapter, Served
from rulvar.contracts.stream import WireError
from rulvar.contracts.usage import Usage

__all__ = [
    "CallRecord",
    "CallSite",
    "ClaimRecord",
    "EngineObserver",
    "OrphanRecord",
    "QuietObserver",
    "RunRecord",
    "SegmentRecord",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Where a ctx call stands in the source: 1-based lines and columns, code points, end exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One journaled call of a workflow: a model turn, a step, a child or an external wait.

    Of a model turn also: the span of its agent call, how long it took, and what it came to.
    """

    run_id: str
    kind: str
    scope: str
    content_key: str | None
    served: Served
    site: CallSite | None = None
    label: str | None = None
    agent_type: str | None = None
    turn: int | None = None
    adapter: str | None = None
    model: str | None = None
    request: ChatRequest | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    span_id: str | None = None
    provider: str | None = None
    duration_ms: int | None = None
    answer: tuple[Part, ...] = ()
    finish_reason: str | None = None
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRecord:
    """A journaled operation that no call of a resumed run consumed."""

    seq: int
    kind: str
    scope: str
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One settled execution segment of a run; ``divergence`` explains a strict replay's miss.

    ``error`` and ``raised`` are what the run's outcome says.
    """

    run_id: str
    workflow: str
    status: str
    resumed: bool
    strict: bool
    hits: int
    misses: int
    reruns: int
    skipped: int
    orphaned: tuple[OrphanRecord, ...] = ()
    divergence: Mapping[str, Any] | None = None
    divergence_site: CallSite | None = None
    error: WireError | None = None
    raised: Raised | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """One ctx call as the journal was asked for it.

    ``action`` is what the journal said: ``replay``, ``rerun``, ``live`` or ``skip``. ``task`` numbers
    the asyncio tasks of a run in the order in which they first made a call.
    """

    scope: str
    key: str
    identity: Mapping[str, Any]
    action: str
    task: int
    label: str | None = None
    site: CallSite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """All of one settled segment that another run of it needs.

    Attributes:
        engine, workflow: the objects themselves.
        args: the JSON text of the arguments, or None.
        journal: the entries of the run, from its first segment on.
        claims: the ctx calls, in the order in which they were made.
        budget_usd: the ceiling that held.
        output_hash: of the value, when the segment ended ok with one that canonical JSON can hold.
    """

    engine: Any
    workflow: Any
    run_id: str
    status: str
    strict: bool
    args: bytes | None
    journal: tuple[JournalEntry, ...]
    claims: tuple[ClaimRecord, ...]
    budget_usd: float | None = None
    output_hash: str | None = None
    error: WireError | None = None


class EngineObserver(Protocol):
    """Watches every engine of a process. Methods must be fast, and may be called from any thread."""

    wants_sites: bool
    """Whether call sites are looked up (one frame look-up per ctx call)."""

    wants_segments: bool
    """Whether ``segment_ended`` is called; journal and claims of every run are kept for it."""

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """See an engine's adapters before it can run; may raise ConfigError to refuse them."""

    def call_finished(self, record: CallRecord) -> None:
        """See one call, in the order in which calls finish."""

    def run_settled(self, record: RunRecord) -> None:
        """See one execution segment end."""

    def segment_ended(self, record: SegmentRecord) -> None:
        """See one execution segment end, with its journal; only when ``wants_segments``."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """See nondeterminism that a workflow body showed while it ran."""


class QuietObserver:
    """An observer that refuses and notes nothing; a subclass says what it looks at."""

    wants_sites = False
    wants_segments = False

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """See an engine's adapters."""

    def call_finished(self, record: CallRecord) -> None:
        """See one call."""

    def run_settled(self, record: RunRecord) -> None:
        """See one execution segment end."""

    def segment_ended(self, record: SegmentRecord) -> None:
        """See one execution segment end, with its journal."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """See nondeterminism."""
