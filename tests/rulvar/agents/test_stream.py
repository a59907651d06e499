"""Reading a field out of JSON under way, and cutting its text into batches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulvar.agents.field_decoder import FieldDecoder
from rulvar.agents.stream import Batcher, StreamPolicy
from rulvar.errors import ConfigError

NAMES = st.sampled_from(["a", "b", "reply", "ä", "\n"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


def decoded(text: str, path: list[str], cuts: list[int] | None = None) -> str:
    decoder = FieldDecoder(path)
    places = sorted({0, len(text), *(cut for cut in cuts or range(len(text)) if cut <= len(text))})
    return "".join(decoder.feed(text[a:b]) for a, b in zip(places, places[1:], strict=False))  # noqa: RUF007


@given(
    st.dictionaries(NAMES, VALUES, max_size=3),
    st.lists(NAMES, min_size=1, max_size=3),
    st.text(max_size=12),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=8),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines differ
def test_the_field_comes_as_it_is_whatever_stands_around_it_and_however_it_is_cut(
    around: dict[str, Any], path: list[str], text: str, ascii_only: bool, cuts: list[int]
) -> None:
    value: Any = text
    for name in reversed(path):
        value = {**{key: item for key, item in around.items() if key != name}, name: value}
    for indent in (None, 2):
        written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
        assert decoded(written, path, cuts) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1}', ""),
        ('{"reply": 7}', ""),
        ('{"reply": ["x"]}', ""),
        ('[{"reply": "x"}]', ""),
        ('{"b": {"reply": "x"}, "reply": "y"}', "y"),
        ('{"reply": "one", "reply": "two"}', "one"),
        ('{"reply": "half', "half"),
        ('{"reply": "\\ud83d\\ude00 \\ud83d x \\ude00"}', "😀 � x �"),
        ('{"re\\u0070ly": "x"}', "x"),
        ("not json", ""),
        ('{"reply" "x"}', ""),
        ('"reply"', ""),
        ("", ""),
        ('{"reply": "a\\', "a"),
        ('{"reply": "\\uZZZZ"}', ""),
    ],
)
def test_odd_text_gives_what_can_be_told(text: str, told: str) -> None:
    assert decoded(text, ["reply"]) == told


def test_a_batch_ends_after_white_space_once_there_is_enough() -> None:
    batcher = Batcher(10, 40)
    assert batcher.feed("Hello") == []
    assert batcher.feed(" there, how are") == ["Hello there, how "]
    assert batcher.flush() == "are"
    assert batcher.flush() == ""


@given(
    st.lists(st.text(st.sampled_from("ab \n"), max_size=30), max_size=8),
    st.integers(1, 12),
    st.integers(0, 12),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines differ
def test_batches_lose_nothing_and_keep_their_sizes(pieces: list[str], least: int, more: int) -> None:
    batcher = Batcher(least, least + more)
    batches = [batch for piece in pieces for batch in batcher.feed(piece)]
    assert "".join([*batches, batcher.flush()]) == "".join(pieces)
    assert all(least <= len(batch) <= least + more for batch in batches)


@pytest.mark.parametrize(
    "options",
    [
        {"field": []},
        {"field": ["a"] * 9},
        {"field": [""]},
        {"guards": [1]},
        {"batch": (0, 4)},
        {"batch": (5, 4)},
        {"batch": (5, 5000)},
    ],
)
def test_a_wrong_policy_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"stream.{next(iter(options))}"):
        StreamPolicy(**{"field": ["a"], "guards": [], **options})


def test_guards_must_be_given() -> None:
    with pytest.raises(TypeError, match="guards"):
        StreamPolicy(field=["a"])  # type: ignore[call-arg]
