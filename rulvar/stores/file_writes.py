"""Writing files so that a crash leaves the old one or the new one, and saying what a disk refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from rulvar.errors import ConfigError
from rulvar.stores.refusals import disk_refused

__all__ = [
    "checked_path",
    "draft_beside",
    "drafts_in",
    "names_in",
    "read_file",
    "refusing",
    "replace_file",
    "replace_file_durably",
    "sync_folder",
    "write_all",
]

_DRAFT = re.compile(r"(.+)\.[0-9]+(?:-[0-9a-f]+)?\.tmp")


@contextlib.contextmanager
def refusing(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError into the StoreError that names the file and what to do."""
    try:
        yield
    except OSError as error:
        raise disk_refused(path, doing, error) from error


def read_file(path: Path) -> bytes:
    """Return a file's bytes; none when it does not exist."""
    with refusing(path, "cannot be read"):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return b""


def draft_beside(path: Path) -> Path:
    """Return a new name beside a file, for what is to replace it."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def drafts_in(folder: Path) -> dict[str, list[Path]]:
    """Return the drafts that lie in a folder, by the name of the file that each was to replace."""
    found: dict[str, list[Path]] = {}
    for name in names_in(folder):
        if (match := _DRAFT.fullmatch(name)) is not None:
            found.setdefault(match[1], []).append(folder / name)
    return found


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder; none when it does not exist. One that may not be read is no empty one."""
    with refusing(folder, "cannot be listed"):
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []


def checked_path(path: str | os.PathLike[str], field: str) -> Path:
    """Return a path that a file may have.

    Raises:
        ConfigError: it is none; names the field.
    """
    text = os.fspath(path)
    if isinstance(text, str) and "\0" not in text:
        return Path(text)
    raise ConfigError(f"{field}={text!r}: no path of a file", data={"field": field})


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Replace a file's content atomically.

    Args:
        sync: whether content and name are on disk when this returns.
    """
    draft = draft_beside(path)
    with refusing(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_all(fd, data)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            draft.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        if sync:
            sync_folder(path.parent)


async def replace_file_durably(path: Path, data: bytes) -> None:
    """Replace a file's content and bring it to disk, in a thread.

    A thread cannot be stopped: a caller that is cancelled waits for it, so that nothing is written behind
    its back once it goes on, lets its lock go, or writes anew.
    """
    writing = asyncio.ensure_future(asyncio.to_thread(replace_file, path, data, sync=True))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        while not writing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        if not writing.cancelled():
            writing.exception()
        raise


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write bytes, however many calls it takes."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])
