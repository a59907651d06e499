"""A connection that knows which files it has open, and refuses to write when they are no longer in place.

SQLite goes on writing into a file that somebody has removed, and says that all is well; what is
acknowledged then is gone with the process.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from rulvar.errors import StoreError

__all__ = ["WatchedConnection", "still_uri"]

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


def still_uri(path: Path) -> str | None:
    """Return the URI under which a database is read where it can only lie still, or None.

    In WAL mode even a reader makes files beside the database. Where the folder may not be written to and no log
    lies there, nobody writes either, and it is read without.
    """
    if not path.is_file() or os.access(path.absolute().parent, os.W_OK):
        return None
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return None
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
