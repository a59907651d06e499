"""The seam behind which time and chance live."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "Entropy", "SystemClock", "SystemEntropy", "epoch_ms", "iso_ms"]


class Clock(Protocol):
    """Wall time, and waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""


class Entropy(Protocol):
    """Chance."""

    def random(self) -> float:
        """Return a float in [0, 1)."""

    def uuid4(self) -> str:
        """Return a random UUID in its 36 character form."""


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait that long on the running event loop."""
        await asyncio.sleep(seconds)


class SystemEntropy:
    """The machine's randomness."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return self._random.random()

    def uuid4(self) -> str:
        """Return a random UUID in its 36 character form."""
        return str(uuid.uuid4())


def iso_ms(epoch_ms: int) -> str:
    """Return the UTC time as ISO 8601 with milliseconds and ``Z``."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03d}Z"


def epoch_ms(text: str) -> int:
    """Return the epoch milliseconds of an ISO 8601 time."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
