"""Tests and functions of a file, found in the text itself.

Works on text that does not parse: while somebody types, the lenses on tests must neither jump nor
vanish. Lines inside strings do not count, so that a `def test_x` in a docstring is not a test.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass

from rulvar_lsp.text import Span, Text

# A comment, the beginning of a long string, or a short string. No possessive quantifiers: before Python 3.11.5 they
# miss matches.
_TOKEN = re.compile(
    r"""\#[^\r\n]*
      |(?P<triple>"{3}|'{3})
      |"(?:[^"\\\r\n]+|\\.)*"?
      |'(?:[^'\\\r\n]+|\\.)*'?""",
    re.VERBOSE | re.DOTALL,
)
_TRIPLE = re.compile(r"[\"']{3}")
_CLOSING = {quotes: re.compile(rf"\\.|(?P<end>{quotes})", re.DOTALL) for quotes in ('"""', "'''")}
_HEADER = re.compile(r"([ \t\f]*)(?:(class)|(?:async[ \t]+)?def)[ \t]+(\w+)")
_WORD = re.compile(r"\w+")
_LONGEST_HEADER = 30
_TEST_FILE = re.compile(r"(?:test_.*|.*_test)\.py\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A class or function: its name as pytest writes it (`TestCart::test_empty`), where the name
    stands, and the last line of its body.
    """

    name: str
    kind: str
    name_span: Span
    last_line: int

    @property
    def is_test(self) -> bool:
        """Say whether pytest would collect it by default."""
        *outer, last = self.name.split("::")
        return (
            self.kind == "function"
            and last.startswith("test")
            and all(part.startswith("Test") for part in outer)
        )


def is_test_file(path: str) -> bool:
    """Say whether pytest would look into the file by default."""
    return _TEST_FILE.search(path.rpartition("/")[2]) is not None


def lines_in_strings(text: Text) -> set[int]:
    """Return the lines that begin inside a string."""
    inside: set[int] = set()
    source, place = text.source, 0
    while (quotes := _TRIPLE.search(source, place)) is not None:
        # comments and short strings end with their line: only a line with three quotes is read token by token
        place = max(place, text.offset(_first_joined(text, text.place(quotes.start())[0]), 0))
        while (match := _TOKEN.search(source, place)) is not None and match.start() <= quotes.start():
            place = match.end()
            if match["triple"] is not None:
                closing = _CLOSING[match["triple"]].finditer(source, place)
                place = next((item.end() for item in closing if item["end"]), len(source))
                first, _ = text.place(match.start())
                last, _ = text.place(place)
                inside.update(range(first + 1, last + 1))
    return inside


def _first_joined(text: Text, line: int) -> int:
    """The first of the lines that backslashes join to this one."""
    while line > 0 and text.line(line - 1).endswith("\\"):
        line -= 1
    return line


def blocks(text: Text) -> tuple[Block, ...]:
    """Return all classes and functions in order of appearance."""
    found: list[tuple[int, str, str, Span]] = []  # indentation, name, kind, span
    open_until: list[int | None] = []
    stack: list[int] = []  # indices into found
    hidden = lines_in_strings(text)
    for number, line in enumerate(text.lines):
        stripped = line.lstrip()
        if not stripped or stripped[0] == "#" or number in hidden:
            continue
        indent = len(line) - len(stripped)
        while stack and indent <= found[stack[-1]][0] and stripped[0] not in ")]}":
            open_until[stack.pop()] = number - 1
        if match := _HEADER.match(line):
            outer = found[stack[-1]][1] + "::" if stack else ""
            span = Span(number, match.start(3), number, match.end(3))
            kind = "class" if match[2] else "function"
            found.append((indent, outer + match[3], kind, span))
            open_until.append(None)
            stack.append(len(found) - 1)
    last = text.line_count - 1
    return tuple(
        Block(name, kind, span, last if end is None else max(end, span.line))
        for (_, name, kind, span), end in zip(found, open_until, strict=True)
    )


def find_tests(found: Iterable[Block]) -> tuple[Block, ...]:
    """Return the tests among the blocks of a file, in order of appearance."""
    return tuple(block for block in found if block.is_test)


def named_functions(found: Iterable[Block], names: Container[str]) -> tuple[Span, ...]:
    """Return the functions of these names, from the line of the name to the last of the body."""
    return tuple(
        Span(block.name_span.line, block.name_span.column, block.last_line, 0)
        for block in found
        if block.kind == "function" and block.name.rpartition("::")[2] in names
    )


def parameters(text: Text, block: Block) -> frozenset[str]:
    """Return the words in the header of a function, which the names of its parameters are among."""
    span = block.name_span
    words: set[str] = set()
    for number in range(span.line, min(block.last_line, span.line + _LONGEST_HEADER) + 1):
        line = text.line(number)[span.end_column if number == span.line else 0 :].partition("#")[0]
        header, closing, _ = line.partition(")")
        words.update(_WORD.findall(header))
        if closing:
            break
    return frozenset(words)


def find_test_at(text: Text, found: Iterable[Block], line: int) -> Block | None:
    """Return the test around this line, decorators included, or None."""
    around = [test for test in find_tests(found) if _first_line(text, test) <= line <= test.last_line]
    return around[-1] if around else None


def _first_line(text: Text, block: Block) -> int:
    """The line of the first decorator; a decorator may span lines and then ends with a bracket."""
    first = block.name_span.line
    depth = _indentation(text.line(first))
    inside = False
    for number in range(first - 1, -1, -1):
        line = text.line(number)
        stripped = line.strip()
        if _indentation(line) == depth and stripped.startswith("@"):
            first, inside = number, False
        elif _indentation(line) == depth and stripped.startswith((")", "]", "}")):
            inside = True
        elif not inside or (stripped and _indentation(line) <= depth):
            break
    return first


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
