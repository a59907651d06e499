"""``ctx.phase``: a named section of a workflow; it changes accounting and events, never identity."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Token
from types import TracebackType
from typing import Any

from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.primitives.parallel import begun
from rulvar.engine.run import Run

__all__ = ["Phase"]


class Phase:
    """A section: ``async with ctx.phase("plan"):``, or ``await ctx.phase("plan")(body)``."""

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self.name = name
        self._token: Token[Place | None] | None = None

    async def __aenter__(self) -> Phase:
        place = self._run.place()
        span = self._run.next_span()
        self._run.bus.emit("phase:start", span, place.span, {"phase": self.name})
        self._token = CURRENT_PLACE.set(place.at(phase=self.name, span=span))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT_PLACE.reset(self._token)
            self._token = None

    async def __call__(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """Run a function in the section and return its result."""
        async with self:
            return await begun(self._run, body)
