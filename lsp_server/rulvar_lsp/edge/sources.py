"""Source files on disk, read as Python and the lint read them and as an editor shows them."""

from __future__ import annotations

import os
import stat


def read_source(path: str, most: int = -1) -> str | None:
    """Return the text of a file, None where it cannot be read; of a long one the first `most` bytes.

    Only of a regular file: reading a pipe would wait for its writer. By its byte order mark or coding line, else UTF-8; the mark is left out, line breaks stay as they are.
    """
    from rulvar_lint.core.source import decode

    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return decode(file.read(most))
    except (OSError, ValueError):
        return None
