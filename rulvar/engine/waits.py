"""Open waits of a run: external answers and approvals, and how they are resolved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_form, journal_value
from rulvar.contracts.outcome import Pending
from rulvar.contracts.schema import schema_contract
from rulvar.errors import NonSerializableValueError, ResolutionError, RunSuspended
from rulvar.kernel.matching import Operation

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = ["Wait", "Waits", "describe_wait", "refuse_payload", "resolution_wire"]


@dataclass(slots=True)
class Wait:
    """One open wait: the entry that says so, and the future that an answer completes."""

    pending: Pending
    span: str
    future: asyncio.Future[Any]


class Waits:
    """The waits of one execution segment, in journal order."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._open: dict[int, Wait] = {}

    @property
    def are_open(self) -> bool:
        """Whether anything waits."""
        return bool(self._open)

    def open(self, seq: int, span: str, pending: Pending) -> Wait:
        """Register a wait; its future completes with the answer."""
        wait = Wait(pending, span, asyncio.get_running_loop().create_future())
        self._open[seq] = wait
        return wait

    def close(self, seq: int) -> None:
        """Forget a wait whose caller is gone."""
        self._open.pop(seq, None)

    def pending(self) -> tuple[Pending, ...]:
        """Return what is waited for, in journal order."""
        return tuple(self._open[seq].pending for seq in sorted(self._open))

    def unwind(self) -> None:
        """End every wait because the run suspends; they stay open in the journal."""
        for wait in self._open.values():
            if not wait.future.done():
                wait.future.set_exception(RunSuspended())
                wait.future.exception()  # seen: nobody may be left to await it

    async def resolve(self, key: str, value: Any) -> None:
        """Journal an answer and hand it to the branch that waits.

        Raises:
            ResolutionError: no open wait has that key, or its schema refuses the value. Nothing is
                journaled then, and the wait stays open.
        """
        seq = next((seq for seq in sorted(self._open) if self._open[seq].pending.key == key), None)
        if seq is None:
            raise ResolutionError(_unknown_key(key, self.pending()), data={"key": key})
        wait = self._open[seq]
        refuse_payload(wait.pending, value)
        data = journal_form(value, f"resolve_external({key!r})")
        await self._run.journal.append(
            resolution_wire(seq, wait.pending.scope, wait.span, fragment(data), self._run.now_iso())
        )
        self._open.pop(seq, None)
        self._run.bus.emit(
            "resolution:applied",
            self._run.root.span,
            None,
            {"targetRef": seq, "entryRef": self._run.journal.next_seq - 1, "by": "external"},
        )
        if not wait.future.done():
            wait.future.set_result(journal_value(value, f"resolve_external({key!r})"))


def resolution_wire(target: int, scope: str, span: str, value: Any, now: str) -> dict[str, Any]:
    """Return the entry that closes a wait."""
    return {
        "ref": target,
        "scope": scope,
        "key": "",
        "ordinal": 0,
        "kind": "resolution",
        "status": "ok",
        "spanId": span,
        "startedAt": now,
        "resolution": {"target": target, "by": "external", "value": value},
    }


def describe_wait(entry: JournalEntry) -> Pending:
    """Return what the entry of an open wait asks for."""
    value = entry.value
    facts: Mapping[str, Any] = value if isinstance(value, dict) else {}
    key, prompt = str(facts.get("key", "")), facts.get("prompt")
    if entry.kind == "approval":
        key, prompt = f"approval:{entry.seq}", f"approve tool {facts.get('toolName')!r}"
    return Pending(key=key, scope=entry.scope, entry_ref=entry.seq, prompt=prompt, schema=facts.get("schema"))


def refuse_payload(pending: Pending, value: Any) -> None:
    """Raise when a wait's schema does not take a value.

    Raises:
        ResolutionError: the value does not fit, or JSON cannot hold it.
    """
    try:
        plain = journal_value(value, f"resolve_external({pending.key!r})")
    except NonSerializableValueError as error:
        raise ResolutionError(error.message, data={"key": pending.key, **error.data}) from None
    if pending.schema is None:
        return
    issues = schema_contract(pending.schema).issues(plain)
    if issues:
        first = issues[0]
        path = "".join(f"[{part!r}]" for part in first.path)
        raise ResolutionError(
            f"the value for {pending.key!r} does not fit its schema: value{path}: {first.message}; the wait stays open",
            data={"key": pending.key, "issues": [issue.to_wire() for issue in issues]},
        )


def resolved_value(operation: Operation) -> Any:
    """Return the answer that closed a wait."""
    entry = operation.resolution
    assert entry is not None
    resolution = entry.to_wire().get("resolution") or {}
    return resolution.get("value")


def _unknown_key(key: str, pending: tuple[Pending, ...]) -> str:
    if not pending:
        return f"nothing waits for {key!r}: the run has no open wait"
    return f"nothing waits for {key!r}; open: {', '.join(repr(item.key) for item in pending)}"
