"""The machine's clock and randomness: what the ports of time and chance are unless told otherwise."""

from __future__ import annotations

import asyncio
import random
import time
import uuid

from rulvar.runtime.timers import Timers

__all__ = ["SystemClock", "SystemEntropy"]


class SystemClock:
    """The machine's clock."""

    __slots__ = ("schedule",)

    def __init__(self) -> None:
        self.schedule = Timers().later
        """Call back once that many seconds have passed; return what forgets it."""

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
