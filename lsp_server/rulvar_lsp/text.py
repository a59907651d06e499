"""Source text as an editor sees it: lines, positions in three encodings, edits.

A line ends at LF, CRLF or CR and nowhere else (`str.splitlines` also breaks at form feeds and six
other characters, after which every later position is off). Offsets and columns inside the server
count Unicode code points from 0; only this module knows that a client may count UTF-8 bytes or
UTF-16 units instead. Every position is accepted: one past the end of a line, of the text, or inside
a character is clamped.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of text; lines and columns count from 0, columns in code points."""

    line: int
    column: int
    end_line: int
    end_column: int

    def contains(self, line: int, column: int) -> bool:
        """Say whether a caret at this place touches the span (its end included)."""
        return (self.line, self.column) <= (line, column) <= (self.end_line, self.end_column)

    def overlaps(self, other: Span) -> bool:
        """Say whether the two spans touch or share text."""
        return (self.line, self.column) <= (other.end_line, other.end_column) and (
            other.line,
            other.column,
        ) <= (self.end_line, self.end_column)


def encoded_length(text: str, encoding: Encoding) -> int:
    """Return how many units of `encoding` the text takes; lone surrogates count too."""
    if encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def decoded_column(line: str, units: int, encoding: Encoding) -> int:
    """Return the column of a position given in units, clamped to the line, rounded down."""
    if units <= 0:
        return 0
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    if encoding == "utf-8":
        raw = line.encode("utf-8", "surrogatepass")
        if units >= len(raw):
            return len(line)
        while units and raw[units] & 0xC0 == 0x80:
            units -= 1
        return len(raw[:units].decode("utf-8", "surrogatepass"))
    return _column_of_utf16(line, units)


def _column_of_utf16(line: str, units: int) -> int:
    low, high = 0, min(units, len(line))
    # a prefix of n code points takes between n and 2n units: bisect instead of walking a long line
    while low < high:
        middle = (low + high + 1) // 2
        if encoded_length(line[:middle], "utf-16") <= units:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True)
class Text:
    """Immutable source text with a line index.

    `source` is the whole text; `line(n)` gives line n without its line break, and the empty string
    for a line that does not exist.
    """

    source: str
    _starts: Sequence[int] = field(init=False, repr=False, compare=False)
    _ends: Sequence[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts, ends = [0], []
        for match in _LINE_BREAK.finditer(self.source):
            ends.append(match.start())
            starts.append(match.end())
        ends.append(len(self.source))
        object.__setattr__(self, "_starts", starts)
        object.__setattr__(self, "_ends", ends)

    @property
    def line_count(self) -> int:
        """Number of lines; text that ends with a line break has an empty last line."""
        return len(self._starts)

    @property
    def lines(self) -> list[str]:
        """All lines without their line breaks."""
        return [self.source[a:b] for a, b in zip(self._starts, self._ends, strict=True)]

    def line(self, number: int) -> str:
        """Return line `number` (from 0) without its line break, or `""` outside the text."""
        if 0 <= number < len(self._starts):
            return self.source[self._starts[number] : self._ends[number]]
        return ""

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a code-point column, clamped to the line and to the text."""
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.source)
        start = self._starts[line]
        return start + max(0, min(column, self._ends[line] - start))

    def place(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of an offset, clamped; inside a CRLF it is the end of the line."""
        offset = max(0, min(offset, len(self.source)))
        line = bisect_right(self._starts, offset) - 1
        return line, min(offset, self._ends[line]) - self._starts[line]

    def column_from(self, line: int, character: int, encoding: Encoding) -> int:
        """Return the code-point column of a client's character, clamped to the line."""
        return decoded_column(self.line(line), character, encoding)

    def character_at(self, line: int, column: int, encoding: Encoding) -> int:
        """Return the client's character of a code-point column, clamped to the line."""
        return encoded_length(self.line(line)[: max(column, 0)], encoding)

    def splice(self, span: Span, new: str) -> Text:
        """Return the text with `span` replaced; a reversed span is read the right way round."""
        a = self.offset(span.line, span.column)
        b = self.offset(span.end_line, span.end_column)
        a, b = min(a, b), max(a, b)
        return Text(self.source[:a] + new + self.source[b:])

    def _has(self, line: int, column: int) -> bool:
        starts = self._starts
        return 0 <= line < len(starts) and 0 <= column <= self._ends[line] - starts[line]

    def clamp(self, span: Span) -> Span:
        """Return the span cut down to what exists in this text."""
        ordered = (span.line, span.column) <= (span.end_line, span.end_column)
        if ordered and self._has(span.line, span.column) and self._has(span.end_line, span.end_column):
            return span
        start = self.place(self.offset(span.line, span.column))
        end = self.place(self.offset(span.end_line, span.end_column))
        return Span(*start, *max(start, end))


class LineEditor:
    """A text under many changes: each costs what the lines that it touches cost, not the whole text."""

    def __init__(self, text: Text) -> None:
        self._lines = _split(text.source)  # with their line breaks

    def replace(self, span: Span, new: str, encoding: Encoding) -> None:
        """Replace a span, whose columns are in units of the client; like `Text.splice` of what was typed so far."""
        lines = self._lines
        start, end = sorted(
            (
                self._place(span.line, span.column, encoding),
                self._place(span.end_line, span.end_column, encoding),
            )
        )
        # the lines around belong to it: a CR before and an LF after may become one line break
        first, last = max(start[0] - 1, 0), min(end[0] + 1, len(lines) - 1)
        before = "".join(lines[first : start[0]]) + lines[start[0]][: start[1]]
        after = lines[end[0]][end[1] :] + "".join(lines[end[0] + 1 : last + 1])
        pieces = _split(before + new + after)
        if last < len(lines) - 1:
            pieces.pop()  # the empty piece after the last line break
        lines[first : last + 1] = pieces

    def _place(self, line: int, units: int, encoding: Encoding) -> tuple[int, int]:
        if line < 0:
            return 0, 0
        if line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        return line, decoded_column(self._lines[line].rstrip("\r\n"), units, encoding)

    def text(self) -> Text:
        """The text as it is now."""
        return Text("".join(self._lines))


def _split(source: str) -> list[str]:
    """The lines with their breaks, and what follows the last one."""
    ends = [match.end() for match in _LINE_BREAK.finditer(source)]
    return [source[a:b] for a, b in zip([0, *ends], [*ends, len(source)], strict=True)]


def lines_digest(lines: Iterable[str]) -> str:
    """Return the digest that a replay report gives for the lines of a call.

    First 16 hex digits of the SHA-256 of the lines, each stripped, joined by LF.
    """
    return stripped_digest("\n".join(line.strip() for line in lines))


def stripped_digest(body: str) -> str:
    """Return `lines_digest` of lines that are stripped and joined already."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
