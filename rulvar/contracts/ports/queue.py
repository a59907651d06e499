"""The seam through which runs are handed to workers on other machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError

__all__ = ["RunQueue", "Submission"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A run that somebody asked for: everything that a worker needs to start it, or to go on with it.

    Attributes:
        run_id: the run; submitting it twice starts it once.
        workflow: its workflow's name; the worker's engine must know it.
        args: its arguments as JSON text, or None.
        budget_usd, deadline_ms, name, tags, scope: as in ``Engine.run``; the deadline in epoch milliseconds.
    """

    run_id: str
    workflow: str
    args: str | None = None
    budget_usd: float | None = None
    deadline_ms: int | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    scope: Any = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object, without what was left out."""
        wire = {key: value for key, value in asdict(self).items() if value is not None and value != ()}
        if self.tags:
            wire["tags"] = list(self.tags)
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Read a submission's JSON object.

        Raises:
            ConfigError: not one; names the field.
        """
        unknown = sorted(set(wire) - set(cls.__dataclass_fields__))
        if unknown:
            raise ConfigError(f"submission: unknown field {unknown[0]!r}", data={"field": unknown[0]})
        for name, kind in (("workflow", str), ("args", str), ("name", str), ("deadline_ms", int)):
            if name in wire and not isinstance(wire[name], kind):
                raise ConfigError(f"submission: {name} is no {kind.__name__}", data={"field": name})
        tags = wire.get("tags", ())
        if not isinstance(tags, (list, tuple)) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError("submission: tags is no list of texts", data={"field": "tags"})
        if "workflow" not in wire:
            raise ConfigError("submission: workflow is missing", data={"field": "workflow"})
        check_run_id(wire.get("run_id"))
        return cls(**{**wire, "tags": tuple(tags)})


class RunQueue(Protocol):
    """Hands runs to workers. What is handed over is durable when a call returns.

    A queue may also have ``answering(run_id, key, value)``, an async context manager that stands by while the
    block journals an answer and wakes the run: should the process die in it, a worker does both.
    """

    async def submit(self, submission: Submission, *, connection: Any = None, priority: int = 0) -> None:
        """Have a run started.

        Args:
            connection: a database connection of the caller's: the run is submitted in its
                transaction, and is there when that is committed.
            priority: higher ones go first.
        """

    async def wake(self, run_id: str, *, connection: Any = None) -> None:
        """Have a run that suspended, or ended in trouble, resumed."""

    async def answer(self, run_id: str, key: str, value: Any) -> None:
        """Have a wait answered, and its run resumed, as soon as nobody drives it."""

    async def close(self) -> None:
        """Close connections; the next use opens others."""
