"""How many model calls may be under way at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from rulvar.contracts.ports.limits import CallLimiter
from rulvar.errors import ConfigError

__all__ = ["CallSlots"]

_UNBOUNDED: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()


class CallSlots:
    """Bounds the model calls of one engine, here and, with a limiter, over many processes.

    Raises:
        ConfigError: ``concurrency`` is neither None nor an integer from 1 up.
    """

    def __init__(self, concurrency: int | None, limiter: CallLimiter | None) -> None:
        self._here = None if concurrency is None else asyncio.Semaphore(_checked(concurrency))
        self._limiter = limiter

    def hold(
        self, adapter_id: str, on_wait: Callable[[], None]
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold one slot, here and at the provider; ``on_wait`` is called when all of those here are taken."""
        if self._here is None and self._limiter is None:
            return _UNBOUNDED
        return self._hold(adapter_id, on_wait)

    @contextlib.asynccontextmanager
    async def _hold(self, adapter_id: str, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if self._here is not None:
                if self._here.locked():
                    on_wait()
                await stack.enter_async_context(self._here)
            if self._limiter is not None:
                await stack.enter_async_context(self._limiter.slot(adapter_id))
            yield


def _checked(concurrency: int) -> int:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise ConfigError(
            f"concurrency={concurrency!r}: expected an integer from 1 up, or None",
            data={"field": "concurrency"},
        )
    return concurrency
