"""The live tier: calls that spend money, behind a switch of their own and within hard bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import TERMINAL_EVENTS, ChatEvent, Finish, StreamError, WireError
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

SmokeStatus = Literal["ok", "error", "no-terminal", "contract-violation"]


def live_test_enabled(*keys: str) -> bool:
    """Whether live tests are switched on: RULVAR_LIVE_TESTS is 1 and every named key is set.

    A key in the environment alone is no consent to spend money.
    """
    return os.environ.get(SWITCH) == "1" and all(os.environ.get(key) for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSmoke:
    """What a smoke test of an adapter came to.

    Attributes:
        status: ``ok`` (one finish, and it was last), ``error`` (the stream ended in a typed error),
            ``no-terminal``, or ``contract-violation`` (several terminals, something after one, or an
            exception instead of an error event).
        attempts: how many streams were opened.
        events: the events of the last stream.
        error: the typed error of status ``error``.
        failure: the exception that a stream raised.
    """

    status: SmokeStatus
    attempts: int
    events: tuple[ChatEvent, ...]
    error: WireError | None = None
    failure: BaseException | None = None


async def run_live_smoke(
    adapter: Adapter,
    request: ChatRequest,
    *,
    attempts: int = 3,
    base_delay_ms: int = 1000,
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
    attempt = 1
    while True:
        smoke = await _attempt(adapter, request, attempt)
        if smoke.status != "error" or smoke.error is None or not smoke.error.retryable or attempt == attempts:
            return smoke
        await sleep(base_delay_ms * attempt / 1000)
        attempt += 1


async def _attempt(adapter: Adapter, request: ChatRequest, attempt: int) -> LiveSmoke:
    events: list[ChatEvent] = []
    failure: Exception | None = None
    try:
        async for event in start_stream(adapter, request, None):
            events.append(event)
    except Exception as error:
        failure = error
    terminals = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    last = events[-1] if events else None
    status: SmokeStatus
    error_event: WireError | None = None
    if failure is not None or len(terminals) > 1 or (terminals and last is not terminals[0]):
        status = "contract-violation"
    elif not terminals:
        status = "no-terminal"
    elif isinstance(last, StreamError):
        status, error_event = "error", last.error
    else:
        assert isinstance(last, Finish)
        status = "ok"
    return LiveSmoke(
        status=status, attempts=attempt, events=tuple(events), error=error_event, failure=failure
    )


def _check_bound(field: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return
    shown = value if isinstance(value, (int, str)) and not isinstance(value, bool) else repr(value)
    raise ConfigError(
        f"{field}={value!r}: expected an integer from {least} to {most}",
        data={"field": field, "value": shown, "max": most},
    )
