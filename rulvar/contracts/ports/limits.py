"""The seam that bounds model calls over many processes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["CallLimiter"]


class CallLimiter(Protocol):
    """Lets model calls through, as many at once and as often as a provider allows."""

    def slot(self, adapter_id: str) -> AbstractAsyncContextManager[None]:
        """Wait until a call to an adapter may be made, and hold its place while it is."""

    async def close(self) -> None:
        """Close connections; the next use opens others."""
