"""Parks: a machine waits at a place until one of its wait transitions is answered.

A park is one journaled suspension with one way out per wait transition. Guard and payload are asked
before an answer is journaled, so a refused answer leaves no trace; the first accepted one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.provider import Served
from rulvar.engine.calls import Call
from rulvar.engine.primitives.external import suspend_entry
from rulvar.engine.waits import resolution_wire, resolved_value
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import Operation
from rulvar.machines.answer import Input, admit, answer_of, guard_holds, payload_problem
from rulvar.machines.definition import Transition

if TYPE_CHECKING:
    from rulvar.machines.run import MachineRun

__all__ = ["Parks"]


class Parks:
    """The parks of one machine.

    Attributes:
        open_seq: the suspension that is open now, and may be resolved; None between parks.
    """

    def __init__(self, driver: MachineRun) -> None:
        self._driver = driver
        self._visits: dict[str, int] = {}
        self.open_seq: int | None = None
        self.ways: Sequence[Transition] = ()

    def next_key(self, place: str) -> str:
        """Return the key of the next park at a place."""
        visit = self._visits.get(place, 0)
        self._visits[place] = visit + 1
        return f"{self._driver.path}{place}#{visit}"

    async def wait(self, ways: Sequence[Transition], status: str = "waiting") -> tuple[Transition, Input]:
        """Park until one of the ways is taken, and return it with the answer."""
        driver = self._driver
        key = self.next_key(driver.progress.place)
        while True:
            operation = await self._suspension(key, ways, status)
            if operation.resolution is None:
                await driver.children.start()
                resolution = await self._answered(operation, ways)
            else:
                resolution = resolved_value(operation)
            accepted = self._accepted(operation, resolution, ways)
            if accepted is not None:
                return accepted

    async def find(self, ways: Sequence[Transition], status: str) -> tuple[Transition, Input] | None:
        """Open a park that a failed run leaves behind, and return the answer it was given, if any."""
        key = self.next_key(self._driver.progress.place)
        while True:
            operation = await self._suspension(key, ways, status)
            if operation.resolution is None:
                return None
            accepted = self._accepted(operation, resolved_value(operation), ways)
            if accepted is not None:
                return accepted

    async def _suspension(self, key: str, ways: Sequence[Transition], status: str) -> Operation:
        driver = self._driver
        run, place = driver.run, driver.here()
        identity = {"kind": "external", "key": key}
        hashed = content_key(identity)
        assert hashed is not None
        transitions = {item.name: None if item.payload is None else item.payload.json for item in ways}
        claim = run.claim(place, Call(identity, hashed, key))
        outdated = _outdated(claim.operation, transitions)
        if outdated is not None:
            claim = run.claim(place, Call(identity, hashed, key))
        served = Served(how="live" if claim.operation is None else "journal")
        run.observe.call("external", place.scope, hashed, served, None, label=key)
        if claim.operation is not None:
            if claim.operation.resolution is None:
                self._announce(key, claim.operation.first.seq, ways, status)
            return claim.operation
        await driver.children.start()
        if outdated is not None:
            await self._replace(outdated)
        value: dict[str, Any] = {
            "key": key,
            "place": driver.progress.place,
            "status": status,
            "transitions": transitions,
        }
        entry = await suspend_entry(run, place, "external", place.scope, hashed, value)
        self._announce(key, entry.seq, ways, status)
        if status == "waiting":
            driver.settled(status, list(transitions))
        return Operation(entry)

    async def _replace(self, outdated: JournalEntry) -> None:
        """Close a park that offers what the class does not any more: the next one takes its place."""
        run, value = self._driver.run, {"superseded": True}
        wire = resolution_wire(
            outdated.seq, outdated.scope, outdated.span_id, value, run.now_iso(), by="machine"
        )
        await run.journal.append(wire)

    def _announce(self, key: str, seq: int, ways: Sequence[Transition], status: str) -> None:
        driver = self._driver
        facts = {"key": key, "entryRef": seq, "transitions": [item.name for item in ways], "status": status}
        driver.run.bus.emit("external:waiting", driver.run.root.span, None, facts)
        if not ways:
            text = f"{driver.definition.name!r} waits at {driver.progress.place!r}, and nothing can answer it"
            driver.run.log("warn", text, None)

    async def _answered(self, operation: Operation, ways: Sequence[Transition]) -> Mapping[str, Any]:
        driver = self._driver
        progress = driver.progress

        def check(way: Any, value: Any) -> Any:
            return admit(driver.definition, driver.machine, progress.place, progress.state, way, value)

        run, branch, seq = driver.run, driver.here().branch, operation.first.seq
        wait = run.waits.open(operation.first, check, is_told=True)
        self.ways, self.open_seq = ways, seq
        try:
            await driver.children.deliver()
            await self._rest(ways)
            branch.waiting(1)
            try:
                resolution: Mapping[str, Any] = await wait.future
            finally:
                branch.waiting(-1)
            return resolution
        finally:
            self.open_seq = None
            if not run.suspended:
                run.waits.close(seq)

    async def _rest(self, ways: Sequence[Transition]) -> None:
        """Fire what fires at rest, once every child has ended or waits, and no end of one is taken."""
        driver = self._driver
        name = driver.definition.at_rest
        if self.open_seq is None or not any(item.name == name for item in ways):
            return
        await driver.children.settle()
        await driver.children.deliver()
        if (seq := self.open_seq) is not None:
            self.open_seq = None
            resolution = {"transition": name, "status": "completed", "data": None, "checked": True}
            await driver.run.waits.settle(seq, resolution, by="machine")

    def _accepted(
        self, operation: Operation, resolution: Any, ways: Sequence[Transition]
    ) -> tuple[Transition, Input] | None:
        """Return what a resolution means; one that nobody checked is checked now, and may be no answer."""
        driver = self._driver
        facts = resolution if isinstance(resolution, Mapping) else {}
        child = facts.get("child")
        if isinstance(child, str):
            driver.children.consumed.add(child)
        chosen = next((item for item in ways if item.name == facts.get("transition")), None)
        if chosen is not None and (facts.get("checked") or self._holds(chosen, facts)):
            return chosen, answer_of(chosen, facts)
        if operation.resolution is not None and not facts.get("superseded"):
            driver.run.accounting.invalid_resolutions.append(operation.resolution.seq)
        return None

    def _holds(self, chosen: Transition, facts: Mapping[str, Any]) -> bool:
        driver = self._driver
        if not guard_holds(driver.definition, driver.machine, chosen, driver.progress.state):
            return False
        return facts.get("status") != "completed" or payload_problem(chosen, facts.get("data")) is None


def _outdated(operation: Operation | None, transitions: Mapping[str, Any]) -> JournalEntry | None:
    """Return the entry of an open park that offers something else than the class does now."""
    if operation is None or operation.resolution is not None:
        return None
    value = operation.first.value
    offered = value.get("transitions") if isinstance(value, dict) else None
    return None if offered == transitions else operation.first
