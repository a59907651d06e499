"""What acts for an agent loop: it journals, runs tools, tells the world, and may end the loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, Msg, ToolCallPart
from rulvar.contracts.stream import WireError
from rulvar.contracts.usage import Usage
from rulvar.runtime.checkpoint import LoopState
from rulvar.runtime.ends import LoopEnd
from rulvar.runtime.turn import Turn
from rulvar.tools.invoke import ToolOutcome

__all__ = ["LoopHost"]


class LoopHost(Protocol):
    """Acts for the loop."""

    async def exchanged(self, record: dict[str, Any], request: ChatRequest, turn: Turn) -> None:
        """One exchange is over: journal it and tell observers."""

    async def checkpoint(self, state: LoopState) -> None:
        """A turn boundary is reached: keep the state."""

    async def admit_turn(self, request: ChatRequest, state: LoopState) -> LoopEnd | None:
        """The next turn is about to be sent; return an end instead of letting it."""

    async def admit_answer(self, turn: Turn, state: LoopState) -> LoopEnd | None:
        """A turn has been answered or has failed; return an end instead of acting on it."""

    async def admit_calls(self, calls: Sequence[ToolCallPart], state: LoopState) -> LoopEnd | None:
        """A turn asks for tool calls, none of which has run; return an end instead of running them."""

    async def run_tool(self, call: ToolCallPart, state: LoopState) -> ToolOutcome:
        """Run one tool call through the gate; a call that waits for approval keeps the state first."""

    def failed(self, error: WireError, *, will_retry: bool) -> None:
        """One exchange failed."""

    def schema_retry(self, attempt: int) -> None:
        """An answer did not fit and is asked for again."""

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt."""

    def later(self, seconds: float, callback: Callable[[], object]) -> Callable[[], object]:
        """Call back once that many seconds have passed on the event loop; return what forgets it."""

    def chance(self) -> float:
        """Return a number in [0, 1) for jitter."""

    def on_event(self) -> Any:
        """Return a callback for stream events, or None."""

    def output_bound(self, caps: ModelCaps, messages: Sequence[Msg]) -> int | None:
        """Return how many output tokens the next turn may cost; None is no bound.

        Raises:
            BudgetExhaustedError: no useful turn can be paid.
        """

    def affords(self, usage: Usage) -> bool:
        """Whether the budget still pays for an exchange that has used this much so far."""

    def slot(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold one of the exchanges that may be under way at once."""

    def exchange_begins(self) -> None:
        """The slot is held, and the request is about to be sent."""
