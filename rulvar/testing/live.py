"""The live tier: calls that spend money, behind a switch of their own and within hard bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import TERMINAL_EVENTS, ChatEvent, StreamError, WireError
from rulvar.errors import ConfigError
from rulvar.testing.wrapped import start_stream

__all__ = [
    "MAX_LIVE_SMOKE_ATTEMPTS",
    "MAX_LIVE_SMOKE_DELAY_MS",
    "LiveSmoke",
    "live_test_enabled",
    "run_live_smoke",
]

MAX_LIVE_SMOKE_ATTEMPTS = 10
MAX_LIVE_SMOKE_DELAY_MS = 2**31 - 1
"""The longest wait between two attempts, in milliseconds."""

SWITCH = "RULVAR_LIVE_TESTS"

SmokeStatus = Literal["ok", "failed", "exhausted", "no-terminal", "contract-violation"]
Violation = Literal["multiple-terminals", "terminal-not-final", "raised"]


def live_test_enabled(*keys: str) -> bool:
    """Whether live tests are switched on: RULVAR_LIVE_TESTS is 1 and every named key is set.

    A key in the environment alone is no consent to spend money.
    """
    return os.environ.get(SWITCH) == "1" and all(os.environ.get(key) for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSmoke:
    """What a smoke test of an adapter came to.

    Attributes:
        status: ``ok`` (one finish, and it was last), ``failed`` (an error that is not retryable),
            ``exhausted`` (every attempt ended in a retryable error), ``no-terminal``, or
            ``contract-violation`` (see ``reason``).
        attempts: how many streams were opened.
        events: the events of the last stream.
        errors: the typed errors that the attempts ended in, in order.
        reason: how the contract was broken: ``multiple-terminals``, ``terminal-not-final``, or
            ``raised`` (an exception instead of an error event).
        failure: the exception that a stream raised.
    """

    status: SmokeStatus
    attempts: int
    events: tuple[ChatEvent, ...]
    errors: tuple[WireError, ...] = ()
    reason: Violation | None = None
    failure: BaseException | None = None

    @property
    def error(self) -> WireError | None:
        """The typed error that the last attempt ended in."""
        return self.errors[-1] if self.status in ("failed", "exhausted") else None


async def run_live_smoke(
    adapter: Adapter,
    request: ChatRequest,
    *,
    attempts: int = 3,
    base_delay_ms: int = 2000,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> LiveSmoke:
    """Drain one stream of an adapter and classify how it ended.

    A retryable error is tried again, after ``base_delay_ms`` times the number of the attempt. A
    non-retryable error, and a stream that breaks the contract, are never tried again: spending more
    repairs neither.

    Args:
        adapter: a live adapter.
        request: a small one; bound its ``max_output_tokens``.
        attempts: 1 to 10.
        base_delay_ms: milliseconds; the longest scheduled wait stays within 2^31-1.
        sleep: waits so many seconds.

    Raises:
        ConfigError: a bound is wrong; ``data`` has ``field``, ``value`` and ``max``. No stream was opened.
    """
    _check_bound("attempts", attempts, 1, MAX_LIVE_SMOKE_ATTEMPTS)
    _check_bound("base_delay_ms", base_delay_ms, 0, MAX_LIVE_SMOKE_DELAY_MS)
    _check_bound("base_delay_ms * (attempts - 1)", base_delay_ms * (attempts - 1), 0, MAX_LIVE_SMOKE_DELAY_MS)
    errors: list[WireError] = []
    for attempt in range(1, attempts + 1):
        events, failure = await _drain(adapter, request)
        last = events[-1] if events else None
        smoke = LiveSmoke(status="ok", attempts=attempt, events=events, errors=tuple(errors))
        reason = _violation(events, failure)
        if reason is not None:
            return replace(smoke, status="contract-violation", reason=reason, failure=failure)
        if not isinstance(last, TERMINAL_EVENTS):
            return replace(smoke, status="no-terminal")
        if not isinstance(last, StreamError):
            return smoke
        errors.append(last.error)
        if not last.error.retryable:
            return replace(smoke, status="failed", errors=tuple(errors))
        if attempt < attempts:
            await sleep(base_delay_ms * attempt / 1000)
    return replace(smoke, status="exhausted", errors=tuple(errors))


async def _drain(adapter: Adapter, request: ChatRequest) -> tuple[tuple[ChatEvent, ...], Exception | None]:
    events: list[ChatEvent] = []
    try:
        async for event in start_stream(adapter, request, None):
            events.append(event)
    except Exception as error:
        return tuple(events), error
    return tuple(events), None


def _violation(events: tuple[ChatEvent, ...], failure: Exception | None) -> Violation | None:
    """Return how a stream broke the contract; a missing terminal is a class of its own."""
    if failure is not None:
        return "raised"
    terminals = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    if len(terminals) > 1:
        return "multiple-terminals"
    return "terminal-not-final" if terminals and events[-1] is not terminals[0] else None


def _check_bound(field: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return
    finite = isinstance(value, (int, float)) and value - value == 0
    raise ConfigError(
        f"{field}={value!r}: expected an integer from {least} to {most}",
        data={"field": field, "value": value if finite or value is None else str(value), "max": most},
    )
