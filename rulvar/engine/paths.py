"""Paths of source files, as people are told them."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath

__all__ = ["absolute", "shown_path"]


def absolute(filename: str) -> str:
    """Return an absolute path, also where the working directory is gone."""
    try:
        return os.path.abspath(filename)
    except OSError:
        return filename


def shown_path(file: str) -> str:
    """Return a path for events: relative to the working directory or to ``sys.path``, never absolute."""
    path = PurePath(file)
    for folder in map(absolute, (os.curdir, *sorted(filter(None, sys.path), key=len, reverse=True))):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name
