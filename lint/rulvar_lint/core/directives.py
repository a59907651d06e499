"""Reading suppression comments off the text of a file."""

from __future__ import annotations

import io
import re
import tokenize
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rulvar_lint.core.blocks import Block
    from rulvar_lint.core.source import Source

_NATIVE: Final = re.compile(
    r"#\s*rulvar:\s*(ignore-file|ignore|deterministic)\b\s*(?:\[([^\]\n]*)(?:\]|$))?", re.I
)
_NOQA: Final = re.compile(r"#\s*noqa\s*:\s*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)", re.I)
_WORDS: Final = re.compile(r"rulvar:|noqa", re.I)
_CODE: Final = re.compile(r"[A-Za-z]+[0-9]\w*")
# In brackets everything is meant to be a code: what is none must not leave an empty list behind.
_ENTRY: Final = re.compile(r"[^\s,;]+")


class Named(NamedTuple):
    """One code in a suppression comment; `start` and `end` are 0-based columns of the code."""

    code: str
    start: int
    end: int


class Suppression(NamedTuple):
    """One suppression comment.

    Attributes:
        kind: "ignore", "ignore-file" or "noqa".
        line: where the comment is.
        covers: first and last line it speaks for.
        codes: what it names; empty means every code.
        start, end: 0-based columns of the directive in its line.
    """

    kind: str
    line: int
    covers: tuple[int, int]
    codes: tuple[Named, ...]
    start: int
    end: int


def read(source: Source) -> tuple[list[Suppression], frozenset[int]]:
    """(the suppression comments of a file, the lines that are marked `# rulvar: deterministic`). Of a
    file that has been parsed only the statements with one of the words in them are tokenised.
    """
    suppressions: list[Suppression] = []
    trusted: set[int] = set()
    for line, column, text, covers in _comment_tokens(source):
        for match in _NATIVE.finditer(text):
            if match[1].lower() == "deterministic":
                trusted.add(line)
            else:
                suppressions.append(_native(match, line, column, covers))
        noqa = _NOQA.search(text)
        if noqa is not None and "RLV" in noqa[1].upper():
            codes = _codes(noqa[1], column + noqa.start(1))
            suppressions.append(
                Suppression("noqa", line, covers, codes, column + noqa.start(), column + noqa.end(1))
            )
    return suppressions, frozenset(trusted)


def _native(match: re.Match[str], line: int, column: int, covers: tuple[int, int]) -> Suppression:
    codes = _codes(match[2], column + match.start(2), _ENTRY) if match[2] is not None else ()
    return Suppression(match[1].lower(), line, covers, codes, column + match.start(), column + match.end())


def _codes(text: str, offset: int, shape: re.Pattern[str] = _CODE) -> tuple[Named, ...]:
    return tuple(Named(m.group().upper(), offset + m.start(), offset + m.end()) for m in shape.finditer(text))


Token = tuple[int, int, str, tuple[int, int]]
_UNREADABLE: Final = (tokenize.TokenError, SyntaxError, IndentationError, ValueError)


def _comment_tokens(source: Source) -> list[Token]:
    """(line, column, text, lines spoken for) of each comment. A comment behind a text over several
    lines speaks for all of them, since there is no other place for it.
    """
    blocks = source.known_blocks
    text = source.text
    if blocks is not None and text.count("\r") == text.count("\r\n") and "\f" not in text:
        with suppress(*_UNREADABLE):
            return _in_regions(text.split("\n"), blocks)
    with suppress(*_UNREADABLE):
        return list(_in_text(text, 0))
    return [
        (number, line.index("#"), line[line.index("#") :], (number, number))
        for number, line in enumerate(source.lines, 1)
        if "#" in line
    ]


def _in_regions(lines: list[str], blocks: list[Block]) -> list[Token]:
    """As `_in_text`, only of the statements that have one of the words in them, and of the lines
    between statements.
    """
    found: list[Token] = []
    done = at = 0
    for number, line in enumerate(lines, 1):
        if number <= done or _WORDS.search(line) is None:
            continue
        while at < len(blocks) and blocks[at].last < number:
            at += 1
        first = done = number
        if at < len(blocks) and blocks[at].first <= number:
            first, done = blocks[at].first, blocks[at].last
            for before in reversed(blocks[:at]):  # statements that share a line
                if before.last < first:
                    break
                first = before.first
            while at < len(blocks) and blocks[at].first <= done:
                done = max(done, blocks[at].last)
                at += 1
        found += _in_text("\n".join(lines[first - 1 : done]) + "\n", first - 1)
    return found


def _in_text(text: str, above: int) -> Iterator[Token]:
    covers: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            yield line + above, token.start[1], token.string, (covers.get(line, line) + above, line + above)
        elif token.end[0] > token.start[0] and token.type not in _LAYOUT:
            covers[token.end[0]] = token.start[0]


_LAYOUT: Final = frozenset(
    {tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.DEDENT, tokenize.INDENT}
)
