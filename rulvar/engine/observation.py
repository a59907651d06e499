"""What a run tells its observers: every call, and how the segment ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Outcome
from rulvar.contracts.ports.observer import (
    CallRecord,
    CallSite,
    ClaimRecord,
    EngineObserver,
    OrphanRecord,
    RunRecord,
    SegmentRecord,
)
from rulvar.contracts.ports.provider import Served
from rulvar.kernel.keys import hash_output

if TYPE_CHECKING:
    from rulvar.engine.calls import Call
    from rulvar.engine.run import Run

__all__ = ["Observation"]


class Observation:
    """The observers of one run; falsy when there are none, so that records are not even made."""

    def __init__(self, run: Run, observers: tuple[EngineObserver, ...]) -> None:
        self._run = run
        self._observers = observers
        self._keepers = tuple(
            observer for observer in observers if getattr(observer, "wants_segments", False)
        )
        self._claims: list[ClaimRecord] = []
        self._entries: list[JournalEntry] = []
        self._tasks: dict[asyncio.Task[Any] | None, int] = {}

    @property
    def keeps_segments(self) -> bool:
        """Whether an observer wants the journal and the claims of the run."""
        return bool(self._keepers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def call(
        self, kind: str, scope: str, key: str | None, served: Served, site: CallSite | None, **facts: Any
    ) -> None:
        """Tell of one call."""
        if not self._observers:
            return
        record = CallRecord(
            run_id=self._run.run_id,
            kind=kind,
            scope=scope,
            content_key=key,
            served=served,
            site=site,
            **facts,
        )
        for observer in self._observers:
            observer.call_finished(record)

    def claimed(self, scope: str, call: Call, action: str) -> None:
        """Keep what the journal said to a call, when an observer wants it."""
        if not self._keepers:
            return
        task = self._tasks.setdefault(asyncio.current_task(), len(self._tasks))
        self._claims.append(
            ClaimRecord(
                scope=scope,
                key=call.key,
                identity=call.identity,
                action=action,
                task=task,
                label=call.label,
                site=call.site,
            )
        )

    def keep(self, entry: JournalEntry) -> None:
        """Keep an entry of the journal."""
        self._entries.append(entry)

    def settled(self, outcome: Outcome) -> None:
        """Tell that the segment ended."""
        if not self._observers:
            return
        self._tell_run(outcome)
        if not self._keepers:
            return
        run, request = self._run, self._run.request
        record = SegmentRecord(
            engine=run.engine,
            workflow=request.workflow,
            run_id=run.run_id,
            status=outcome.status,
            strict=run.strict,
            args=request.args_json,
            journal=tuple(self._entries),
            claims=tuple(self._claims),
            budget_usd=run.budget.ceiling_usd,
            output_hash=hash_output(outcome.value) if outcome.status == "ok" else None,
            error=outcome.error,
        )
        for observer in self._keepers:
            observer.segment_ended(record)

    def _tell_run(self, outcome: Outcome) -> None:
        run, preview = self._run, self._run.preview()
        record = RunRecord(
            run_id=run.run_id,
            workflow=run.request.workflow.name,
            status=outcome.status,
            resumed=run.request.resumed,
            strict=run.strict,
            hits=preview.hits,
            misses=preview.misses,
            reruns=preview.reruns,
            skipped=preview.skipped,
            orphaned=tuple(self._orphans()),
            divergence=run.divergence,
            divergence_site=run.divergence_site,
            error=outcome.error,
            raised=outcome.raised,
        )
        for observer in self._observers:
            observer.run_settled(record)

    def _orphans(self) -> Iterable[OrphanRecord]:
        counts = self._run.accounting
        served = [*counts.served_scopes, *counts.served_children]
        roots, below = set(served), tuple(f"{scope}/" for scope in served)
        for operation in self._run.index.unconsumed():
            scope = operation.first.scope
            if scope in roots or scope.startswith(below):
                continue
            wire = (operation.terminal or operation.first).to_wire()
            label = (wire.get("costAttribution") or {}).get("label")
            yield OrphanRecord(seq=operation.first.seq, kind=operation.first.kind, scope=scope, label=label)
