"""Collects what engines do during a test, and turns it into the test's part of the report."""

from __future__ import annotations

import linecache
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.ports.observer import CallRecord, CallSite, RunRecord, SegmentRecord
from rulvar.contracts.ports.provider import Adapter, NearestRow
from rulvar.contracts.redaction import default_redact
from rulvar.contracts.request_hash import request_hash
from rulvar.errors import RulvarError
from rulvar.testing.replayer import ReplayAdapter, Tape
from rulvar.testing.report import (
    CallReport,
    CassetteReport,
    DifferenceReport,
    DivergenceReport,
    NearestReport,
    OrphanReport,
    ReplayRecord,
    SiteReport,
    WarningReport,
    relative_path,
    site_digest,
)

__all__ = ["Collected", "RunCollector", "site_report"]

_CALL_KINDS = ("agent", "step", "child", "external")
_AGENT_SCOPE = re.compile(r"(?:^|/)agent:([0-9]+)(?=/|$)")


@dataclass(slots=True)
class Collected:
    """What one test did."""

    calls: list[CallRecord] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    warnings: list[WarningReport] = field(default_factory=list)
    tapes: dict[int, Tape] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # recordings, and where they were put


class RunCollector:
    """Watches every engine of the process, one test at a time. Safe across threads.

    Args:
        root: the directory that paths in the report are relative to.
        admit: looks at the adapters of a new engine and may refuse them.
    """

    wants_sites = True
    wants_segments = False

    def __init__(self, root: str, admit: Callable[[Mapping[str, Adapter]], None] | None = None) -> None:
        self.root = root
        self._admit = admit
        self._lock = threading.Lock()
        self._current = Collected()

    def begin(self) -> None:
        """Start a test: what comes from now on belongs to it."""
        with self._lock:
            self._current = Collected()

    def take(self) -> Collected:
        """End a test and return what it did."""
        with self._lock:
            collected, self._current = self._current, Collected()
        return collected

    @property
    def current(self) -> Collected:
        """What the running test did so far."""
        return self._current

    # -- what engines tell ---------------------------------------------------------------

    def engine_created(self, adapters: Mapping[str, Adapter]) -> None:
        """See the adapters of a new engine."""
        if self._admit is not None:
            self._admit(adapters)
        with self._lock:
            for adapter in adapters.values():
                if isinstance(adapter, ReplayAdapter):
                    self._current.tapes[id(adapter.tape)] = adapter.tape

    def call_finished(self, record: CallRecord) -> None:
        """See one call."""
        with self._lock:
            self._current.calls.append(record)

    def run_settled(self, record: RunRecord) -> None:
        """See one execution segment end."""
        with self._lock:
            self._current.runs.append(record)

    def segment_ended(self, record: SegmentRecord) -> None:
        """Segments are not asked for."""

    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
        """See nondeterminism."""
        path = relative_path(file, self.root)
        with self._lock:
            self._current.warnings.append(WarningReport(file=path, line=line, code=code, message=message))

    # -- parts of the report -------------------------------------------------------------

    def calls(self, collected: Collected) -> tuple[CallReport, ...]:
        """Return the calls of a test."""
        return tuple(
            self._call(record, collected.moved) for record in collected.calls if record.kind in _CALL_KINDS
        )

    def cassettes(self, collected: Collected) -> tuple[CassetteReport, ...]:
        """Return the cassettes that a test opened."""
        return tuple(self._cassette(tape, collected) for tape in collected.tapes.values())

    def replays(self, collected: Collected) -> tuple[ReplayRecord, ...]:
        """Return the runs of a test against a journal."""
        return tuple(self._replay(run) for run in collected.runs if run.resumed)

    def site(self, site: CallSite | None) -> SiteReport | None:
        """Return a call site with the digest of its text."""
        return site_report(site, self.root)

    def _call(self, record: CallRecord, moved: Mapping[str, str]) -> CallReport:
        served = record.served
        cassette = served.cassette
        return CallReport(
            kind=record.kind,  # type: ignore[arg-type]
            site=self.site(record.site),
            scope=record.scope,
            label=record.label,
            agent_type=record.agent_type,
            turn=record.turn,
            adapter=record.adapter,
            model=record.model,
            request_hash=served.request_hash or _hash_of(record),
            content_key=record.content_key,
            served=served.how,
            occurrence=served.occurrence,
            occurrences=served.occurrences,
            cassette=None if cassette is None else relative_path(moved.get(cassette, cassette), self.root),
            row=served.row,
            usage=None if record.usage is None else record.usage.to_wire(),
            cost_usd=record.cost_usd,
            nearest=self._nearest(served.nearest),
            message=None if served.message is None else default_redact(served.message),
        )

    def _nearest(self, nearest: NearestRow | None) -> NearestReport | None:
        if nearest is None:
            return None
        return NearestReport(
            cassette=relative_path(nearest.cassette, self.root),
            row=nearest.row,
            request_hash=nearest.request_hash,
            distance=nearest.distance,
            differences=tuple(
                DifferenceReport(path=d.path, recorded=d.recorded, actual=d.actual)
                for d in nearest.differences
            ),
        )

    def _cassette(self, tape: Tape, collected: Collected) -> CassetteReport:
        path = tape.cassette.place
        served = {
            record.served.row
            for record in collected.calls
            if record.served.how == "hit" and record.served.cassette == path and record.served.row is not None
        }
        return CassetteReport(
            path=relative_path(path, self.root),
            rows=len(tape.cassette.rows),
            served=tuple(sorted(served)),
            unused=tape.lines(served=False),
        )

    def _replay(self, run: RunRecord) -> ReplayRecord:
        return ReplayRecord(
            run_id=run.run_id,
            workflow=run.workflow,
            status=run.status,
            hits=run.hits,
            misses=run.misses,
            reruns=run.reruns,
            skipped=run.skipped,
            orphaned=_orphans(run),
            divergence=self._divergence(run),
        )

    def _divergence(self, run: RunRecord) -> DivergenceReport | None:
        found = run.divergence
        if found is None:
            return None
        return DivergenceReport(
            site=self.site(run.divergence_site),
            kind=str(found.get("kind", "")),
            scope=str(found.get("scope", "")),
            label=found.get("label"),
            reason=str(found.get("reason", "")),
            differences=tuple(
                DifferenceReport(
                    path=d["path"], recorded=_redacted(d["recorded"]), actual=_redacted(d["actual"])
                )
                for d in found.get("differences", ())
            ),
        )


def _orphans(run: RunRecord) -> tuple[OrphanReport, ...]:
    """Return what no call took; an approval in a call that was served belongs to that call."""
    left = {item.seq for item in run.orphaned}
    return tuple(
        OrphanReport(seq=item.seq, kind=item.kind, scope=item.scope, label=item.label)
        for item in run.orphaned
        if all(int(seq) in left for seq in _AGENT_SCOPE.findall(item.scope))
    )


def site_report(site: CallSite | None, root: str) -> SiteReport | None:
    """Return a call site as reports hold it: its path relative to the root, with the digest of its text."""
    if site is None:
        return None
    lines = linecache.getlines(site.file)[site.line - 1 : site.end_line]
    return SiteReport(
        file=relative_path(site.file, root),
        line=site.line,
        column=site.column,
        end_line=site.end_line,
        end_column=site.end_column,
        function=site.function,
        digest=site_digest(lines),
    )


def _redacted(text: Any) -> str | None:
    return None if text is None else default_redact(str(text))


def _hash_of(record: CallRecord) -> str | None:
    if record.request is None:
        return None
    try:
        return request_hash(record.request)
    except RulvarError:
        return None
