"""Tests of a file, found while it is being typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rulvar_lsp.features.outline import (
    blocks,
    find_test_at,
    find_tests,
    is_test_file,
    lines_in_strings,
)
from rulvar_lsp.text import Text

SOURCE = '''import pytest


@pytest.mark.parametrize(
    "n",
    [1],
)
async def test_one(n):
    """
    def test_in_a_docstring():
    """
    def test_nested():
        pass


def helper():  # def test_in_a_comment():
    pass


class TestCart:
    def test_empty(self):
        assert True

    def helper(self):
        def test_deep():
            pass

    class TestInner:
        def test_full(self): pass


class Cart:
    def test_not_collected(self): pass
'''


def names(source: str) -> list[str]:
    return [block.name for block in find_tests(blocks(Text(source)))]


def test_what_pytest_collects_by_default_is_found() -> None:
    assert names(SOURCE) == ["test_one", "TestCart::test_empty", "TestCart::TestInner::test_full"]


def test_tests_stay_when_the_text_around_them_does_not_parse() -> None:
    for broken in (
        SOURCE.replace("assert True", "assert (True,"),
        SOURCE.replace("class Cart:", "class Cart(:"),
        SOURCE.replace("def helper():", "def helper(:"),
        SOURCE + "\nx = '''",
    ):
        assert names(broken) == names(SOURCE)


def test_the_test_around_a_line_is_found_decorators_included() -> None:
    text = Text(SOURCE)
    assert [b.name if (b := find_test_at(text, blocks(text), n)) else None for n in (0, 3, 7, 9, 16, 20)] == [
        None,
        "test_one",
        "test_one",
        "test_one",
        None,
        "TestCart::test_empty",
    ]


def test_the_name_span_covers_the_name() -> None:
    text = Text(SOURCE)
    for block in blocks(text):
        span = block.name_span
        assert text.line(span.line)[span.column : span.end_column] == block.name.split("::")[-1]
        assert block.last_line >= span.line


def test_only_files_that_pytest_would_look_into_count() -> None:
    assert is_test_file("/a/test_x.py") and is_test_file("x_test.py")
    assert not is_test_file("/test_a/x.py") and not is_test_file("/a/test_x.pyi")


def test_comments_and_strings_at_the_margin_close_nothing() -> None:
    source = 'class TestA:\n    def test_a(self):\n        x = """\ny\n"""\n# no\n        pass\n    def test_b(self): pass\n'
    assert names(source) == ["TestA::test_a", "TestA::test_b"]


@given(st.text(alphabet="'\"\\#\n\r abc()def", max_size=200))
def test_any_text_has_an_outline(source: str) -> None:
    text = Text(source)
    assert lines_in_strings(text) <= set(range(text.line_count))
    find_tests(blocks(text))


PIECES = ['"""', "'''", '"', "'", "\\", "\\\n", "\n", "#", "x", "def test_a():", "    ", '\\"', "'\"'"]


def read_from_the_start(source: str) -> set[int]:
    """Lines that begin inside a string, by a walk over every character."""
    inside, line, place, quotes = set(), 0, 0, ""
    while place < len(source):
        if quotes:
            if source.startswith(quotes, place):
                place, quotes = place + len(quotes), ""
                continue
            step = 2 if source[place] == "\\" and place + 1 < len(source) else 1
            if len(quotes) == 1 and source[place] == "\n":
                quotes = ""
                continue
        elif source[place] == "#":
            while place < len(source) and source[place] != "\n":
                place += 1
            continue
        elif source[place] in "\"'":
            quotes = (
                source[place : place + 3] if source[place : place + 3] == source[place] * 3 else source[place]
            )
            place += len(quotes)
            continue
        else:
            step = 1
        for _ in range(source.count("\n", place, place + step)):
            line += 1
            if len(quotes) == 3:
                inside.add(line)
        place += step
    return inside


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_lines_in_strings_are_those_of_a_walk_over_every_character(source: str) -> None:
    assert lines_in_strings(Text(source)) == read_from_the_start(source)
