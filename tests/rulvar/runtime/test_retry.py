"""When an exchange is tried again, and how long that waits."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import RetryPolicy, WireError
from rulvar.errors import ConfigError
from rulvar.runtime.retry import retry_delay_s


def delay(policy: Any, attempt: int = 1, chance: float = 0.0, **error: Any) -> float | None:
    told = {"code": "agent", "message": "no", "retryable": True, **error}
    return retry_delay_s(RetryPolicy.of(policy), attempt, WireError(**told), chance)


PLAIN = {"attempts": 9, "backoff": {"initial_ms": 100, "factor": 3, "max_ms": 1000}}


def test_delays_grow_to_the_longest_and_chance_has_no_part_unless_it_is_asked_for() -> None:
    assert [delay(PLAIN, attempt, chance=0.9) for attempt in (1, 2, 3, 4)] == [0.1, 0.3, 0.9, 1.0]


def test_with_jitter_half_of_a_delay_is_left_to_chance() -> None:
    policy = {**PLAIN, "backoff": {**PLAIN["backoff"], "jitter": True}}
    assert [delay(policy, chance=chance) for chance in (0, 0.5)] == [0.05, 0.075]
    assert [delay(None, attempt, chance=0) for attempt in (1, 2)] == [0.25, 0.5]
    assert delay({"attempts": 99}, 50, chance=0) == 4.0


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(20, 0.02), (0, 0.0), (5000, 5.0), (2**40, (2**31 - 1) / 1000)],
)
def test_a_delay_that_the_provider_asks_for_stands_for_the_policys(asked: int, seconds: float) -> None:
    assert delay(PLAIN, data={"kind": "rate-limit", "retryAfterMs": asked}) == seconds


@pytest.mark.parametrize("asked", [-1, float("inf"), float("nan"), "5", True, None])
def test_a_delay_that_is_none_is_as_if_nothing_had_been_asked(asked: Any) -> None:
    assert delay(PLAIN, data={"retryAfterMs": asked}) == 0.1


def test_only_the_kinds_of_errors_that_the_policy_names_are_tried_again() -> None:
    policy = {**PLAIN, "retry_on": ["rate-limit"]}
    assert delay(policy, data={"kind": "transport"}) is None
    assert delay(policy, data={"kind": "overloaded"}) is None
    assert delay(policy, data={"kind": "rate-limit"}) == 0.1
    assert delay(policy, code="rate-limit") == 0.1
    assert delay({**PLAIN, "retry_on": ["transport"]}) == 0.1
    assert delay({**PLAIN, "retry_on": []}) is None


def test_no_number_of_attempts_is_too_large_for_a_delay() -> None:
    policy = {"attempts": 10_000, "backoff": {"initial_ms": 1, "factor": 10.5, "max_ms": 7}}
    assert delay(policy, 5000) == 0.007


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"retry_on": "transport"}, "retry.retry_on"),
        ({"retry_on": ["network"]}, "retry.retry_on"),
        ({"backoff": {"factor": 0}}, "retry.backoff.factor"),
        ({"backoff": {"jitter": "yes"}}, "retry.backoff.jitter"),
        ({"attempts": 1.5}, "retry.attempts"),
        ({"tries": 2}, "retry"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_and_its_field_named(policy: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RetryPolicy.of(policy)
    assert caught.value.data["field"] == field
