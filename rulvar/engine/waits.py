"""Open waits of a run: external answers and approvals, and how they are resolved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import fragment, journal_form, journal_value
from rulvar.contracts.outcome import Pending
from rulvar.contracts.schema import schema_contract
from rulvar.errors import NonSerializableValueError, ResolutionError, RunSuspended
from rulvar.kernel.matching import Operation

if TYPE_CHECKING:
    from rulvar.engine.run import Run

__all__ = [
    "Admit",
    "Wait",
    "Waits",
    "admit_answer",
    "describe_waits",
    "find_way",
    "refuse_payload",
    "resolution_wire",
    "resolved_value",
]

APPROVAL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"decision": {"enum": ["allow", "deny"]}, "reason": {"type": "string"}},
    "required": ["decision"],
}
"""What an answer to an approval looks like; whatever else was taken would silently mean no."""

SAID_FORMATS = "annotation"
"""Stands as ``formats`` beside a recorded schema that was made of a type: what the type takes is for the type to say."""

Admit = Callable[[Pending, Any], Any]
"""Checks an answer to one way out of a wait, and returns what is journaled for it."""


@dataclass(slots=True)
class Wait:
    """One open wait: the ways out of it, and the future that an answer completes.

    Attributes:
        is_told: whether this segment has told listeners of it.
    """

    ways: tuple[Pending, ...]
    scope: str
    span: str
    future: asyncio.Future[Any]
    admit: Admit
    is_told: bool = False


class Waits:
    """The waits of one execution segment, in journal order."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._open: dict[int, Wait] = {}
        self._being_answered = 0

    @property
    def are_open(self) -> bool:
        """Whether anything waits, and nothing is about to go on because it has just been answered."""
        return bool(self._open) and not self._being_answered

    def open(self, entry: JournalEntry, admit: Admit | None = None, *, is_told: bool = False) -> Wait:
        """Register the wait that an entry tells of; its future completes with the answer.

        Args:
            admit: checks answers; unless given, the wait's schema does.
            is_told: whether listeners have been told of it.
        """
        future = asyncio.get_running_loop().create_future()
        wait = Wait(describe_waits(entry), entry.scope, entry.span_id, future, admit or admit_answer, is_told)
        self._open[entry.seq] = wait
        if self._run.suspended:  # what was under way when the run was suspended has come to a wait of its own
            self.unwind(entry.scope)
        return wait

    def tell_recorded(self) -> None:
        """Tell listeners, when a run is resumed, of every wait that its journal leaves open."""
        index = self._run.index
        for operation in index.operations.values():
            first = operation.first
            if (
                first.kind not in ("external", "approval")
                or operation.resolution
                or index.is_skipped(operation)
            ):
                continue
            value = first.value if isinstance(first.value, dict) else {}
            if not isinstance(
                value.get("transitions"), Mapping
            ):  # those of a state machine are told where it stands
                self.tell(first.seq, str(value.get("key", "")), value.get("prompt"), replayed=True)

    def tell_pending(self) -> None:
        """Tell listeners, when a run suspends, of what it waits for and this segment has not told."""
        for way in self.pending():
            if not self._open[way.entry_ref].is_told:
                self.tell(way.entry_ref, way.key, way.prompt)

    def tell(self, seq: int, key: str, prompt: str | None, *, replayed: bool = False) -> None:
        """Tell listeners of a wait."""
        facts = {"key": key, "entryRef": seq, **({} if prompt is None else {"prompt": prompt})}
        self._run.bus.emit("external:waiting", self._run.root.span, None, facts, replayed)

    def close(self, seq: int) -> None:
        """Forget a wait whose caller is gone."""
        self._open.pop(seq, None)

    def pending(self) -> tuple[Pending, ...]:
        """Return what is waited for, in journal order."""
        return tuple(way for seq in sorted(self._open) for way in self._open[seq].ways)

    def unwind(self, below: str | None = None) -> None:
        """End waits because nobody is left to answer them now; they stay open in the journal.

        Args:
            below: only those in this scope and the scopes below it.
        """
        for wait in self._open.values():
            if below is not None and wait.scope != below and not wait.scope.startswith(f"{below}/"):
                continue
            if not wait.future.done():
                wait.future.set_exception(RunSuspended())
                wait.future.exception()  # seen: nobody may be left to await it

    async def resolve(self, key: str, value: Any) -> None:
        """Journal an answer and hand it to the branch that waits.

        Raises:
            ResolutionError: no open wait has that key, or the value is refused. Nothing is journaled
                then, and the wait stays open.
        """
        way = find_way(key, self.pending(), f"run {self._run.run_id!r}")
        await self.settle(way.entry_ref, self._open[way.entry_ref].admit(way, value), by="external")

    async def settle(self, seq: int, value: Any, *, by: str) -> None:
        """Journal how an open wait is resolved, and hand it over; the first one counts."""
        wait = self._open.pop(seq)
        data = journal_form(value, "resolution")
        self._being_answered += 1
        try:
            entry_ref = await self._run.journal.append(
                resolution_wire(seq, wait.scope, wait.span, fragment(data), self._run.now_iso(), by)
            )
        except BaseException:
            self._open[seq] = wait
            raise
        else:
            facts = {"targetRef": seq, "entryRef": entry_ref, "by": by}
            self._run.bus.emit("resolution:applied", self._run.root.span, None, facts)
            if not wait.future.done():
                wait.future.set_result(decode_json(data))
        finally:  # whoever waited goes on first
            asyncio.get_running_loop().call_soon(self._is_answered)

    def _is_answered(self) -> None:
        self._being_answered -= 1
        self._run.suspend_when_still()


