"""The seam through which a test run watches engines: which calls were made, and what served them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rulvar.contracts.messages import ChatRequest, Part
from rulvar.contracts.ports.provider import Adapter, Served
from rulvar.contracts.usage import Usage

__all__ = ["CallRecord", "CallSite", "EngineObserver", "OrphanRecord", "RunRecord"]


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
    """One settled execution segment of a run; ``divergence`` explains a strict replay's miss."""

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


class EngineObserver(Protocol):
    """Watches every engine of a process. Methods must be fast, and may be called from any thread."""

    wants_sites: bool
    """Whether call sites are looked up (one frame look-up per ctx call)."""

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """See an engine's adapters before it can run; may raise ConfigError to refuse them."""

    def call_finished(self, record: CallRecord) -> None:
        """See one call, in the order in which calls finish."""

    def run_settled(self, record: RunRecord) -> None:
        """See one execution segment end."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """See nondeterminism that a workflow body showed while it ran."""
