"""Checks one run of a store: its journal's bytes and order, its operations, its meta row.

A *problem* is something that should not be: damage, a broken order, a meta row that contradicts the
journal. A *note* is the trace of a crash or of a wait, which a resume takes up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rulvar.cli.catalogue import meta_of, run_ids
from rulvar.cli.journals import last_settle, open_waits
from rulvar.cli.stores import Runs
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.clock import iso_ms
from rulvar.errors import ConfigError, JournalOrderViolation, StoreError
from rulvar.kernel.keys import SUPPORTED_HASH_VERSIONS
from rulvar.kernel.matching import SEGMENT_BITS, JournalIndex, segment_of
from rulvar.stores.bundle import is_blob_name
from rulvar.stores.journal_lines import read_journal_lines
from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.refs import refs_of

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import JournalStore, RunMeta

__all__ = ["Audit", "Finding", "audit_run", "repair_run"]

_CLOSED_BY_REF = frozenset({"agent", "step", "child", "resolution", "abandon"})
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
    """What an audit of one run found, and the meta row as it should be."""

    run_id: str
    findings: tuple[Finding, ...]
    healed_meta: RunMeta | None = None

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that should not be."""
        return tuple(finding for finding in self.findings if finding.level == "problem")


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
    findings.extend(_order(entries))
    findings.extend(_versions(entries))
    findings.extend(_operations(entries))
    findings.extend(await _transcripts(runs, run_id, entries))
    healed = _healed_meta(run_id, meta, entries, findings)
    return Audit(run_id, tuple(findings), healed)


async def repair_run(runs: Runs, audit: Audit) -> None:
    """Do what the findings say can be done.

    Raises:
        LeaseHeldError: somebody drives the run.
    """
    store = runs.journal
    kinds = {finding.kind for finding in audit.findings if finding.repair is not None}
    if "torn-tail" in kinds and isinstance(store, JsonlFileStore):
        mending = type(store)(store.directory, repair_on_load=True)
        await mending.load(audit.run_id)
    if audit.healed_meta is not None:
        await store.save_meta(audit.run_id, audit.healed_meta)


async def _entries(store: JournalStore, run_id: str, findings: list[Finding]) -> list[JournalEntry]:
    """Return a run's entries; of a folder, the bytes themselves are looked at."""
    if not isinstance(store, JsonlFileStore):
        return await store.load(run_id)
    path = store.directory / f"{run_id}.jsonl"
    data = path.read_bytes() if path.exists() else b""
    lines = read_journal_lines(data, str(path))
    if lines.torn:
        kept = lines.salvaged.count(b"\n")
        salvaged = f"; {kept} whole entries in it are kept" if kept else ""
        findings.append(
            Finding(
                "problem",
                "torn-tail",
                f"the last line is torn: {len(data) - lines.intact} bytes are no entry{salvaged}",
                repair="rewrite the journal without them",
            )
        )
    return lines.entries


async def _meta(store: JournalStore, run_id: str, findings: list[Finding]) -> RunMeta | None:
    try:
        meta = await meta_of(store, run_id)
    except JournalOrderViolation:
        meta = {}  # reported with the journal
    except (ConfigError, StoreError) as error:
        if error.retryable or run_id not in await run_ids(store):
            raise
        findings.append(
            Finding("problem", "unreadable-meta", error.message, repair="write it anew from the journal")
        )
        return None
    if not meta:
        findings.append(
            Finding(
                "problem",
                "no-meta",
                "there is a journal and no meta row",
                repair="write one from the journal",
            )
        )
        return None
    return meta


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


def _versions(entries: Sequence[JournalEntry]) -> Iterator[Finding]:
    low, high = SUPPORTED_HASH_VERSIONS[0], SUPPORTED_HASH_VERSIONS[-1]
    for entry in entries:
        if not low <= entry.hash_version <= high:
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
            yield Finding(
                "note",
                "closed-twice",
                f"entry {entry.seq} closes {entry.ref}, which entry {closed[entry.ref]} has closed; the first counts",
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
    changes = dict(_disagreements(run_id, meta or {}, entries, findings))
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
    run_id: str, meta: Mapping[str, Any], entries: Sequence[JournalEntry], findings: list[Finding]
) -> Iterator[tuple[str, Any]]:
    if not meta:
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
