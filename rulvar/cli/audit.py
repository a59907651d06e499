"""Checks one run of a store: its journal's bytes and order, its operations, its meta row.

A *problem* is something that should not be: damage, a broken order, a meta row that contradicts the
journal. A *note* is the trace of a crash or of a wait, which a resume takes up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rulvar.cli.catalogue import not_found, run_ids
from rulvar.cli.damage import read_raw
from rulvar.cli.journals import last_settle, open_waits
from rulvar.cli.stores import Runs
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.clock import iso_ms
from rulvar.engine.compatibility import entry_fault
from rulvar.errors import ConfigError, JournalOrderViolation, RunNotFoundError, StoreError
from rulvar.kernel.keys import SUPPORTED_HASH_VERSIONS
from rulvar.kernel.matching import SEGMENT_BITS, JournalIndex, segment_of
from rulvar.stores.bundle import is_blob_name
from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.refs import refs_of

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import JournalStore, RunMeta

__all__ = ["Audit", "Finding", "audit_run", "repair_run"]

_CLOSED_BY_REF = frozenset({"agent", "step", "child", "resolution", "abandon"})
_TTL_S = 30.0
_DAMAGE = (JournalOrderViolation, ConfigError, StoreError)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found.

    Attributes:
        kind: a stable word for it, such as ``torn-tail``.
        repair: what ``--repair`` does about it, or None.
    """

    level: Literal["problem", "note"]
    kind: str
    message: str
    seq: int | None = None
    repair: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "level": self.level,
            "kind": self.kind,
            "message": self.message,
            "seq": self.seq,
            "repair": self.repair,
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit of one run found, the meta row as it should be, and what has been repaired since."""

    run_id: str
    findings: tuple[Finding, ...]
    healed_meta: RunMeta | None = None
    repaired: frozenset[Finding] = frozenset()

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that should not be, and have not been repaired."""
        return tuple(
            finding
            for finding in self.findings
            if finding.level == "problem" and finding not in self.repaired
        )


async def audit_run(runs: Runs, run_id: str) -> Audit:
    """Check one run; nothing is written.

    Raises:
        RunNotFoundError, ConfigError: there is no such run.
        OSError: a file cannot be read.
    """
    findings: list[Finding] = []
    meta = await _meta(runs.journal, run_id, findings)
    try:
        entries = await _entries(runs.journal, run_id, findings)
    except _DAMAGE as error:
        if error.retryable:
            raise
        findings.append(Finding("problem", "unreadable-line", error.message))
        return Audit(run_id, tuple(findings))
    if meta is None and not any(finding.kind == "unreadable-meta" for finding in findings):
        findings.append(_missing_meta(entries))
    elif meta is None and not entries:  # there is nothing that a row could be made of
        findings = [replace(finding, repair=None) for finding in findings]
    findings.extend(_order(entries))
    findings.extend(_malformed(entries))
    findings.extend(_versions(entries))
    findings.extend(_operations(entries))
    findings.extend(await _transcripts(runs, run_id, entries))
    healed = _healed_meta(run_id, meta, entries, findings)
    return Audit(run_id, tuple(findings), healed)


async def repair_run(runs: Runs, audit: Audit) -> Audit:
    """Do what the findings say can be done, and look whether it helped.

    Raises:
        LeaseHeldError: somebody drives the run.
        RulvarError, OSError: the store refuses what is written.
    """
    await _repair(runs, audit)
    try:
        left = {(finding.kind, finding.seq) for finding in (await audit_run(runs, audit.run_id)).findings}
    except RunNotFoundError:
        left = set()
    repaired = frozenset(
        finding
        for finding in audit.findings
        if finding.repair is not None and (finding.kind, finding.seq) not in left
    )
    return replace(audit, repaired=repaired)


