"""Runs that lie in files of their own: a journal, or an exported run."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from pathlib import Path

from rulvar.errors import ConfigError
from rulvar.stores.bundle import Bundle
from rulvar.stores.run_file import read_run_file

__all__ = ["check_paths", "is_file", "read_bytes", "read_source"]


def is_file(name: str) -> bool:
    """Whether a run is named by a file: run ids hold no slash, and files of runs end in .json or .jsonl."""
    return "/" in name or "\\" in name or name.endswith((".json", ".jsonl"))


def check_paths(names: Iterable[str]) -> None:
    """Refuse names of files and folders that are not there.

    Raises:
        ConfigError: names the first, and the one beside it that comes nearest.
    """
    for name in names:
        path = Path(name)
        if path.exists():
            continue
        beside = [found.name for found in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, 1)
        hint = f"; did you mean {str(path.parent / near[0])!r}?" if near else ""
        raise ConfigError(f"{name}: no such file or folder{hint}", data={"file": name})


async def read_source(path: Path) -> Bundle:
    """Read a run from a file; see :func:`~rulvar.stores.run_file.read_run_file`."""
    return read_run_file(path)


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file; ``-`` is stdin.

    Raises:
        ConfigError: there is no such file, or it cannot be read.
    """
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}", data={"file": name}) from None
