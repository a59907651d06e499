"""Text: lines, positions and edits, against a plain reference."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulvar_lsp.text import ENCODINGS, Encoding, LineEditor, Span, Text, encoded_length, lines_digest

PIECES = st.sampled_from(
    [
        "a",
        "Z9",
        " ",
        "é",
        "😋",
        "𝕏",
        "\n",
        "\r",
        "\r\n",
        "\x0c",
        "\x0b",
        "\x1c",
        "\x85",
        "\u2028",
        "\ud83d",
    ]
)
SOURCES = st.lists(PIECES, max_size=40).map("".join)


def reference_lines(source: str) -> list[str]:
    return re.split(r"\r\n|\n|\r", source)


def reference_units(text: str, encoding: Encoding) -> int:
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return len(text.encode(codec, "surrogatepass")) // size


@given(SOURCES)
@example("a\r\nb\rc\nd\x0ce\u2028f")
def test_lines_end_at_lf_crlf_and_cr_only(source: str) -> None:
    text = Text(source)
    assert text.lines == reference_lines(source)
    assert text.line_count == len(text.lines)
    assert [text.line(n) for n in range(text.line_count)] == text.lines
    assert text.line(-1) == text.line(text.line_count) == ""


@given(SOURCES, st.integers(-3, 60))
def test_an_offset_and_its_place_are_one(source: str, offset: int) -> None:
    text = Text(source)
    line, column = text.place(offset)
    assert 0 <= line < text.line_count
    assert 0 <= column <= len(text.line(line))
    inside_crlf = 0 < offset < len(source) and source[offset - 1 : offset + 1] == "\r\n"
    if 0 <= offset <= len(source) and not inside_crlf:
        assert text.offset(line, column) == offset


@given(SOURCES, st.sampled_from(ENCODINGS))
def test_every_column_survives_the_way_to_the_client_and_back(source: str, encoding: Encoding) -> None:
    text = Text(source)
    for number, line in enumerate(text.lines):
        for column in range(len(line) + 1):
            units = text.character_at(number, column, encoding)
            assert units == reference_units(line[:column], encoding)
            assert text.column_from(number, units, encoding) == column


@given(SOURCES, st.integers(0, 60), st.integers(-5, 200), st.sampled_from(ENCODINGS))
def test_a_character_that_does_not_exist_is_clamped_and_rounded_down(
    source: str, line: int, character: int, encoding: Encoding
) -> None:
    text = Text(source)
    column = text.column_from(line, character, encoding)
    content = text.line(line)
    assert 0 <= column <= len(content)
    assert encoded_length(content[:column], encoding) <= max(character, 0)
    if column < len(content):
        assert encoded_length(content[: column + 1], encoding) > character


@given(SOURCES, st.tuples(*[st.integers(-1, 12)] * 4), SOURCES)
def test_a_splice_is_what_cutting_the_string_gives(
    source: str, place: tuple[int, int, int, int], new: str
) -> None:
    text = Text(source)

    def offset(line: int, column: int) -> int:
        lines = reference_lines(source)
        if line < 0:
            return 0
        if line >= len(lines):
            return len(source)
        start = 0
        for one in range(line):
            start += len(lines[one])
            start += 2 if source[start : start + 2] == "\r\n" else 1
        return start + max(0, min(column, len(lines[line])))

    a, b = sorted([offset(*place[:2]), offset(*place[2:])])
    assert text.splice(Span(*place), new) == Text(source[:a] + new + source[b:])


@given(SOURCES, st.tuples(*[st.integers(-1, 12)] * 4))
def test_a_clamped_span_exists(source: str, place: tuple[int, int, int, int]) -> None:
    text = Text(source)
    span = text.clamp(Span(*place))
    assert text.place(text.offset(span.line, span.column)) == (span.line, span.column)
    assert (span.line, span.column) <= (span.end_line, span.end_column)


def test_a_long_line_is_measured_without_walking_it() -> None:
    line = "é😋" * 50_000
    text = Text(line)
    assert text.column_from(0, 149_998, "utf-16") == 99_999
    assert text.column_from(0, 149_999, "utf-16") == 99_999
    assert text.character_at(0, 99_998, "utf-16") == 149_997


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
def test_the_digest_of_lines_does_not_see_the_indentation(indent: str) -> None:
    expected = hashlib.sha256(b"a(\nb)").hexdigest()[:16]
    assert lines_digest([f"{indent}a(  ", f"{indent}{indent}b)"]) == expected


SPANS = st.tuples(*[st.integers(-2, 12)] * 4).map(lambda numbers: Span(*numbers))


@given(SOURCES, st.lists(st.tuples(SPANS, SOURCES), max_size=6), st.sampled_from(ENCODINGS))
def test_many_changes_at_once_give_what_one_after_the_other_gives(
    source: str, changes: list[tuple[Span, str]], encoding: Encoding
) -> None:
    editor, text = LineEditor(Text(source)), Text(source)
    for span, new in changes:
        editor.replace(span, new, encoding)
        columns = Span(
            span.line,
            text.column_from(span.line, span.column, encoding),
            span.end_line,
            text.column_from(span.end_line, span.end_column, encoding),
        )
        text = text.splice(columns, new)
        assert editor.text() == text
