"""Imports as the bare text shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator


def import_lines(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Matches of a pattern at the beginning of lines that contain `import`, from left to right and
    without overlaps. Each match has that word in its first line.
    """
    at = data.find(b"import")
    while at >= 0:
        found = pattern.match(data, data.rfind(b"\n", 0, at) + 1)
        line_end = data.find(b"\n", at if found is None else found.end())
        if found is not None:
            yield found
        at = data.find(b"import", line_end) if line_end >= 0 else -1
