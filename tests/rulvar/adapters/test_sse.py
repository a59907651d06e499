"""Server-sent events are the same however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulvar.adapters import sse as module
from rulvar.adapters.sse import ServerEvent, SseDecoder, SseError

TEXT = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=20)


def decoded(*chunks: bytes) -> list[ServerEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 400), max_size=12),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines differ
def test_any_split_and_any_line_ending_give_the_same_events(
    events: list[tuple[str, list[str]]], end: str, cuts: list[int]
) -> None:
    text = "".join(
        f"event: {name}{end}" + "".join(f"data: {line}{end}" for line in lines) + end
        for name, lines in events
    )
    data = text.encode("utf-8")
    places = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    chunks = [data[a:b] for a, b in pairwise(places)]
    assert decoded(*chunks) == [ServerEvent(name, "\n".join(lines)) for name, lines in events]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [ServerEvent("", "a")]),
        (b"data:a\n\n", [ServerEvent("", "a")]),
        (b"data:  a\n\n", [ServerEvent("", " a")]),
        (b"data\n\n", [ServerEvent("", "")]),
        (b": a comment\n\nevent: x\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent("", "a")]),
        (b"id: 7\nretry: 3\nunknown: y\ndata: a\ndata: b\n\n", [ServerEvent("", "a\nb")]),
        (b"data: unfinished\n", []),
        (b"event: lost\n\ndata: a\n\n", [ServerEvent("", "a")]),
    ],
)
def test_the_grammar_of_event_streams(data: bytes, events: list[ServerEvent]) -> None:
    assert decoded(data) == events
    assert decoded(*(data[at : at + 1] for at in range(len(data)))) == events


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SseError, match="UTF-8"):
        decoded(b"data: \xff\n\n")


def test_an_event_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENT_BYTES", 1000)
    with pytest.raises(SseError, match="1000 bytes"):
        decoded(*[b"x" * 100] * 11)
    with pytest.raises(SseError, match="1000 bytes"):
        decoded(*[b"data: " + b"x" * 94 + b"\n"] * 12)
