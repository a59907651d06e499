"""Journal lines as entries: versions, and numbers and fields of odd kinds."""

from __future__ import annotations

import pytest

from rulvar.contracts.entries import decode_entry


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ("", 1),
        ('"v":2', 2),
        ('"v":true', 1),
        ('"v":null', 1),
        ('"v":"2"', 1),
        ('"v":[2]', 1),
        ('"v":2.0', 2),
        ('"v":2.5', 2.5),
        ('"v":-1', -1),
        ('"v":1e30', 1e30),
        ('"hashVersion":null,"v":2', 2),
        ('"hashVersion":true,"v":2', 2),
        ('"hashVersion":1,"v":2', 1),
        ('"hashVersion":2.0', 2),
        ('"hashVersion":1.5', 1.5),
        ('"hashVersion":0,"v":1', 0),
    ],
)
def test_the_version_is_the_first_number_of_the_two_fields(fields: str, version: float) -> None:
    line = f'{{"seq":0{"," if fields else ""}{fields}}}'.encode()
    entry = decode_entry(line)
    assert (entry.hash_version, entry.line) == (version, line)


def test_a_number_without_a_fraction_is_an_integer_however_it_is_written() -> None:
    entry = decode_entry(b'{"hashVersion":2,"seq":3.0,"ref":1e0,"ordinal":-0.0,"kind":"step"}')
    assert (entry.seq, entry.ref, entry.ordinal, entry.kind) == (3, 1, 0, "step")


@pytest.mark.parametrize("value", ["true", "1.5", '"1"', "null", "[1]", "1e400", "99999999999999999999"])
def test_what_is_no_integer_is_no_seq(value: str) -> None:
    assert decode_entry(f'{{"seq":{value}}}'.encode()).seq == -1


@pytest.mark.parametrize("value", [b'"\xff"', b'"\xed\xa0\x80"', b"[" * 2000 + b"]" * 2000, b'"\\u00zz"'])
def test_a_line_that_cannot_be_read_is_refused_at_once_also_where_nobody_looks_yet(value: bytes) -> None:
    with pytest.raises(ValueError):
        decode_entry(b'{"seq":1,"kind":"step","hashVersion":2,"value":' + value + b"}")
