"""A connection that knows which files it has open, and refuses to write when they are no longer in place.

SQLite goes on writing into a file that somebody has removed, and says that all is well; what is
acknowledged then is gone with the process.
"""

from __future__ import annotations

import os
import sqlite3

from rulvar.errors import StoreError

__all__ = ["WatchedConnection"]

_SUFFIXES = ("", "-wal", "-shm")


class WatchedConnection(sqlite3.Connection):
    """A connection to a file in WAL mode; ``watch`` it once its files are open."""

    _places: tuple[tuple[str, tuple[int, int] | None], ...] = ()

    def watch(self, name: str) -> None:
        """Remember which files lie at a database's names."""
        paths = [name + suffix for suffix in _SUFFIXES]
        self._places = tuple((path, _identity(path)) for path in paths)

    def begin(self) -> None:
        """Begin a transaction that writes.

        Raises:
            StoreError: a file of the database was removed or replaced since it was opened.
        """
        for path, identity in self._places:
            if _identity(path) != identity:
                raise StoreError(
                    f"{path}: the file was removed or replaced while it was in use; nothing more is written. "
                    "Put it back, or resume the runs from what is there",
                    data={"reason": "io", "file": path},
                )
        self.execute("BEGIN IMMEDIATE")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
