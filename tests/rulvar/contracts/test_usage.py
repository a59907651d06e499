"""The usage that journals hold: repaired, never a credit, and refused by entry when it is none."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.usage import recorded_usage
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
