"""Failures of providers: which may be tried again, how long to wait, and what is never shown."""

from __future__ import annotations

import pytest

from rulvar.adapters.anthropic.faults import stream_fault as anthropic_fault
from rulvar.adapters.faults import connection_fault, provider_text, retry_after_ms, status_fault
from rulvar.adapters.openai.faults import stream_fault as openai_fault
from rulvar.contracts.failure import failure_reason


@pytest.mark.parametrize(
    ("status", "retryable", "kind", "reason"),
    [
        (400, False, "transport", "rejected"),
        (401, False, "transport", "authentication"),
        (402, False, "transport", "rate_limited"),
        (403, False, "transport", "authentication"),
        (404, False, "transport", "rejected"),
        (408, False, "transport", "unavailable"),
        (413, False, "transport", "rejected"),
        (429, True, "rate-limit", "rate_limited"),
        (500, True, "transport", "unavailable"),
        (503, True, "transport", "unavailable"),
        (529, True, "transport", "unavailable"),
    ],
)
def test_a_status_says_whether_to_try_again(status: int, retryable: bool, kind: str, reason: str) -> None:
    error = status_fault(status, {}, None)
    assert (error.retryable, (error.data or {})["kind"]) == (retryable, kind)
    assert (error.data or {})["status"] == status
    assert str(status) in error.message
    assert failure_reason(error) == reason


def test_no_connection_and_no_answer_in_time_have_reasons_of_their_own() -> None:
    assert failure_reason(connection_fault()) == "unavailable"
    assert failure_reason(connection_fault(timed_out=True)) == "timeout"
    assert connection_fault().retryable


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": " \t2 "}, 2000),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "150", "retry-after": "9"}, 150),
        ({"retry-after": "9" * 400}, 2**31 - 1),
        ({"retry-after": "2.5"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "2\n"}, None),
        ({}, None),
    ],
)
def test_only_whole_seconds_are_waited(headers: dict[str, str], wait: int | None) -> None:
    assert retry_after_ms(headers) == wait


def test_rate_limit_headers_are_kept() -> None:
    error = status_fault(429, {"x-ratelimit-remaining-requests": "0", "x-other": "1"}, "slow down")
    assert (error.data or {})["buckets"] == {"x-ratelimit-remaining-requests": "0"}
    assert error.message == "slow down"


def test_the_limits_that_a_provider_tells_are_counts_per_minute() -> None:
    told = {
        "x-ratelimit-limit-requests": " 50 ",
        "x-ratelimit-limit-tokens": "1e9",
        "x-ratelimit-limit-input-tokens": "40000",
        "x-ratelimit-limit-output-tokens": "9" * 400,
    }
    error = status_fault(429, told, None)
    assert (error.data or {})["reportedLimits"] == {"requestsPerMinute": 50, "inputTokensPerMinute": 40_000}
    assert "reportedLimits" not in (status_fault(429, {"retry-after": "1"}, None).data or {})


def test_what_a_provider_says_is_shown_short_and_without_credentials() -> None:
    assert provider_text("a  b\nc") == "a b c"
    assert provider_text("") is None
    assert provider_text(None) is None
    assert provider_text("key my-own-secret!", ["my-own-secret!"]) == "key [REDACTED]"
    assert "sk-proj" not in str(provider_text("Incorrect API key provided: sk-proj-abcdefgh1234"))
    assert len(str(provider_text("x" * 10_000))) < 600


@pytest.mark.parametrize("status", [401, 403])
def test_what_a_provider_says_of_credentials_is_never_shown(status: int) -> None:
    assert "mine" not in status_fault(status, {}, "the key mine is wrong").message


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("timeout_error", True),
        ("rate_limit_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("not_found_error", False),
    ],
)
def test_an_error_event_says_whether_to_try_again(kind: str, retryable: bool) -> None:
    error = anthropic_fault({"type": kind, "message": "because"})
    assert error.retryable is retryable
    assert (error.message == "because") is (kind != "authentication_error")
    assert (error.data or {})["kind"] == ("rate-limit" if kind == "rate_limit_error" else "transport")


@pytest.mark.parametrize(
    ("code", "retryable"),
    [
        ("server_error", True),
        ("vector_store_timeout", True),
        ("rate_limit_exceeded", True),
        ("overloaded_error", False),
        ("rate_limit_error", False),
        ("invalid_prompt", False),
        ("never_heard_of", False),
        (None, False),
    ],
)
def test_an_unknown_code_is_not_tried_again_because_every_try_is_paid(
    code: str | None, retryable: bool
) -> None:
    error = openai_fault(code, None)
    assert error.retryable is retryable
    assert error.message
