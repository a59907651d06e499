"""The bytes of a JSONL journal: which lines are whole, what is torn, what a repair leaves."""

from __future__ import annotations

import pytest

from rulvar.errors import JournalOrderViolation
from rulvar.stores.journal_lines import read_journal_lines

A, B, C = b'{"seq":0,"a":1}', b'{"seq":1,"b":"x}{"}', b'{"seq":2,"c":[1]}'


def mended(data: bytes) -> bytes:
    lines = read_journal_lines(data, "r.jsonl")
    assert lines.torn
    return lines.repaired(data)


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (A + b"\r\n" + B + b"\r\n" + b'{"seq":2,\r\n', A + b"\n" + B + b"\n"),
        (b"\n" + A + b"\n\n" + B + b"\n\n" + b'{"seq":2,', A + b"\n" + B + b"\n"),
        (b"\n\n{bad", b""),
        (b"  " + A + b"\t\n" + b"nope\n\n", A + b"\n"),
        (A + b"\n\r", A + b"\n"),
        (A + b"\n   ", A + b"\n"),
    ],
)
def test_a_repaired_journal_is_a_line_per_record_and_nothing_else(data: bytes, left: bytes) -> None:
    assert mended(data) == left


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (B + b" " + C, [B, C]),
        (b" " + B + b"\t" + C + b"\r", [B, C]),
        (B + C + b" {", [B, C]),
        (B + b"5" + C, [B]),
        (B + b"," + C, [B]),
        (b'"x"' + B, []),
        (b"5" + B, []),
        (b'{"a":NaN}' + B, []),
        (B + b'{"a":-Infinity}' + C, [B]),
        (b'{"t":"' + b"\xff" + b'"}' + B, []),
        (b"[1,2]" + B, [b"[1,2]", B]),
        (b'{"a":[1}' + B, []),
    ],
)
def test_whole_records_at_the_start_of_a_torn_line_are_kept(tail: bytes, kept: list[bytes]) -> None:
    lines = read_journal_lines(A + b"\n" + tail, "r.jsonl")
    assert [entry.line for entry in lines.entries] == [A, *kept]
    assert mended(A + b"\n" + tail) == b"".join(line + b"\n" for line in [A, *kept])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (A + b"\r\n{bad\r\n\r\n", 2),
        (A + b"\r\n\r\n\r\n", 2),
        (A + b"\n{bad\n \n", 2),
        (b"\r\n" + A + b"\r\n", 1),
    ],
)
def test_a_line_with_anything_but_line_feeds_behind_it_is_not_the_last(data: bytes, line: int) -> None:
    with pytest.raises(JournalOrderViolation, match=rf"r\.jsonl, line {line}:"):
        read_journal_lines(data, "r.jsonl")


@pytest.mark.parametrize("data", [b"", b"\n\n", A, A + b"\r", A + b"\r\n" + B + b"\r\n", A + b"\n\n" + B])
def test_a_sound_journal_is_left_as_it_is(data: bytes) -> None:
    lines = read_journal_lines(data, "r.jsonl")
    assert (lines.torn, lines.intact, lines.repaired(data)) == (False, len(data), data)
