"""Source files on disk, read as Python and the lint read them and as an editor shows them."""

from __future__ import annotations

import os
import stat

from rulvar_lsp.text import Text

MOST_REMEMBERED = 50


def read_source(path: str, most: int = -1) -> str | None:
    """Return the text of a file, None where it cannot be read; of a long one the first `most` bytes.

    Only of a regular file: reading a pipe would wait for its writer. By its byte order mark or coding line, else
    UTF-8; the mark is left out, line breaks stay as they are.
    """
    from rulvar_lint.core.source import decode

    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return decode(file.read(most))
    except (OSError, ValueError):
        return None


class SourceTexts:
    """Texts of files that are not open; of the last few the text is remembered as long as the file is what it was."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], Text | None]] = {}

    def text(self, path: str) -> Text | None:
        """The text of a file, None where it cannot be read."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            self._known.pop(path, None)
            return None
        stamp = (found.st_mtime_ns, found.st_size)
        known = self._known.pop(path, None)
        if known is None or known[0] != stamp:
            source = read_source(path)
            known = (stamp, Text(source) if source is not None else None)
        self._known[path] = known
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        return known[1]
