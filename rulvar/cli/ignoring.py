"""Keeps a new folder of runs out of git: what people asked and models answered is not source code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rulvar.cli.project import DEFAULT_STORE
from rulvar.cli.stores import FolderPlace, Place

__all__ = ["ignored_by_git"]

_CONTENT = "# made by rulvar: runs are not for git\n*\n"


@contextlib.contextmanager
def ignored_by_git(place: Place | None) -> Iterator[None]:
    """Let git ignore the folder of runs that is made inside the block.

    Only ``.rulvar`` in a git repository is meant, and only when it is made now: a file that is there is
    never touched, and one that somebody has removed does not come back.
    """
    folder = place.path if isinstance(place, FolderPlace) and place.path.name == DEFAULT_STORE else None
    is_new = folder is not None and not folder.exists()
    try:
        yield
    finally:
        if is_new and folder is not None and folder.is_dir() and _is_in_git(folder):
            with contextlib.suppress(OSError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
                file.write(_CONTENT)


def _is_in_git(folder: Path) -> bool:
    return any((above / ".git").exists() for above in folder.absolute().parents)
