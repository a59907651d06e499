"""Frames: whatever a client sends, the messages after it are read."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar_lsp.edge.transport import MOST_BYTES, MessageReader, frame

FIRST, LAST = {"id": 1}, {"id": 2, "text": "é😋 Content-Length: 7"}
BODY = b'{"jsonrpc":"2.0","method":"x"}'


def messages(data: bytes) -> list[Any]:
    """All messages that are read, without what was refused."""
    read = iter(MessageReader(io.BytesIO(data)).next, None)
    return [message for message in read if isinstance(message, dict)]


@pytest.mark.parametrize(
    "wrong",
    [
        b"Content-Length: 10\r\n\r\n" + BODY,
        b"Content-Length: 45\r\n\r\n" + BODY,
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: many\r\n\r\n{}",
        b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1),
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 5\r\n\r\n[1,2]",
        b"Content-Length: 8\r\n\r\n\xff\xfe\x00\x01\x02\x03\x04\x05",
        b"\xef\xbb\xbf",
        b"\r\n\r\n\r\n",
        bytes(range(256)) * 20,
        b"x" * 200_000,
        b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_a_wrong_frame_costs_no_more_than_itself(wrong: bytes) -> None:
    assert messages(frame(FIRST) + wrong + frame(LAST) + frame(LAST)) == [FIRST, LAST, LAST]


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"Content-Length: 3\r\n", b"\r\n\r\n", BODY]), max_size=6
    )
)
def test_after_any_bytes_messages_are_read_again(pieces: list[bytes]) -> None:
    """A length that is too large may take a message along, never all of them."""
    found = messages(b"".join(pieces) + frame(LAST) * 200)
    assert found.count(LAST) >= 100


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=5))
def test_what_is_framed_is_read(values: list[dict[str, Any]]) -> None:
    assert messages(b"".join(frame(value) for value in values)) == json.loads(json.dumps(values))


@pytest.mark.parametrize("cut", range(len(frame(LAST))))
def test_the_end_within_a_message_is_the_end(cut: int) -> None:
    assert messages(frame(FIRST) + frame(LAST)[:cut]) == [FIRST]
