"""The refusals that every store words alike."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from rulvar.contracts.ports.lease import Lease
from rulvar.errors import JournalOrderViolation, LeaseHeldError, StoreError, SupersededError

__all__ = ["check_order", "disk_refused", "lease_held", "order_violated", "superseded"]

_MAX_SEQ = 2**63 - 1
_REASONS = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EROFS: "read_only",
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
}
_ADVICE = {
    "full": "free some space, then resume the run",
    "read_only": "make the folder writable for this user, then resume the run",
    "io": "check the disk, then resume the run",
}


def lease_held(run_id: str, owner: str | None, expires_in_s: float | None) -> LeaseHeldError:
    """Return the error that somebody else drives a run."""
    data: dict[str, object] = {"runId": run_id}
    who, when = "another process", ""
    if owner is not None:
        data["owner"], who = owner, owner
    if expires_in_s is not None:
        data["expiresInS"] = round(expires_in_s, 3)
        when = f" for another {expires_in_s:.1f} s unless it renews"
    return LeaseHeldError(f"run {run_id!r} is held by {who}{when}", data=data, retryable=True)


def superseded(lease: Lease) -> SupersededError:
    """Return the error that an owner has lost a run."""
    return SupersededError(
        f"run {lease.run_id!r} is no longer held by {lease.owner} (epoch {lease.epoch}): another owner has "
        "taken it over, or it was let go; nothing was stored",
        data={"runId": lease.run_id, "owner": lease.owner, "epoch": lease.epoch},
    )


def check_order(run_id: str, seqs: Sequence[int]) -> None:
    """Refuse entries of one append that are not in order, or whose seq no database holds.

    Raises:
        JournalOrderViolation: names the seq.
    """
    tail = -1
    for seq in seqs:
        if seq <= tail:
            raise order_violated(run_id, seq, tail)
        tail = seq
    if tail > _MAX_SEQ:
        raise JournalOrderViolation(
            f"run {run_id}: entry seq {tail} is above {_MAX_SEQ}", data={"runId": run_id, "seq": tail}
        )


def order_violated(run_id: str, seq: int, tail: int) -> JournalOrderViolation:
    """Return the error that an entry is not after a journal's tail."""
    return JournalOrderViolation(
        f"run {run_id}: entry seq {seq} is not after the stored tail {tail}; another owner has written to it",
        data={"runId": run_id, "seq": seq, "tail": tail},
    )


def disk_refused(path: str | os.PathLike[str], doing: str, error: OSError) -> StoreError:
    """Return the error that a disk refused to write or read."""
    reason = _REASONS.get(error.errno or 0, "io")
    text = os.strerror(error.errno) if error.errno else str(error)
    return StoreError(
        f"{os.fspath(path)}: {doing}: {text}; {_ADVICE[reason]}",
        data={"reason": reason, "file": os.fspath(path), "errno": error.errno},
        retryable=reason == "full",
    )
