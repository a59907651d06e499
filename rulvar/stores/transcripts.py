"""Transcripts and checkpoints on disk: ``<run id>/<name>.bin`` under one folder."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError

__all__ = ["FileTranscriptStore"]

_PART = re.compile(r"[A-Za-z0-9._-]{1,200}")


class FileTranscriptStore:
    """Keeps each blob in a file of its own; a blob is replaced atomically.

    Args:
        directory: the folder; made when the first blob is written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    async def put(self, ref: str, data: bytes) -> None:
        """Store a blob, replacing one of the same reference."""
        path = self._path(ref)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        draft.write_bytes(data)
        draft.replace(path)

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""
        try:
            return self._path(ref).read_bytes()
        except FileNotFoundError:
            return None

    async def delete_run(self, run_id: str) -> None:
        """Remove every blob of a run."""
        shutil.rmtree(self.directory / check_run_id(run_id), ignore_errors=True)

    def _path(self, ref: str) -> Path:
        run_id, *rest = ref.split("/")
        check_run_id(run_id)
        if not rest or any(not _PART.fullmatch(part) or part in {".", ".."} for part in rest):
            raise ConfigError(f"transcript reference {ref!r} is not <run id>/<name>")
        return self.directory / run_id / Path(*rest[:-1]) / f"{rest[-1]}.bin"
