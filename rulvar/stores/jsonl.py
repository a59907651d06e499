"""One folder, one file per run: ``<run id>.jsonl`` and ``<run id>.meta.json``.

The layout is the original's, so either implementation reads what the other wrote. An entry is one
line, written with one ``write``; the meta row is replaced atomically.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.ports.store import RunMeta
from rulvar.errors import ConfigError, JournalOrderViolation
from rulvar.stores.journal_lines import JournalLines, read_journal_lines
from rulvar.stores.transcripts import FileTranscriptStore

__all__ = ["JsonlFileStore"]


class JsonlFileStore:
    """Keeps each run in two files of one folder.

    Args:
        directory: the folder; made when the first run is written.
        repair_on_load: whether loading a journal with a torn tail rewrites the file without it.
            Appending always does.
    """

    def __init__(self, directory: str | os.PathLike[str], *, repair_on_load: bool = True) -> None:
        self.directory = Path(directory)
        self.repair_on_load = repair_on_load
        self.transcripts = FileTranscriptStore(self.directory / "transcripts")
        """Where an engine over this store keeps transcripts unless told otherwise."""
        self._open: dict[str, _JournalFile] = {}

    async def load(self, run_id: str) -> list[JournalEntry]:
        """Return a run's entries; a torn last line is dropped.

        Raises:
            JournalOrderViolation: a line before the last cannot be read.
        """
        path = self._path(run_id, ".jsonl")
        data = _read(path)
        lines = read_journal_lines(data, str(path))
        if lines.torn and self.repair_on_load:
            _replace(path, lines.repaired(data))
        return lines.entries

    async def append(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries, after repairing a torn tail."""
        self.append_now(run_id, entries)

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        """Store entries before returning.

        Raises:
            JournalOrderViolation: a seq is not after the stored tail.
            OSError: the disk refused the bytes.
        """
        journal = self._open.get(run_id)
        if journal is None:
            journal = self._open[run_id] = _JournalFile(self._path(run_id, ".jsonl"))
        journal.append(entries)

    async def load_meta(self, run_id: str) -> RunMeta | None:
        """Return a run's meta row.

        Raises:
            ConfigError: the meta file is not a JSON object.
        """
        path = self._path(run_id, ".meta.json")
        data = _read(path)
        return _decode_meta(path, data) if data else None

    async def save_meta(self, run_id: str, meta: RunMeta) -> None:
        """Replace a run's meta row atomically."""
        path = self._path(run_id, ".meta.json")
        _replace(path, orjson.dumps(meta, option=orjson.OPT_INDENT_2))

    async def list_runs(self) -> list[RunMeta]:
        """Return every meta row, ordered by run id."""
        paths = sorted(self.directory.glob("*.meta.json"))
        return [_decode_meta(path, data) for path in paths if (data := _read(path))]

    async def delete(self, run_id: str) -> None:
        """Remove a run's files."""
        self.close_run(run_id)
        for suffix in (".jsonl", ".meta.json"):
            self._path(run_id, suffix).unlink(missing_ok=True)

    def close_run(self, run_id: str) -> None:
        """Close a run's file handle; the next append opens it again."""
        journal = self._open.pop(run_id, None)
        if journal is not None:
            journal.close()

    def close(self) -> None:
        """Close every file handle."""
        for run_id in list(self._open):
            self.close_run(run_id)

    def _path(self, run_id: str, suffix: str) -> Path:
        return self.directory / f"{check_run_id(run_id)}{suffix}"


class _JournalFile:
    """One open journal: knows its tail, and notices when another process has written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = -1
        self.tail = -1
        self.prefix = b""

    def append(self, entries: Sequence[JournalEntry]) -> None:
        if os.fstat(self.fd).st_size != self.size:
            self.synchronize()
        tail = self.tail
        for entry in entries:
            if 0 <= entry.seq <= tail:
                raise JournalOrderViolation(
                    f"{self.path}: entry seq {entry.seq} is not after the stored tail {tail}; "
                    "another process has written to this run",
                    data={"file": str(self.path), "seq": entry.seq, "tail": tail},
                )
            tail = max(tail, entry.seq)
        data = self.prefix + b"".join([entry.line + b"\n" for entry in entries])
        _write_all(self.fd, data)
        self.prefix = b""
        self.size += len(data)
        self.tail = tail

    def synchronize(self) -> None:
        """Read the file's tail, and repair it when it is torn."""
        data = _read(self.path)
        lines: JournalLines = read_journal_lines(data, str(self.path))
        if lines.torn:
            os.ftruncate(self.fd, lines.intact)
            _write_all(self.fd, lines.salvaged)
        self.size = os.fstat(self.fd).st_size
        self.prefix = b"" if lines.terminated else b"\n"
        self.tail = max((entry.seq for entry in lines.entries), default=-1)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(data)
    draft.replace(path)


def _decode_meta(path: Path, data: bytes) -> RunMeta:
    try:
        meta = decode_json(data)
    except ValueError as error:
        raise ConfigError(
            f"{path}: not JSON ({error}); remove it, and the next resume writes it anew"
        ) from None
    if not isinstance(meta, dict):
        raise ConfigError(f"{path}: expected an object, got {type(meta).__name__}")
    return meta
