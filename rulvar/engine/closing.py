"""What an engine lets go of when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from rulvar.contracts.ports.provider import Adapter

__all__ = ["close_all", "release_adapters"]


async def release_adapters(adapters: Iterable[Adapter]) -> None:
    """Close the connections of adapters that keep some; they open new ones when they are asked again."""
    for adapter in adapters:
        release = getattr(adapter, "aclose", None)
        if release is not None:
            await release()


async def close_all(*items: Any) -> None:
    """Close what can be closed, sync or async."""
    for item in items:
        close = getattr(item, "close", None)
        if close is not None:
            outcome = close()
            if asyncio.iscoroutine(outcome):
                await outcome