def resolution_wire(
    target: int, scope: str, span: str, value: Any, now: str, by: str = "external"
) -> dict[str, Any]:
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
        "resolution": {"target": target, "by": by, "value": value},
    }


def describe_waits(entry: JournalEntry) -> tuple[Pending, ...]:
    """Return the ways out of the wait that an entry tells of.

    Most waits have one. A wait for one of several named answers lists them in its entry's value:
    ``{"key", "transitions": {name: schema or null}}``; each is a way, with the key ``<key>/<name>``.
    """
    value = entry.value
    facts: Mapping[str, Any] = value if isinstance(value, dict) else {}
    key, prompt = str(facts.get("key", "")), facts.get("prompt")
    if entry.kind == "approval":
        key, prompt = approval_key(entry.seq), f"approve tool {facts.get('toolName')!r}"
    transitions = facts.get("transitions")
    if not isinstance(transitions, Mapping):
        return (
            Pending(
                key=key,
                scope=entry.scope,
                entry_ref=entry.seq,
                prompt=prompt,
                schema=facts.get("schema"),
                asserts_formats=facts.get("formats") != SAID_FORMATS,
            ),
        )
    return tuple(
        Pending(
            key=f"{key}/{name}",
            scope=entry.scope,
            entry_ref=entry.seq,
            prompt=prompt,
            schema=schema,
            transition=name,
            asserts_formats=False,  # the machine's class knows whether a type stands behind the schema
        )
        for name, schema in transitions.items()
    )


def find_way(key: str, ways: Sequence[Pending], whose: str) -> Pending:
    """Return the way out that a key means: its whole key, or the name of its transition.

    Raises:
        ResolutionError: no way has that key, or several transitions of that name wait; lists the keys.
    """
    for way in ways:
        if way.key == key:
            return way
    named = [way for way in ways if way.transition is not None and way.transition == key]
    if len(named) == 1:
        return named[0]
    if named:
        keys = ", ".join(repr(way.key) for way in named)
        raise ResolutionError(
            f"{whose} waits for {key!r} in several places; name one: {keys}", data={"key": key}
        )
    keys = ", ".join(repr(way.key) for way in ways) or "none"
    raise ResolutionError(f"{whose} does not wait for {key!r}; open waits: {keys}", data={"key": key})


def approval_key(seq: int) -> str:
    """Return the key under which the approval that an entry asks for is answered."""
    return f"approval:{seq}"


def admit_answer(way: Pending, value: Any) -> Any:
    """Check an answer against its way's schema, and return what is journaled for it.

    Raises:
        ResolutionError: the value does not fit, or JSON cannot hold it.
    """
    plain = refuse_payload(way, value)
    if way.transition is None:
        return plain
    return {"transition": way.transition, "status": "completed", "data": plain}


def refuse_payload(way: Pending, value: Any) -> Any:
    """Return a value's JSON form, or raise when a way's schema does not take it.

    Raises:
        ResolutionError: the value does not fit, or JSON cannot hold it.
    """
    try:
        plain = journal_value(value, f"resolve_external({way.key!r})")
    except NonSerializableValueError as error:
        raise ResolutionError(error.message, data={"key": way.key, **error.data}) from None
    schema = APPROVAL_SCHEMA if way.key == approval_key(way.entry_ref) else way.schema
    contract = None if schema is None else schema_contract(schema, asserts_formats=way.asserts_formats)
    issues = () if contract is None else contract.issues(plain)
    if issues:
        first = issues[0]
        path = "".join(f"[{part!r}]" for part in first.path)
        raise ResolutionError(
            f"the value for {way.key!r} does not fit its schema: value{path}: {first.message}; the wait stays open",
            data={"key": way.key, "issues": [issue.to_wire() for issue in issues]},
        )
    return plain


def resolved_value(operation: Operation) -> Any:
    """Return the answer that closed a wait."""
    entry = operation.resolution
    assert entry is not None
    resolution = entry.to_wire().get("resolution") or {}
    return resolution.get("value")
