"""What a run tells its observers: every call, and how the segment ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rulvar.contracts.ports.observer import CallRecord, CallSite, EngineObserver, OrphanRecord, RunRecord
from rulvar.contracts.ports.provider import Served

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = ["Observation"]


class Observation:
    """The observers of one run; falsy when there are none, so that records are not even made."""

    def __init__(self, run: Run, observers: tuple[EngineObserver, ...]) -> None:
        self._run = run
        self._observers = observers

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

    def settled(self, status: str) -> None:
        """Tell that the segment ended."""
        if not self._observers:
            return
        run, preview = self._run, self._run.preview()
        record = RunRecord(
            run_id=run.run_id,
            workflow=run.request.workflow.name,
            status=status,
            resumed=run.request.resumed,
            strict=run.strict,
            hits=preview.hits,
            misses=preview.misses,
            reruns=preview.reruns,
            skipped=preview.skipped,
            orphaned=tuple(self._orphans()),
            divergence=run.divergence,
            divergence_site=run.divergence_site,
        )
        for observer in self._observers:
            observer.run_settled(record)

    def _orphans(self) -> Iterable[OrphanRecord]:
        served = self._run.accounting.served_scopes
        roots, below = set(served), tuple(f"{scope}/" for scope in served)
        for operation in self._run.index.unconsumed():
            scope = operation.first.scope
            if scope in roots or scope.startswith(below):
                continue
            wire = (operation.terminal or operation.first).to_wire()
            label = (wire.get("costAttribution") or {}).get("label")
            yield OrphanRecord(seq=operation.first.seq, kind=operation.first.kind, scope=scope, label=label)
