"""The trace: what a run did, as a list of behavioural events.

A trace is a fold of the journal, so a test run and a run from a file store tell the same. Its names are
dotted and in the past tense; live, the event stream tells the same things as ``domain:verb``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["TRACE_EVENTS", "TraceEvent"]

TRACE_EVENTS: Mapping[str, str] = {
    "transition.started": "transition:start",
    "transition.completed": "transition:end",
    "transition.failed": "transition:error",
    "tool.called": "tool:start",
    "tool.completed": "tool:end",
    "tool.failed": "tool:end",
    "document.emitted": "document:saved",
    "child.queued": "child:queued",
    "child.settled": "child:end",
    "run.settled": "run:settled",
}
"""Types of a trace, and the live event that is emitted at the same point."""

_UPPER = re.compile(r"(?<!^)([A-Z])")


class TraceEvent(Mapping[str, Any]):
    """One event: a read-only mapping of its JSON object, with the fields as attributes in snake case.

    Every event has ``type``, ``seq`` (from 0 in each run of the tree) and ``ts`` (epoch milliseconds of the
    engine's clock); a field that does not apply is absent, and reads as None as an attribute.
    """

    __slots__ = ("_fields", "_wire")

    def __init__(self, type_: str, seq: int, ts: int, fields: Mapping[str, Any]) -> None:
        self._wire = {"type": type_, "seq": seq, "ts": ts, **fields}
        self._fields = {_snake(name): value for name, value in self._wire.items()}

    @property
    def type(self) -> str:
        """What happened."""
        return str(self._wire["type"])

    @property
    def seq(self) -> int:
        """Counts up within the run."""
        return int(self._wire["seq"])

    @property
    def ts(self) -> int:
        """When, in epoch milliseconds."""
        return int(self._wire["ts"])

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return dict(self._wire)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._fields.get(name)

    def __getitem__(self, name: str) -> Any:
        return self._wire[name] if name in self._wire else self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._wire)

    def __len__(self) -> int:
        return len(self._wire)

    def __repr__(self) -> str:
        return f"TraceEvent({self._wire!r})"


def _snake(name: str) -> str:
    return _UPPER.sub(r"_\1", name).lower()
