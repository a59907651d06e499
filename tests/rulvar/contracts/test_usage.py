"""The usage that journals hold: repaired, never a credit, and refused by entry when it is none."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.usage import Usage, add_usage, recorded_usage, sanitize_usage, usage_violations
from rulvar.errors import ConfigError

SOUND = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 2, "cacheWriteTokens": 3}


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({}, "inputTokens", 10),
        ({"outputTokens": -5}, "outputTokens", 0),
        ({"inputTokens": -1}, "inputTokens", 0),
        ({"cacheReadTokens": 9}, "cacheWriteTokens", 1),
        ({"inputTokens": 3}, "cacheWriteTokens", 1),
        ({"outputTokens": 5.0}, "outputTokens", 5),
        ({"outputTokens": "many"}, "outputTokens", 0),
    ],
)
def test_what_breaks_a_rule_is_repaired(change: dict[str, Any], field: str, told: int) -> None:
    usage = recorded_usage({"seq": 4, "usage": {**SOUND, **change}})
    assert usage is not None
    assert usage.to_wire()[field] == told


@pytest.mark.parametrize("nothing", [{}, {"usage": None}, {"usage": {}}])
def test_an_entry_may_tell_none(nothing: Any) -> None:
    assert recorded_usage(nothing) is None


@pytest.mark.parametrize("wrong", ["x", 5, [1]])
def test_what_is_no_usage_is_refused_by_its_entry(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="entry 4 of the journal: usage: expected an object"):
        recorded_usage({"seq": 4, "usage": wrong})


@pytest.mark.parametrize(
    ("change", "five", "hour"),
    [
        ({"inputTokens": 10.5, "cacheWrite1hTokens": 3}, None, 3),
        ({"outputTokens": "many", "cacheWrite5mTokens": 1, "cacheWrite1hTokens": 2}, 1, 2),
        ({"inputTokens": 4, "cacheWrite5mTokens": 2}, 2, None),
        ({"inputTokens": 4, "cacheWrite5mTokens": 3}, 2, 0),
    ],
)
def test_a_split_stays_when_it_sums_to_the_writes_that_are_left(change: Any, five: Any, hour: Any) -> None:
    usage = sanitize_usage({**SOUND, **change})
    assert (usage.cache_write5m_tokens, usage.cache_write1h_tokens) == (five, hour)
    assert usage_violations(usage) == []


@pytest.mark.parametrize("wrong", ["many", {}, [1, 2]])
def test_cached_tokens_that_are_no_number_are_not_covered_by_the_input(wrong: Any) -> None:
    assert usage_violations({**SOUND, "cacheReadTokens": wrong}) == ["cacheReadTokens", "inputTokens"]


def test_a_count_that_no_double_holds_is_none() -> None:
    assert sanitize_usage({**SOUND, "outputTokens": 10**400}).output_tokens == 0
    assert sanitize_usage({**SOUND, "outputTokens": 10**300}).output_tokens == 2**53 - 1


def usage(written: int, five: int | None = None, hour: int | None = None) -> Usage:
    return Usage(
        input_tokens=written,
        output_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=written,
        cache_write5m_tokens=five,
        cache_write1h_tokens=hour,
    )


@pytest.mark.parametrize(
    ("left", "right", "five", "hour"),
    [
        (usage(3), usage(4), None, None),
        (usage(3, 1, 2), usage(4), 5, 2),
        (usage(4), usage(3, 1, 2), 5, 2),
        (usage(3, hour=3), usage(4, hour=4), 0, 7),
        (usage(3, five=3), usage(0), 3, 0),
    ],
)
def test_a_sum_tells_of_all_its_writes_how_long_they_last(
    left: Usage, right: Usage, five: int | None, hour: int | None
) -> None:
    total = add_usage(left, right)
    assert (total.cache_write5m_tokens, total.cache_write1h_tokens) == (five, hour)
    assert usage_violations(total) == []


def test_a_sum_without_reasoning_tokens_does_not_tell_of_any() -> None:
    plain = usage(0)
    thinking = Usage(
        input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0, reasoning_tokens=0
    )
    assert "reasoningTokens" not in add_usage(plain, thinking).to_wire()