async def _repair(runs: Runs, audit: Audit) -> None:
    store = runs.journal
    kinds = {finding.kind for finding in audit.findings if finding.repair is not None}
    if "torn-tail" in kinds and isinstance(store, JsonlFileStore):
        mending = type(store)(store.directory, repair_on_load=True)
        await mending.load(audit.run_id)
    if isinstance(store, JsonlFileStore) and not await store.load(audit.run_id):
        # whoever holds a run and lets it go leaves no empty journal
        await store.release_lease(await store.acquire_lease(audit.run_id, "rulvar runs audit", _TTL_S))
    if audit.healed_meta is not None:
        await store.save_meta(audit.run_id, audit.healed_meta)


async def _entries(store: JournalStore, run_id: str, findings: list[Finding]) -> Sequence[JournalEntry]:
    """Return a run's entries, as they are read from bytes that nobody has mended."""
    journal = await read_raw(store, run_id)
    if journal.torn is not None:
        findings.append(
            Finding("problem", "torn-tail", journal.torn, repair="rewrite the journal without them")
        )
    return journal.entries


async def _meta(store: JournalStore, run_id: str, findings: list[Finding]) -> RunMeta | None:
    try:
        meta = await store.load_meta(check_run_id(run_id))
        if meta is None and run_id not in await run_ids(store):
            raise await not_found(store, run_id)
    except (ConfigError, StoreError) as error:
        if error.retryable or run_id not in await run_ids(store):
            raise
        findings.append(
            Finding("problem", "unreadable-meta", error.message, repair="write it anew from the journal")
        )
        return None
    return meta


def _missing_meta(entries: Sequence[JournalEntry]) -> Finding:
    """Return what it means that a run has no meta row; it is written before the first entry."""
    if entries:
        return Finding(
            "problem", "no-meta", "there is a journal and no meta row", repair="write one from the journal"
        )
    return Finding(
        "note",
        "not-begun",
        "there is neither a meta row nor an entry: its process ended before the run began",
        repair="remove the empty journal",
    )


