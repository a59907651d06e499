"""The scan of a stored journal, before any live call or append: is it one that this version can go on with?

A call whose entry cannot be read would be found missing, and paid again in silence. So what is no
entry, or misses what matching and folding stand on, is refused by name instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from rulvar.contracts.entries import JournalEntry
from rulvar.errors import JournalCompatibilityError, JournalOrderViolation
from rulvar.kernel.keys import SUPPORTED_HASH_VERSIONS

__all__ = ["check_journal", "entry_fault"]

_TWO_PHASE = frozenset({"agent", "step", "child"})
_KEYED = _TWO_PHASE | {"rand", "external", "approval"}
_CLOSING = frozenset({"ok", "error", "limit", "cancelled", "escalated"})
_POINTING = frozenset({"resolution", "abandon"})
_LOW, _HIGH = SUPPORTED_HASH_VERSIONS[0], SUPPORTED_HASH_VERSIONS[-1]


def check_journal(
    run_id: str, entries: Sequence[JournalEntry], naming: Callable[[int], str] | None = None
) -> None:
    """Refuse a journal that no run can go on from.

    Kinds and fields that are not known pass; so does an entry without a version, which is of version 1.

    Args:
        naming: how messages name the n-th entry (from 1 up), where the journal lies in a file.

    Raises:
        JournalCompatibilityError: an entry of another version, or one that lacks what makes it an
            entry; names the run, the entry and the field.
        JournalOrderViolation: an entry whose seq does not come after the one before, or an answer or an abandon
            that points at no entry before it.
    """
    named = naming or (lambda place: f"run {run_id!r}: entry {place} of the journal")
    before = -1
    seqs: frozenset[int] | None = None
    for place, entry in enumerate(entries, 1):
        if entry.hash_version not in SUPPORTED_HASH_VERSIONS:
            _refuse_version(run_id, named(place), entry)
        if entry.kind in _POINTING:
            seqs = frozenset(item.seq for item in entries) if seqs is None else seqs
            if entry.ref is None or entry.ref >= entry.seq or entry.ref not in seqs:
                _refuse_pointer(run_id, named(place), entry)
        fault = entry_fault(entry)
        if fault is not None:
            _refuse_entry(run_id, named(place), entry, *fault)
        if entry.seq <= before:
            raise JournalOrderViolation(
                f"{named(place)} has seq {entry.seq}, which does not come after "
                f"{before}, the seq of the entry before it; restore the journal from a copy",
                data={"runId": run_id, "entrySeq": entry.seq, "field": "seq"},
            )
        before = entry.seq


def entry_fault(entry: JournalEntry) -> tuple[str, str] | None:
    """Return the field that makes an entry unusable, and what is wrong with it; None of a sound one."""
    kind = entry.kind
    if not kind:
        return "kind", "is missing, or no text"
    if entry.seq < 0:
        return "seq", "is missing, or no integer from 0 up"
    if entry.ref is not None and entry.ref >= entry.seq:
        return "ref", f"is {entry.ref}; it names an entry before this one"
    if kind not in _KEYED:
        return None
    if not entry.key:
        return "key", "is missing, or no text"
    if not entry.status:
        return "status", "is missing, or no text"
    if kind in _TWO_PHASE and entry.ref is None and entry.status in _CLOSING:
        return "ref", "is missing, or no integer; it names the running entry that this one closes"
    return None


def _refuse_entry(run_id: str, name: str, entry: JournalEntry, field: str, wrong: str) -> NoReturn:
    what = f"{entry.kind} entry" if entry.kind else "entry"
    raise JournalCompatibilityError(
        f"{name} (seq {entry.seq}) is no {what} that can be resumed: {field} "
        f"{wrong}; restore the journal from a copy, or cut it before this entry",
        data={"subCode": "MALFORMED_ENTRY", "runId": run_id, "entrySeq": entry.seq, "field": field},
    )


def _refuse_pointer(run_id: str, name: str, entry: JournalEntry) -> NoReturn:
    points = "it has no ref" if entry.ref is None else f"its ref is {entry.ref}"
    raise JournalOrderViolation(
        f"{name} (seq {entry.seq}) is of kind {entry.kind!r} and points at no "
        f"entry before it: {points}; restore the journal from a copy, or cut it before this entry",
        data={"runId": run_id, "entrySeq": entry.seq, "field": "ref"},
    )


def _refuse_version(run_id: str, name: str, entry: JournalEntry) -> NoReturn:
    version = entry.hash_version
    too_new = version > _HIGH
    hint = "upgrade rulvar" if too_new else "replay it with the rulvar that wrote it"
    raise JournalCompatibilityError(
        f"{name} (seq {entry.seq}) has hashVersion {version}; this rulvar reads {_LOW} to {_HIGH}: {hint}",
        data={
            "subCode": "HASH_VERSION_TOO_NEW" if too_new else "HASH_VERSION_TOO_OLD",
            "runId": run_id,
            "entrySeq": entry.seq,
            "entryHashVersion": version,
            "supportedRange": {"min": _LOW, "max": _HIGH},
            "hint": hint,
        },
    )
