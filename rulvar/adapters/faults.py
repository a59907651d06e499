"""Failures of a provider as data: which may be tried again, and what may be said of them.

A text of a provider is shown only after everything that looks like a credential is cut out of it, and
never when the failure is about credentials: such texts quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rulvar.contracts.redaction import MASK, default_redact
from rulvar.contracts.stream import StreamError, WireError
from rulvar.contracts.usage import Usage

__all__ = [
    "MAX_RETRY_AFTER_MS",
    "UnusableAnswer",
    "broken_stream",
    "connection_fault",
    "provider_text",
    "retry_after_ms",
    "status_fault",
    "unusable_answer",
    "without_secrets",
]

MAX_RETRY_AFTER_MS = 2**31 - 1
"""The longest wait that a provider may ask for, in milliseconds."""

_MAX_TEXT = 500
_SHORTEST_SECRET = 4
_CUT = "..."
_COUNT = re.compile(r"[\t ]*([0-9]+)[\t ]*")
_KINDS = (
    (500, "the provider failed"),
    (400, "the provider refused the request"),
    (300, "the provider sends requests elsewhere, which is not followed: check base_url="),
    (0, "the provider gave no answer"),
)
_LIMITS: Mapping[str, str] = {
    f"x-ratelimit-limit-{header}": name
    for header, name in {
        "requests": "requestsPerMinute",
        "tokens": "tokensPerMinute",
        "input-tokens": "inputTokensPerMinute",
        "output-tokens": "outputTokensPerMinute",
    }.items()
}
_PRIVATE = (401, 403, 407)
_TEXTS: Mapping[int, str] = {
    400: "the provider refused the request",
    401: "the provider refused the credentials",
    402: "the provider's account has no credit",
    403: "the credentials do not allow this request",
    404: "the provider knows no such model or endpoint",
    408: "the provider gave up waiting for the request",
    413: "the request is too large for the provider",
    429: "the provider's rate limit is reached",
    529: "the provider is overloaded",
}


class UnusableAnswer(Exception):
    """An answer whose stream cannot be used, though it may have been paid: it is not asked for again.

    Attributes:
        usage: what is accounted for it, when it tells anything of its usage.
    """

    def __init__(self, what: str, usage: Usage | None = None) -> None:
        super().__init__(what)
        self.usage = usage


def status_fault(
    status: int, headers: Mapping[str, str], text: str | None, secrets: Iterable[str] = ()
) -> WireError:
    """Return the failure of an HTTP status.

    429 is a rate limit, 5xx a fault of transport; both may be tried again, nothing else may.

    Args:
        headers: with lower-case names.
        text: what the provider says of it, None when it says nothing.
        secrets: texts that must not be shown.
    """
    own = _TEXTS.get(status) or next(text for least, text in _KINDS if status >= least)
    said = None if status in _PRIVATE else provider_text(text, secrets)
    data: dict[str, Any] = {"kind": "rate-limit" if status == 429 else "transport"}
    if status == 429:
        wait = retry_after_ms(headers)
        if wait is not None:
            data["retryAfterMs"] = wait
        buckets = {
            name: without_secrets(value, secrets) for name, value in headers.items() if _is_bucket(name)
        }
        if buckets:
            data["buckets"] = buckets
        if limits := _reported_limits(headers):
            data["reportedLimits"] = limits
    elif status >= 500 and (wait := retry_after_ms(headers)) is not None:
        data["retryAfterMs"] = wait
    data["status"] = status
    return WireError(
        code="agent",
        message=said or f"{own} (HTTP {status})",
        retryable=status == 429 or status >= 500,
        data=data,
    )


def connection_fault(*, timed_out: bool = False, where: str = "") -> WireError:
    """Return the failure of a connection that could not be made, or that timed out.

    Args:
        where: which connection, and what the system says of it.
    """
    text = "the provider did not answer in time" if timed_out else "the connection to the provider failed"
    text += f" ({where})" if where else ""
    data: dict[str, Any] = {"kind": "transport"}
    if timed_out:
        data["timeout"] = True
    return WireError(code="agent", message=text, retryable=True, data=data)


def broken_stream(what: str, *, is_unreadable: bool = False) -> WireError:
    """Return the failure of a stream that broke off or, is_unreadable, that is no answer of the API."""
    reason = {"reason": "invalid_response"} if is_unreadable else {}
    return WireError(
        code="agent",
        message=f"the provider's stream broke: {what}",
        retryable=True,
        data={"kind": "transport", **reason},
    )


def unusable_answer(what: str) -> StreamError:
    """Return the failure of an answer that came whole and cannot be used."""
    error = WireError(
        code="agent",
        message=f"the provider's answer cannot be used: {what}",
        retryable=False,
        data={"kind": "terminal", "reason": "invalid_response"},
    )
    return StreamError(error=error)


def provider_text(text: str | None, secrets: Iterable[str] = ()) -> str | None:
    """Return what may be shown of a provider's text: short, on one line, without credentials."""
    if not isinstance(text, str):
        return None
    shown = " ".join(default_redact(without_secrets(text, secrets)).split())
    return (shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}{_CUT}") or None


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which the secrets that are known are masked, also one that was cut at its end."""
    for secret in secrets:
        if len(secret) < _SHORTEST_SECRET:
            continue
        text = text.replace(secret, MASK)
        if not text.endswith(_CUT):
            continue
        shown = text.removesuffix(_CUT)
        for length in range(len(secret) - 1, _SHORTEST_SECRET - 1, -1):
            if shown.endswith(secret[:length]):
                text = f"{shown[:-length]}{MASK}{_CUT}"
                break
    return text


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return how long a provider asks to wait; only whole seconds and ``retry-after-ms`` are understood."""
    millis = headers.get("retry-after-ms")
    if millis is not None and (found := _COUNT.fullmatch(millis)):
        return _bounded(found[1], 1)
    seconds = headers.get("retry-after")
    found = None if seconds is None else _COUNT.fullmatch(seconds)
    return None if found is None else _bounded(found[1], 1000)


def _reported_limits(headers: Mapping[str, str]) -> dict[str, int]:
    """Return the limits per minute that a provider tells of; what is no count is left out."""
    limits: dict[str, int] = {}
    for header, name in _LIMITS.items():
        found = _COUNT.fullmatch(headers.get(header, ""))
        if found and len(found[1]) < 16:
            limits[name] = int(found[1])
    return limits


def _bounded(digits: str, factor: int) -> int:
    return MAX_RETRY_AFTER_MS if len(digits) > 12 else min(int(digits) * factor, MAX_RETRY_AFTER_MS)


def _is_bucket(name: str) -> bool:
    return name.startswith(("x-ratelimit-", "anthropic-ratelimit-"))
