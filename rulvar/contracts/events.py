"""What happened in a run, live: the event stream.

Every event has a type (``run:start``, ``agent:end``, ``tool:start`` ...), a seq that counts up within
the run, a time, and the span it belongs to. The vocabulary is open: a reader skips types it does not
know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Event"]


class Event(Mapping[str, Any]):
    """One event: a read-only mapping of its JSON object, with the common fields as attributes."""

    __slots__ = ("_wire",)

    def __init__(self, wire: dict[str, Any]) -> None:
        self._wire = wire

    @property
    def type(self) -> str:
        """What happened."""
        return str(self._wire["type"])

    @property
    def run_id(self) -> str:
        """The run it happened in."""
        return str(self._wire["runId"])

    @property
    def seq(self) -> int:
        """Counts up within the run; the upper bits count execution segments."""
        return int(self._wire["seq"])

    @property
    def ts(self) -> str:
        """UTC time, ISO 8601 with milliseconds."""
        return str(self._wire["ts"])

    @property
    def span_id(self) -> str:
        """The span it belongs to."""
        return str(self._wire["spanId"])

    @property
    def parent_span_id(self) -> str | None:
        """The span around it; None at the root."""
        return self._wire.get("parentSpanId")

    @property
    def replayed(self) -> bool:
        """Whether it retells a call that was served from the journal."""
        return bool(self._wire.get("replayed", False))

    def to_wire(self) -> dict[str, Any]:
        """Return the event's JSON object."""
        return dict(self._wire)

    def __getitem__(self, name: str) -> Any:
        return self._wire[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._wire)

    def __len__(self) -> int:
        return len(self._wire)

    def __repr__(self) -> str:
        return f"Event({self._wire!r})"
