"""Tells a person what a line is that is not a line of a cassette, and what to do about it."""

from __future__ import annotations

import re

__all__ = ["tell_foreign_text"]

_TELLTALES = (
    (b"\xef\xbb\xbf", "a byte order mark: save the file as UTF-8 without one"),
    (b"\xff\xfe", "UTF-16: save the file as UTF-8"),
    (b"\xfe\xff", "UTF-16: save the file as UTF-8"),
    (b"\x1f\x8b", "compressed: unpack the file"),
    (b"version https://git-lfs.", "a pointer of Git LFS: fetch the file with git lfs pull"),
    *(
        (marker, "a merge conflict: put the rows of both sides together with rulvar cassette merge")
        for marker in (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
    ),
)
_LINE = re.compile(r"\bline 1 (column \d+)(?: \(char \d+\))?")


def tell_foreign_text(line: bytes, error: Exception, otherwise: str) -> str:
    """Return why a line cannot be read, and what to do.

    Args:
        error: what its reader said; columns are of the line.
        otherwise: what to do about a line that is nothing known.
    """
    for telltale, remedy in _TELLTALES:
        if line.startswith(telltale):
            return f"not JSON but {remedy}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start + 1} of the line; {otherwise}"
    said = _LINE.sub(r"\1", str(error))
    return f"not JSON: {said}; {otherwise}"
