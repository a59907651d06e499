"""One folder, one file per run: ``<run id>.jsonl`` and ``<run id>.meta.json``.

The layout is the original's, so either implementation reads what the other wrote. An entry is one
line, written with one ``write``; the meta row is replaced atomically. One process at a time writes to
a run: the lock is on the journal file, and ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id, is_run_id
from rulvar.contracts.ports.lease import Lease, LeaseState
from rulvar.contracts.ports.store import RunMeta
from rulvar.errors import ConfigError, LeaseHeldError
from rulvar.stores.file_writes import (
    checked_path,
    drafts_in,
    names_in,
    read_file,
    refusing,
    replace_file,
    replace_file_durably,
)
from rulvar.stores.group_commit import GroupCommit
from rulvar.stores.journal_file import JournalFile
from rulvar.stores.journal_lines import read_journal_lines
from rulvar.stores.meta_row import decode_meta, encode_meta
from rulvar.stores.refusals import lease_held, superseded
from rulvar.stores.transcripts import FileTranscriptStore

__all__ = ["JsonlFileStore"]

Durability = Literal["process", "fsync", "group"]
_MODES = ("process", "fsync", "group")
_LOCK_TRIES = 4
_LOCK_PAUSE_S = 0.005


class JsonlFileStore:
    """Keeps each run in two files of one folder.

    Args:
        directory: the folder; made when the first run is written.
        repair_on_load: whether loading a journal with a torn tail rewrites the file without it,
            when nobody is writing to it. Appending always does.
        durability: when an append counts as stored. ``"process"``: once the system has it, so it
            survives a killed process, but maybe not a power cut. ``"fsync"``: once it is on disk;
            the event loop waits for that. ``"group"``: once it is on disk, in rounds that all
            appends under way share; the event loop goes on meanwhile.
    """

    leases_expire = False

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        repair_on_load: bool = True,
        durability: Durability = "process",
    ) -> None:
        if durability not in _MODES:
            raise ConfigError(
                f"durability={durability!r}: expected one of {', '.join(map(repr, _MODES))}",
                data={"field": "durability"},
            )
        self.directory = checked_path(directory, "directory")
        self.repair_on_load = repair_on_load
        self.durability = durability
        self.immediate = durability != "group"
        """Whether ``append_now`` stores before it returns."""
        self.transcripts = FileTranscriptStore(
            self.directory / "transcripts", durability=durability, fence=self.fence_now
        )
        """Where an engine over this store keeps transcripts unless told otherwise."""
        self._open: dict[str, JournalFile] = {}
        self._leases: dict[str, Lease] = {}
        self._group = GroupCommit()
        self._drafts: dict[str, list[Path]] | None = None

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries; a torn last line is dropped.

        Raises:
            JournalOrderViolation: a line before the last cannot be read.
        """
        path = self._path(run_id, ".jsonl")
        held = self._open.get(run_id)
        if held is not None and held.locked:
            return held.read().entries
        lines = read_journal_lines(read_file(path), str(path))
        if lines.torn and self.repair_on_load and run_id not in self._leases:
            file = JournalFile(path, run_id, sync=False)
            with contextlib.suppress(LeaseHeldError):  # torn because somebody is writing it
                file.repair()
            file.close()
        return lines.entries

    async def append(
        self, run_id: str, entries: Sequence[JournalEntry], *, lease: Lease | None = None
    ) -> None:
        """Store entries, after repairing a torn tail; see ``append_now``."""
        if not entries:
            return
        self.fence_now(lease)
        self.append_now(run_id, entries)
        if self.durability == "group":
            await self._group.wait(self._open[run_id])

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries before returning; with ``durability="group"`` they are only written then.

        Raises:
            JournalOrderViolation: a seq is not after the stored tail.
            LeaseHeldError: another process writes to the run.
            StoreError: the disk refused the bytes.
        """
        journal = self._open.get(run_id)
        if journal is None:
            journal = self._open[run_id] = self._file(run_id)
        journal.append(entries)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row.

        Raises:
            ConfigError: the meta file is not a JSON object.
        """
        path = self._path(run_id, ".meta.json")
        data = read_file(path)
        return decode_meta(data, str(path), run_id) if data else None

    async def save_meta(self, run_id: str, meta: RunMeta, *, lease: Lease | None = None) -> None:
        """Replace a run's meta row atomically.

        Raises:
            LeaseHeldError: another process writes to the run.
        """
        path = self._path(run_id, ".meta.json")
        self.fence_now(lease)
        if lease is None:
            with self._lock_of(run_id):
                pass  # nobody else is writing
        data = encode_meta(meta, indent=True)
        if self.durability == "process":
            replace_file(path, data, sync=False)
        else:
            await replace_file_durably(path, data)

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id; a file whose name is no run id's is passed over."""
        suffix = ".meta.json"
        names = (name.removesuffix(suffix) for name in names_in(self.directory) if name.endswith(suffix))
        paths = {run_id: self._path(run_id, suffix) for run_id in sorted(filter(is_run_id, names))}
        return [
            decode_meta(data, str(path), run_id)
            for run_id, path in paths.items()
            if (data := read_file(path))
        ]

    async def run_ids(self) -> list[str]:
        """Return the id of every run of which there is a file, in order; what is no run id is passed over."""
        names = {
            name.removesuffix(suffix)
            for name in names_in(self.directory)
            for suffix in (".meta.json", ".jsonl")
            if name.endswith(suffix)
        }
        return sorted(filter(is_run_id, names))

    async def delete(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Remove a run's files, its transcripts included; the meta row goes last.

        Raises:
            LeaseHeldError: another process writes to the run.
        """
        self.fence_now(lease)
        with self._lock_of(run_id) as journal:
            await self.transcripts.delete_run(run_id)
            journal.remove()
            meta = self._path(run_id, ".meta.json")
            with refusing(meta, "cannot be removed"):
                self._remove_drafts(journal.path.name, meta.name)
                meta.unlink(missing_ok=True)
            if lease is not None:
                journal.close()
                journal.lock()  # the holder goes on holding the name

    def _remove_drafts(self, *names: str) -> None:
        """Remove what processes that were killed while they wrote have left; the folder is looked through once."""
        if self._drafts is None:
            self._drafts = drafts_in(self.directory)
        for name in names:
            for draft in self._drafts.pop(name, ()):
                draft.unlink(missing_ok=True)

    # -- leases --------------------------------------------------------------------------

    async def acquire_lease(self, run_id: str, owner: str, ttl_s: float) -> Lease:
        """Lock a run for this process; the lock has no time, and ends when the process does.

        Raises:
            LeaseHeldError: another process has it, or another user of this store.
        """
        check_run_id(run_id)
        if (held := self._leases.get(run_id)) is not None:
            raise lease_held(run_id, held.owner, None)
        file = self._open.pop(run_id, None) or self._file(run_id)
        # held while others wait below: two acquirers of this store must not share the file
        lease = Lease(run_id=run_id, owner=owner, epoch=time.time_ns(), ttl_s=ttl_s)
        self._leases[run_id] = lease
        try:
            await _lock(file)
        except BaseException:
            del self._leases[run_id]
            file.close()
            raise
        # counted from when the lock was there: whoever had it meanwhile came before
        lease = self._leases[run_id] = replace(lease, epoch=time.time_ns())
        self._open[run_id] = file
        return lease

    async def renew_lease(self, lease: Lease) -> None:
        """Do nothing but check: a lock needs no renewal."""
        self.fence_now(lease)

    async def release_lease(self, lease: Lease) -> None:
        """Unlock a run and close its file; a journal that stayed empty is removed."""
        if self._leases.get(lease.run_id) is not lease:
            return
        file = self._open[lease.run_id]
        if file.is_empty():
            file.remove()
        del self._leases[lease.run_id]
        self.close_run(lease.run_id)

    async def lease_of(self, run_id: str) -> LeaseState | None:
        """Return who holds a run; another process is only known to be another process."""
        path = self._path(run_id, ".jsonl")
        if (lease := self._leases.get(run_id)) is not None:
            return LeaseState(owner=lease.owner, epoch=lease.epoch, expires_in_s=math.inf)
        if not path.exists():
            return None
        file = JournalFile(path, run_id, sync=False)
        try:
            file.lock()
        except LeaseHeldError:
            return LeaseState(owner="another process", epoch=0, expires_in_s=math.inf)
        finally:
            file.close()
        return None

    def fence_now(self, lease: Lease | None) -> None:
        """Raise SupersededError when a lease has been released."""
        if lease is not None and self._leases.get(lease.run_id) is not lease:
            raise superseded(lease)

    # -- files ---------------------------------------------------------------------------

    def close_run(self, run_id: str) -> None:
        """Close a run's file handle, unless somebody holds the run; the next append opens it again."""
        if run_id not in self._leases:
            journal = self._open.pop(run_id, None)
            if journal is not None:
                journal.close()

    def close(self) -> None:
        """Close every file handle but those of runs that somebody holds."""
        for run_id in list(self._open):
            self.close_run(run_id)

    @contextlib.contextmanager
    def _lock_of(self, run_id: str) -> Iterator[JournalFile]:
        """Hold a run's lock for a while, or use the one that is held."""
        if run_id in self._leases:
            yield self._open[run_id]
            return
        self.close_run(run_id)
        file = self._file(run_id)
        try:
            if file.path.exists():
                file.lock()
            yield file
        finally:
            file.close()

    def _file(self, run_id: str) -> JournalFile:
        return JournalFile(self._path(run_id, ".jsonl"), run_id, sync=self.durability == "fsync")

    def _path(self, run_id: str, suffix: str) -> Path:
        return self.directory / f"{check_run_id(run_id)}{suffix}"


async def _lock(file: JournalFile) -> None:
    """Lock a file; somebody may be looking whether it is locked, which takes no time."""
    for left in reversed(range(_LOCK_TRIES)):
        try:
            file.lock()
            return
        except LeaseHeldError:
            if left == 0:
                raise
            await asyncio.sleep(_LOCK_PAUSE_S)
