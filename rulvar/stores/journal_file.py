"""One open journal file: its tail, its lock, its repair.

Whoever appends holds an exclusive advisory lock (flock) on the file itself: for one append, or for as
long as it drives the run. The lock ends with the process, and nobody else can lift it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from rulvar.contracts.entries import JournalEntry
from rulvar.errors import JournalOrderViolation, StoreError
from rulvar.stores.file_writes import draft_beside, read_file, refusing, sync_folder, write_all
from rulvar.stores.journal_lines import JournalLines, read_journal_lines
from rulvar.stores.refusals import disk_refused, lease_held

try:
    import fcntl
except ImportError:  # no such lock on this platform: one process per folder is up to the user
    fcntl = None  # type: ignore[assignment]

__all__ = ["JournalFile"]


class JournalFile:
    """One journal, open for appending; notices when another process has written, removed or replaced it.

    Attributes:
        locked: whether the lock is kept between appends.
    """

    def __init__(self, path: Path, run_id: str, *, sync: bool) -> None:
        self.path = path
        self._name = os.fspath(path)
        self.run_id = run_id
        self.locked = False
        self._sync = sync
        self._fd = -1
        self._identity = (-1, -1)
        self._size = -1
        self._tail = -1
        self._prefix = b""

    def lock(self) -> None:
        """Take the lock and keep it.

        Raises:
            LeaseHeldError: another process, or another store of this one, has it.
        """
        while True:
            self._open()
            self._flock()
            if self._is_in_place():
                break
            self.close()  # it was removed or replaced before the lock was there
        self.locked = True

    def append(self, entries: Sequence[JournalEntry]) -> None:
        """Write entries.

        Raises:
            JournalOrderViolation: a seq is not after the stored tail.
            LeaseHeldError: another process has the lock.
            StoreError: the disk refused.
        """
        if self.locked:
            self._append(entries)
        else:
            self.lock()
            try:
                self._append(entries)
            finally:
                self._unlock()

    def read(self) -> JournalLines:
        """Return what the file holds; an append that follows knows its tail by this, unless somebody has written since.

        Raises:
            JournalOrderViolation: a line before the last cannot be read.
        """
        data = read_file(self.path)
        lines = read_journal_lines(data, str(self.path))
        if self.locked and not lines.torn:
            self._know(len(data), lines)
        return lines

    def remove(self) -> None:
        """Remove the file, under its lock."""
        with refusing(self.path, "cannot be removed"):
            self.path.unlink(missing_ok=True)

    def repair(self) -> None:
        """Cut a torn tail off, unless somebody else is writing or the file may not be written."""
        with contextlib.suppress(StoreError, OSError):
            self.lock()
            try:
                self._synchronize()
            finally:
                self._unlock()

    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._fd >= 0 and os.fstat(self._fd).st_size == 0

    def duplicate(self) -> int:
        """Return another descriptor of the open file, which the caller closes."""
        return os.dup(self._fd)

    def distrust(self) -> None:
        """Read the file again before the next append: what reached it is not known."""
        self._size = -1

    def close(self) -> None:
        """Close the file and let its lock go."""
        self.locked = False
        fd, self._fd = self._fd, -1
        self._size = -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    # -- the file ------------------------------------------------------------------------

    def _append(self, entries: Sequence[JournalEntry]) -> None:
        try:
            status = os.stat(self._name)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            raise StoreError(
                f"{self.path}: the file was removed, moved or replaced while its run was under way; nothing more "
                "is written. Put it back, or resume the run from what is there",
                data={"reason": "io", "file": str(self.path)},
            )
        if status.st_size != self._size:
            self._synchronize()
        tail = self._tail
        for entry in entries:
            if 0 <= entry.seq <= tail:
                raise JournalOrderViolation(
                    f"{self.path}: entry seq {entry.seq} is not after the stored tail {tail}; "
                    "another process has written to this run",
                    data={"file": str(self.path), "seq": entry.seq, "tail": tail},
                )
            if entry.seq > tail:
                tail = entry.seq
        data = b"\n".join([*[entry.line for entry in entries], b""])
        if self._prefix:
            data, self._prefix = self._prefix + data, b""
        try:
            if os.write(self._fd, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a file is only cut short by its disk
            if self._sync:
                os.fdatasync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)  # what was not acknowledged is not there
            self._size = -1
            raise disk_refused(self.path, "cannot be appended to", error) from error
        self._size += len(data)
        self._tail = tail

    def _synchronize(self) -> None:
        """Read the file's tail, and repair it when it is torn."""
        data = read_file(self.path)
        lines = read_journal_lines(data, str(self.path))
        if lines.torn:
            with refusing(self.path, "its torn tail cannot be repaired"):
                repaired = lines.repaired(data)
                if repaired == data[: lines.intact]:
                    os.ftruncate(self._fd, lines.intact)
                else:
                    self._replace(repaired)
        self._know(os.fstat(self._fd).st_size, lines)

    def _know(self, size: int, lines: JournalLines) -> None:
        self._size = size
        self._prefix = b"" if lines.terminated else b"\n"
        self._tail = _tail(lines.entries)

    def _replace(self, data: bytes) -> None:
        """Put another file in place, which is locked before anyone can see it: records in it are acknowledged."""
        draft = draft_beside(self.path)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            _lock_now(fd)
            write_all(fd, data)
            os.fsync(fd)
            draft.replace(self.path)
        except BaseException:
            os.close(fd)
            draft.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._adopt(fd)

    def _open(self) -> None:
        if self._fd >= 0 and self._is_in_place():
            return
        self.close()
        with refusing(self.path, "cannot be opened"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
            try:
                self._adopt(os.open(self.path, flags))
            except FileNotFoundError:
                self._adopt(os.open(self.path, flags | os.O_CREAT, 0o644))
                if self._sync:
                    sync_folder(self.path.parent)

    def _adopt(self, fd: int) -> None:
        status = os.fstat(fd)
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)

    def _is_in_place(self) -> bool:
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def _flock(self) -> None:
        try:
            _lock_now(self._fd)
        except BlockingIOError:
            self.close()
            raise lease_held(self.run_id, None, None) from None
        except OSError as error:
            self.close()
            raise disk_refused(self.path, "cannot be locked", error) from error

    def _unlock(self) -> None:
        self.locked = False
        if self._fd >= 0 and fcntl is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


def _tail(entries: Sequence[JournalEntry]) -> int:
    """Return the seq that the next entry comes after; what is no object, or has no seq, has no say."""
    last = entries[-1] if entries else None
    return -1 if last is None or not last.line.lstrip().startswith(b"{") else last.seq


def _lock_now(fd: int) -> None:
    """Lock an open file, or raise BlockingIOError."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
