"""What an observer of a run sees: numbered from 1, the last ones retained, gaps told."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from rulvar.contracts.events import Event
from rulvar.engine.bus import EventBus
from rulvar.errors import InvalidInputError

__all__ = ["OBSERVED", "ObservedEvent", "observe_bus"]

OBSERVED = frozenset(
    {
        "run:start", "step:start", "model:start", "model:end", "step:end", "tool:start", "tool:end",
        "delegate:start", "delegate:end", "output:delta", "output:withheld", "run:end",
    }
)  # fmt: skip
"""Types that are told; the complete stream is ``handle.events``."""
_COMMON = frozenset({"runId", "seq", "ts", "spanId", "parentSpanId", "replayed", "type"})
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class ObservedEvent(Event):
    """One event as an observer sees it; ``seq`` counts what is observed, from 1."""

    __slots__ = ("_metadata",)

    def __init__(self, wire: dict[str, Any]) -> None:
        super().__init__(wire)
        facts = {name: value for name, value in wire.items() if name not in _COMMON}
        self._metadata = {_CAPITAL.sub("_", name).lower(): value for name, value in facts.items()}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The event's own facts, under names in snake_case."""
        return self._metadata


async def observe_bus(
    bus: EventBus, after: int, retention: Callable[[], int], ended: Callable[[], Mapping[str, Any]]
) -> AsyncIterator[ObservedEvent]:
    """Yield the observed events from after a number on, live ones included.

    Args:
        retention: how many of the last events are still told.
        ended: facts that are added to the last event.

    Raises:
        InvalidInputError: ``after`` is no number of an event that has happened.
    """
    seen = [event for event in bus.seen() if event.type in OBSERVED]
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= len(seen):
        raise InvalidInputError(
            f"observe(after={after!r}): expected a number from 0 to {len(seen)}", data={"field": "after"}
        )
    first = max(1, len(seen) - retention() + 1)
    if after + 1 < first:
        facts = {"type": "events:gap", "runId": bus.run_id, "seq": first - 1, "ts": seen[first - 2].ts}
        yield ObservedEvent({**facts, "spanId": "", "from": after + 1, "to": first - 1})
    number = 0
    async for event in bus.stream():
        if event.type not in OBSERVED:
            continue
        number += 1
        if number <= after or number < first:
            continue
        wire = {**event.to_wire(), "seq": number}
        if event.type == "run:end":
            wire = {**{name: wire[name] for name in _COMMON if name in wire}, **ended()}
        elif event.type == "tool:start":
            wire.setdefault("toolId", wire.get("toolName"))
        yield ObservedEvent(wire)
