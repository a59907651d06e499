"""Group commit: whatever was written while a disk was busy is brought to disk together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from rulvar.errors import StoreError
from rulvar.stores.journal_file import JournalFile
from rulvar.stores.refusals import disk_refused

__all__ = ["GroupCommit"]


class GroupCommit:
    """Waits for written journals to be on disk; those who wait at the same time share one round."""

    def __init__(self) -> None:
        self._waiting: dict[JournalFile, list[asyncio.Future[None]]] = {}
        self._round: asyncio.Task[None] | None = None

    async def wait(self, file: JournalFile) -> None:
        """Return once everything that was written to a file is on disk.

        Raises:
            StoreError: the disk refused.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(file, []).append(future)
        if self._round is None or self._round.done():
            self._round = loop.create_task(self._rounds())
        await future

    async def _rounds(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            files = list(waiting)
            errors = await self._sync(files)
            for file, error in zip(files, errors, strict=True):
                if error is not None:
                    file.distrust()
                for future in waiting[file]:
                    if future.done():
                        continue
                    if error is None:
                        future.set_result(None)
                    else:
                        future.set_exception(error)

    @staticmethod
    async def _sync(files: Sequence[JournalFile]) -> list[StoreError | None]:
        # duplicates: a file that is closed meanwhile must not lend its number to another one
        descriptors = [file.duplicate() for file in files]
        try:
            return await asyncio.to_thread(_sync_all, descriptors, files)
        finally:
            for fd in descriptors:
                os.close(fd)


def _sync_all(descriptors: Sequence[int], files: Sequence[JournalFile]) -> list[StoreError | None]:
    errors: list[StoreError | None] = []
    for fd, file in zip(descriptors, files, strict=True):
        try:
            os.fdatasync(fd)
            errors.append(None)
        except OSError as error:
            errors.append(disk_refused(file.path, "cannot be brought to disk", error))
    return errors
