"""A clock and a source of chance for laws: nothing depends on when they run."""

from __future__ import annotations

import asyncio


class Fixed:
    """A clock and a source of chance that always say the same."""

    def now_ms(self) -> int:
        return 1_800_000_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def random(self) -> float:
        return 0.25

    def uuid4(self) -> str:
        return "00000000-0000-4000-8000-000000000000"
