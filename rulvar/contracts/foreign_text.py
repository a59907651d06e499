"""Tells a person what a text is that should have been JSON, and what to do about it."""

from __future__ import annotations

import re

__all__ = ["tell_foreign_file", "tell_foreign_text"]

_CONFLICT = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
_FILES = (
    (b"\xef\xbb\xbf", "a byte order mark: save the file as UTF-8 without one"),
    (b"\xff\xfe", "UTF-16: save the file as UTF-8"),
    (b"\xfe\xff", "UTF-16: save the file as UTF-8"),
    (b"\x1f\x8b", "compressed: unpack the file"),
    (b"version https://git-lfs.", "a pointer of Git LFS: fetch the file with git lfs pull"),
)
_LINES = (
    *_FILES,
    *(
        (
            marker,
            "a merge conflict: put the rows of both sides together with rulvar cassette merge; git show :2:FILE and "
            "git show :3:FILE print them",
        )
        for marker in _CONFLICT
    ),
)
_LINE = re.compile(r"\bline 1 (column \d+)(?: \(char \d+\))?")


def tell_foreign_text(line: bytes, error: Exception, otherwise: str) -> str:
    """Return why a line of a cassette cannot be read, and what to do.

    Args:
        error: what its reader said; columns are of the line.
        otherwise: what to do about a line that is nothing known.
    """
    for telltale, remedy in _LINES:
        if line.startswith(telltale):
            return f"not JSON but {remedy}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start + 1} of the line; {otherwise}"
    said = _LINE.sub(r"\1", str(error))
    return f"not JSON: {said}; {otherwise}"


def tell_foreign_file(data: bytes, error: Exception, otherwise: str) -> str:
    """Return why a file that is one JSON value cannot be read, and what to do.

    Args:
        error: what its reader said.
        otherwise: what to do about a file that is nothing known.
    """
    for telltale, remedy in _FILES:
        if data.startswith(telltale):
            return f"not JSON but {remedy}"
    for number, line in enumerate(data.splitlines(), 1):
        if line.startswith(_CONFLICT[0]):
            return f"line {number}: not JSON but a merge conflict: keep one of its sides, or {otherwise}"
    return f"not JSON ({error}); {otherwise}"
