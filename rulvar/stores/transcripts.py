"""Transcripts and checkpoints on disk: ``<run id>/<name>.bin`` under one folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.lease import Lease
from rulvar.contracts.ports.transcripts import split_ref
from rulvar.stores.file_writes import refusing, replace_file

__all__ = ["FileTranscriptStore"]


class FileTranscriptStore:
    """Keeps each blob in a file of its own; a blob is replaced atomically.

    Args:
        directory: the folder; made when the first blob is written.
        durability: ``"process"``, or anything else to wait until a blob is on disk.
        fence: raises when a lease is not the run's; the journal store's.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durability: Literal["process", "fsync", "group"] = "process",
        fence: Callable[[Lease | None], None] | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.durability = durability
        self._fence = fence

    @property
    def immediate(self) -> bool:
        """Whether ``put`` stores without waiting."""
        return self.durability == "process"

    async def put(self, ref: str, data: bytes, *, lease: Lease | None = None) -> None:
        """Store a blob, replacing one of the same reference."""
        path = self._path(ref)
        self._check(lease)
        if self.durability == "process":
            replace_file(path, data, sync=False)
        else:
            await asyncio.to_thread(replace_file, path, data, sync=True)

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        path = self._path(ref)
        with refusing(path, "cannot be read"):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    async def refs(self, run_id: str) -> list[str]:
        """Return the references of a run's blobs, in order."""
        folder = self.directory / check_run_id(run_id)
        found = (path for path in folder.rglob("*.bin") if path.is_file() and not path.is_symlink())
        paths = [path.relative_to(self.directory) for path in found]
        return sorted(path.with_suffix("").as_posix() for path in paths)

    async def delete_run(self, run_id: str, *, lease: Lease | None = None) -> None:
        """Remove every blob of a run."""
        folder = self.directory / check_run_id(run_id)
        self._check(lease)
        with refusing(folder, "cannot be removed"):
            if folder.exists():
                shutil.rmtree(folder)

    def _check(self, lease: Lease | None) -> None:
        if self._fence is not None:
            self._fence(lease)

    def _path(self, ref: str) -> Path:
        run_id, name = split_ref(ref)
        *folders, last = name.split("/")
        return self.directory / run_id / Path(*folders) / f"{last}.bin"
