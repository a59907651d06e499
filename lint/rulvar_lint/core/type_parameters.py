"""Type parameters and `type` statements for Pythons that do not know them: they are blanked out, so
that everything else keeps its place.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from contextlib import suppress
from typing import Final

IS_NEEDED: Final = sys.version_info < (3, 12)
_HINT: Final = re.compile(
    rb"\b(?:def|class)[ \t]+[^\s(\[:]+[ \t]*\[|^[ \t]*type[ \t]+[^\s=\[]+[ \t]*[=\[]", re.MULTILINE
)
_STARTS: Final = frozenset(
    {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.NL}
)

_Span = tuple[tuple[int, int], tuple[int, int], str]  # from, to (line, column), and what stands there instead


def erase_type_parameters(data: bytes) -> bytes | None:
    """The file without them, line for line and byte for byte as long; None if it has none, or if it
    cannot be told where they are.
    """
    if _HINT.search(data) is None or data.count(b"\r") != data.count(b"\r\n"):
        return None
    tokens: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, SyntaxError, ValueError):  # what is before a mistake counts
        tokens.extend(tokenize.tokenize(io.BytesIO(data).readline))
    if not tokens or tokens[0].string != "utf-8":
        return None
    lines = [line.decode("utf-8") for line in data.split(b"\n")]
    for start, end, instead in reversed(_spans(tokens)):
        _replace(lines, start, end, instead)
    return "\n".join(lines).encode("utf-8")


def _spans(tokens: list[tokenize.TokenInfo]) -> list[_Span]:
    found: list[_Span] = []
    for at, token in enumerate(tokens[:-2]):
        if token.type != tokenize.NAME or tokens[at + 1].type != tokenize.NAME:
            continue
        opening = tokens[at + 2]
        if token.string == "type" and opening.string in ("=", "[") and tokens[at - 1].type in _STARTS:
            found.append((token.start, tokens[at + 1].end, tokens[at + 1].string))
        elif token.string not in ("def", "class"):
            continue
        if opening.string == "[":
            found.append((opening.start, _closing(tokens, at + 2), ""))
    return found


def _closing(tokens: list[tokenize.TokenInfo], at: int) -> tuple[int, int]:
    """Where the bracket that `tokens[at]` opens is closed."""
    depth = 0
    for token in tokens[at:]:
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if not depth:
                return token.end
    return tokens[at].end


def _replace(lines: list[str], start: tuple[int, int], end: tuple[int, int], instead: str) -> None:
    """Put a text into a span and fill it up with blanks; a line that ends inside is continued."""
    for number in range(start[0], end[0] + 1):
        line = lines[number - 1]
        first = start[1] if number == start[0] else 0
        last = end[1] if number == end[0] else len(line.rstrip("\r"))
        width = len(line[first:last].encode("utf-8"))
        blank = (instead if number == start[0] else "").ljust(width)
        if number != end[0] and blank.endswith(" "):
            blank = blank[:-1] + "\\"
        lines[number - 1] = line[:first] + blank + line[last:]
