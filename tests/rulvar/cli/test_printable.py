"""Foreign text is made fit for a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar.cli.printable import clip, display_width, printable
from rulvar.cli.terminal import json_text

OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve, 漢字, 👩‍🔬", "naïve, 漢字, 👩‍🔬"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]8;;http://x\x1b\\link", "\\x1b]8;;http://x\\x1b\\link"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\r\tc\x00\x7f", "a\\nb\\r\\tc\\x00\\x7f"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("\u2066hidden\u2069", "\\u2066hidden\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028line", "\\u2028line"),
        ("\ud800", "\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_that_moves_or_hides_text_gets_through(text: str) -> None:
    for character in printable(text):
        assert (
            unicodedata.category(character) not in OBEYED or character in JOINERS or is_letter_like(character)
        )


def is_letter_like(character: str) -> bool:
    """Format characters that belong to a script (Arabic number signs, hieroglyph joiners) stay."""
    return character.isprintable() or ord(character) in range(0x600, 0x606) or ord(character) > 0x6DC


@given(st.text(), st.integers(1, 40))
def test_a_clipped_text_fits(text: str, width: int) -> None:
    assert display_width(clip(printable(text), width)) <= width


def test_marks_cannot_be_piled_up() -> None:
    assert len(printable("a" + "\u0301" * 500)) < 10


def test_wide_characters_take_two_columns() -> None:
    assert display_width("漢字a") == 5
    assert clip("漢字漢字", 5) == "漢字…"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=[])),
        lambda inner: st.lists(inner),
    )
)
def test_json_text_is_plain_ascii_and_says_the_same(value: object) -> None:
    text = json_text(value)
    assert text.isascii()
    assert not any((ord(character) < 32 and character != "\n") or ord(character) == 127 for character in text)
    assert json.loads(text) == value
