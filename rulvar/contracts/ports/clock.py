"""The seam behind which time and chance live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

__all__ = ["Clock", "Entropy", "TimerClock", "epoch_ms", "iso_ms", "recorded_ms"]


class Clock(Protocol):
    """Wall time, and waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""


@runtime_checkable
class TimerClock(Clock, Protocol):
    """A clock that also calls back; with any other, timeouts run on the event loop's own clock."""

    def schedule(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once that much time has passed; return what forgets it."""


class Entropy(Protocol):
    """Chance."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def uuid4(self) -> str:
        """Return a random UUID in its 36 character form."""


@lru_cache(maxsize=64)
def iso_ms(epoch_ms: int) -> str:
    """Return the UTC time as ISO 8601 with milliseconds and ``Z``."""
    seconds, milliseconds = divmod(epoch_ms, 1000)
    return f"{_iso_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _iso_second(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def epoch_ms(text: str) -> int:
    """Return the epoch milliseconds of an ISO 8601 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def recorded_ms(wire: Mapping[str, Any], field: str) -> int:
    """Return the epoch milliseconds of a recorded object's field; 0 when it holds no time."""
    text = wire.get(field)
    try:
        return epoch_ms(text) if isinstance(text, str) else 0
    except (ValueError, OverflowError):
        return 0
