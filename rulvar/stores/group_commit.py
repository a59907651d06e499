"""Group commit: whatever was written while a disk was busy is brought to disk together."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from rulvar.errors import StoreError
from rulvar.stores.journal_file import JournalFile
from rulvar.stores.refusals import disk_refused

__all__ = ["GroupCommit"]


class GroupCommit:
    """Waits for written journals to be on disk; those who wait at the same time share one round."""

    def __init__(self) -> None:
        # futures and tasks belong to the event loop in which they were made
        self._rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds] = WeakKeyDictionary()

    async def wait(self, file: JournalFile) -> None:
        """Return once everything that was written to a file is on disk.

        Raises:
            StoreError: the disk refused.
        """
        loop = asyncio.get_running_loop()
        rounds = self._rounds.get(loop)
        if rounds is None:
            rounds = self._rounds[loop] = _Rounds()
        await rounds.wait(file)


@dataclass(slots=True)
class _Waiting:
    """Those who wait for one file, and a descriptor of it: the file may be closed before its round begins."""

    descriptor: int
    futures: list[asyncio.Future[None]] = field(default_factory=list)


class _Rounds:
    """The rounds of one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[JournalFile, _Waiting] = {}
        self._round: asyncio.Task[None] | None = None

    async def wait(self, file: JournalFile) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.get(file)
        if waiting is None:
            waiting = self._waiting[file] = _Waiting(file.duplicate())
        waiting.futures.append(future)
        if self._round is None or self._round.done():
            self._round = loop.create_task(self._go_round())
        await future

    async def _go_round(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, {}
            try:
                errors = await asyncio.to_thread(_sync_all, batch)  # which closes the descriptors
            except asyncio.CancelledError:  # the event loop ends
                for waiting in (*batch.values(), *self._waiting.values()):
                    for future in waiting.futures:
                        future.cancel()
                self._drop(self._waiting)
                raise
            for file, waiting in batch.items():
                error = errors.get(file)
                if error is not None:
                    file.distrust()
                for future in waiting.futures:
                    if future.done():
                        continue
                    if error is None:
                        future.set_result(None)
                    else:
                        future.set_exception(error)

    @staticmethod
    def _drop(waiting: dict[JournalFile, _Waiting]) -> None:
        for left in waiting.values():
            os.close(left.descriptor)
        waiting.clear()


def _sync_all(batch: dict[JournalFile, _Waiting]) -> dict[JournalFile, StoreError]:
    """Bring files to disk; return what went wrong by file."""
    errors: dict[JournalFile, StoreError] = {}
    for file, waiting in batch.items():
        try:
            os.fdatasync(waiting.descriptor)
        except OSError as error:
            errors[file] = disk_refused(file.path, "cannot be brought to disk", error)
        finally:
            with contextlib.suppress(OSError):
                os.close(waiting.descriptor)
    return errors
