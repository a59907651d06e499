"""A commit: what one attempt of a transition came to, as the journal keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.errors import ConfigError
from rulvar.machines.document import Document

__all__ = ["Commit", "Launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A child that a transition starts once it is committed.

    Attributes:
        scope: where it stands in the journal.
        on_done: the wait transition of the parent that its end fires, or None.
        meta: handed to that transition with the outcome.
        label, show: for people.
        at_ms, position, turn: as of a document.
    """

    workflow: str
    scope: str
    args: Any = None
    on_done: str | None = None
    meta: Any = None
    label: str | None = None
    show: Any = None
    at_ms: int = 0
    position: int = 0
    turn: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; fields that say nothing are left out."""
        wire: dict[str, Any] = {"workflow": self.workflow, "scope": self.scope}
        for name, value in (
            ("args", self.args),
            ("onDone", self.on_done),
            ("meta", self.meta),
            ("label", self.label),
            ("show", self.show),
        ):
            if value is not None:
                wire[name] = value
        return {**wire, "atMs": self.at_ms, "position": self.position, "turn": self.turn}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Launch:
        """Make a launch of its JSON object."""
        return cls(
            workflow=wire["workflow"],
            scope=wire["scope"],
            args=wire.get("args"),
            on_done=wire.get("onDone"),
            meta=wire.get("meta"),
            label=wire.get("label"),
            show=wire.get("show"),
            at_ms=wire.get("atMs", 0),
            position=wire.get("position", 0),
            turn=wire.get("turn", 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one attempt came to; a failed attempt commits its failure.

    Attributes:
        from_, to: the places before and after. After a failure: the place to retry from, the error place,
            or the place it was.
        attempt: 0 for the first.
        state, result: patches; of a failed attempt empty.
        documents: what was saved; of a failed attempt what had been saved and is taken back.
        error: the wire form of what failed it, or None.
        will_retry: whether another attempt follows by itself.
        skipped: whether the body did not run, because the callback it waited for had failed.
        retry_ms: epoch milliseconds before which the next attempt does not begin.
    """

    transition: str
    from_: str
    to: str
    attempt: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    documents: tuple[Document, ...] = ()
    children: tuple[Launch, ...] = ()
    error: Mapping[str, Any] | None = None
    will_retry: bool = False
    skipped: bool = False
    retry_ms: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object; fields that say nothing are left out."""
        wire: dict[str, Any] = {"transition": self.transition, "from": self.from_, "to": self.to}
        if self.attempt:
            wire["attempt"] = self.attempt
        if self.state:
            wire["state"] = self.state
        if self.result:
            wire["result"] = self.result
        if self.documents:
            wire["documents"] = [item.to_wire() for item in self.documents]
        if self.children:
            wire["children"] = [item.to_wire() for item in self.children]
        if self.error is not None:
            wire["error"] = self.error
            wire["willRetry"] = self.will_retry
        if self.skipped:
            wire["skipped"] = True
        if self.retry_ms:
            wire["retryMs"] = self.retry_ms
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Commit:
        """Make a commit of its JSON object.

        Raises:
            ConfigError: it is none; somebody else has written the journal, or changed it.
        """
        try:
            return cls._of(wire)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"a transition's entry holds no commit ({type(error).__name__}: {error}); restore the run from a copy",
                data={"field": "value"},
            ) from error

    @classmethod
    def _of(cls, wire: Mapping[str, Any]) -> Commit:
        for name, kind in _KINDS.items():
            if not isinstance(wire.get(name, kind()), kind):
                raise TypeError(f"{name}: expected {kind.__name__}, got {type(wire[name]).__name__}")
        return cls(
            transition=wire["transition"],
            from_=wire["from"],
            to=wire["to"],
            attempt=wire.get("attempt", 0),
            state=wire.get("state") or {},
            result=wire.get("result") or {},
            documents=tuple(Document.from_wire(item) for item in wire.get("documents", ())),
            children=tuple(Launch.from_wire(item) for item in wire.get("children", ())),
            error=wire.get("error"),
            will_retry=bool(wire.get("willRetry", False)),
            skipped=bool(wire.get("skipped", False)),
            retry_ms=wire.get("retryMs", 0),
        )


_KINDS = {
    "transition": str,
    "from": str,
    "to": str,
    "attempt": int,
    "state": dict,
    "result": dict,
    "retryMs": int,
}