def _order(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    tail, known = -1, set()
    for entry in entries:
        if entry.seq < 0:
            yield Finding("problem", "no-seq", "an entry has no seq", entry.seq)
        elif entry.seq <= tail:
            yield Finding("problem", "order", f"entry {entry.seq} stands after entry {tail}", entry.seq)
        if entry.ref is not None:
            if entry.ref >= entry.seq:
                yield Finding(
                    "problem",
                    "ref",
                    f"entry {entry.seq} refers to {entry.ref}, which is not before it",
                    entry.seq,
                )
            elif entry.kind in _CLOSED_BY_REF and entry.ref not in known:
                yield Finding(
                    "problem",
                    "ref",
                    f"entry {entry.seq} refers to {entry.ref}, which is not there",
                    entry.seq,
                )
        tail = max(tail, entry.seq)
        known.add(entry.seq)


def _malformed(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    for place, entry in enumerate(entries, 1):
        fault = entry_fault(entry)
        if fault is not None and entry.seq >= 0 and (entry.ref is None or entry.ref < entry.seq):
            field, wrong = fault
            message = f"entry {place} of the journal (seq {entry.seq}): {field} {wrong}"
            yield Finding("problem", "malformed", message, entry.seq)


def _versions(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    low, high = SUPPORTED_HASH_VERSIONS[0], SUPPORTED_HASH_VERSIONS[-1]
    for entry in entries:
        if entry.hash_version not in SUPPORTED_HASH_VERSIONS:
            yield Finding(
                "problem",
                "version",
                f"entry {entry.seq} has hashVersion {entry.hash_version}; this rulvar reads {low} to {high}",
                entry.seq,
            )
            return


def _operations(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    closed: dict[int, int] = {}
    for entry in entries:
        if entry.ref is None or entry.kind not in ("agent", "step", "child", "resolution"):
            continue
        if entry.ref in closed:
            counts = "first" if entry.kind == "resolution" else "last"
            yield Finding(
                "note",
                "closed-twice",
                f"entry {entry.seq} closes {entry.ref}, which entry {closed[entry.ref]} has closed; the {counts} counts",
                entry.seq,
            )
        closed.setdefault(entry.ref, entry.seq)
    index = JournalIndex(entries)
    for operation in index.operations.values():
        first = operation.first
        if operation.is_open and first.kind in ("agent", "step", "child") and not index.is_skipped(operation):
            where = f" in {first.scope}" if first.scope else ""
            yield Finding(
                "note", "dangling", f"{first.kind} {first.seq}{where} began and did not end", first.seq
            )
    for wait in open_waits(entries):
        yield Finding("note", "open-wait", f"waits for {wait.key!r}", wait.entry_ref)


async def _transcripts(runs: Runs, run_id: str, entries: Sequence[JournalEntry]) -> list[Finding]:
    """Find the transcripts that are named and are not there."""
    findings = []
    there = set(await refs_of(runs.transcripts, run_id, []))
    for entry in entries:
        if b'"transcriptRef"' not in entry.line:
            continue
        ref = entry.to_wire().get("transcriptRef")
        if not isinstance(ref, str) or not is_blob_name(ref):
            message = f"entry {entry.seq}: {ref!r} is no name of a transcript"
            findings.append(Finding("problem", "transcript-name", message, entry.seq))
        elif ref not in there and await runs.transcripts.get(ref) is None:
            message = f"transcript {ref} is not in the store"
            findings.append(Finding("note", "no-transcript", message, entry.seq))
    return findings


def _healed_meta(
    run_id: str, meta: RunMeta | None, entries: Sequence[JournalEntry], findings: list[Finding]
) -> RunMeta | None:
    """Note where meta row and journal disagree, and return the row as it should be."""
    changes = dict(_disagreements(run_id, meta, entries, findings))
    if meta is None and not entries:
        return None
    if meta is not None and not changes:
        return None
    if meta is None:
        settle = last_settle(entries)
        changes.setdefault("status", "running" if settle is None else settle.status)
        changes.setdefault("segments", _segments(entries))
        changes["updatedAt"] = iso_ms(_last_time(entries))
    return {"runId": run_id, **(meta or {}), **changes}


def _disagreements(
    run_id: str, meta: RunMeta | None, entries: Sequence[JournalEntry], findings: list[Finding]
) -> Iterator[tuple[str, Any]]:
    if meta is None:
        return
    if meta.get("runId") != run_id:
        findings.append(
            Finding(
                "problem", "meta-run-id", f"the meta row is of run {meta.get('runId')!r}", repair="set it"
            )
        )
        yield "runId", run_id
    settle = last_settle(entries)
    status = meta.get("status")
    if settle is not None and settle.is_last and status != settle.status:
        findings.append(
            Finding(
                "problem",
                "meta-status",
                f"the meta row says {status!r}, the journal settled {settle.status!r}",
                settle.seq,
                repair=f"set the status to {settle.status!r}",
            )
        )
        yield "status", settle.status
    elif settle is None and status not in ("running", "error", None) and entries:
        findings.append(
            Finding(
                "problem",
                "meta-status",
                f"the meta row says {status!r}, the journal never settled",
                repair="set the status to 'running'",
            )
        )
        yield "status", "running"
    elif status == "running":
        findings.append(
            Finding("note", "unsettled", "the run is under way, or its process ended without a word")
        )
    segments = _segments(entries)
    recorded = meta.get("segments")
    if isinstance(recorded, int) and recorded < segments:
        findings.append(
            Finding(
                "problem",
                "meta-segments",
                f"the meta row counts {recorded} segments, the journal {segments}",
                repair=f"set it to {segments}",
            )
        )
        yield "segments", segments


def _segments(entries: Sequence[JournalEntry]) -> int:
    """Return how many execution segments a journal shows."""
    settle = last_settle(entries)
    counted = 0 if settle is None or settle.segment is None else settle.segment
    highest = max((segment_of(entry) for entry in entries), default=-1) + 1
    return max(counted, highest if highest < 1 << SEGMENT_BITS else 0)


def _last_time(entries: Sequence[JournalEntry]) -> int:
    from rulvar.contracts.ports.clock import epoch_ms

    for entry in reversed(entries):
        wire = entry.to_wire() if entry.line.startswith(b"{") else {}
        stamp = wire.get("endedAt") or wire.get("startedAt")
        try:
            return epoch_ms(str(stamp))
        except ValueError:
            continue
    return 0
