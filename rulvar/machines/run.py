"""Driving a machine: choose a transition, run it in a scope of its own, commit; again until the end.

A commit is one journaled step. On a resume the commits that are there are applied and their bodies do
not run; a transition that had not been committed runs again, and its finished calls are served.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rulvar.contracts.jsonable import fragment, journal_form
from rulvar.contracts.ports.clock import recorded_ms
from rulvar.contracts.ports.provider import Served
from rulvar.engine.branch import Place
from rulvar.engine.calls import Claim
from rulvar.engine.run import Run
from rulvar.engine.workflow import Workflow
from rulvar.errors import RulvarError, TransitionError
from rulvar.kernel.scope import workflow_scope
from rulvar.machines.answer import Input, guard_holds
from rulvar.machines.attempt import TransitionAttempt
from rulvar.machines.children import Children
from rulvar.machines.commit import Commit
from rulvar.machines.definition import END, Definition, Transition
from rulvar.machines.document import DocumentType
from rulvar.machines.mentions import Mentions
from rulvar.machines.names import child_id
from rulvar.machines.park import Parks
from rulvar.machines.progress import Progress
from rulvar.machines.recovery import recovery_ways
from rulvar.tools.injection import Injected

__all__ = ["MachineRun"]

_TURNS = 64
"""After that many transitions others have a turn."""


class MachineRun:
    """One machine in one execution segment.

    Attributes:
        machine: the instance whose methods run.
        scope: where the machine stands in the journal; ``""`` is the run itself.
        run_id: the run's id, or the one derived for a child.
        path: what tells the keys of its parks from those of other machines in the run.
        launched: how many children of each workflow the commits so far have started.
    """

    def __init__(self, run: Run, definition: Definition, args: Any, mentions: Mentions) -> None:
        place = run.place()
        self.run = run
        self.definition = definition
        self.args = args
        self.scope = place.scope
        self.span = place.span
        self.run_id = run.run_id if not place.scope else child_id(run.run_id, "", place.scope)
        self.path = "" if not place.scope else self.run_id.removeprefix(f"{run.run_id}.") + "/"
        self.progress = Progress()
        self.machine = _instantiate(definition.machine, run)
        self.workflows: dict[str, Any] = {}
        self.launched: Counter[str] = Counter()
        self.parks = Parks(self)
        self.children = Children(self)
        self._mentions = mentions
        self._retry: tuple[Transition, Input | None] | None = None
        self.exception: BaseException | None = None

    def here(self) -> Place:
        """Return where the machine's own calls stand."""
        return self.run.place()

    def known_workflow(self, name: str) -> Workflow[Any] | None:
        """Return the workflow of that name that the machine has started or mentions."""
        return self.workflows.get(name) or self._mentions.workflow(name)

    def known_documents(self, name: str) -> DocumentType | None:
        """Return the document of that name that the machine can know."""
        return self._mentions.documents.get(name)

    async def drive(self) -> Any:
        """Run to the end and return the result.

        Raises:
            TransitionError: a transition failed for good, or until somebody answers.
        """
        cancelled, fired = False, 0
        try:
            while True:
                step = await self._next()
                if step is None:
                    break
                await self._fire(*step)
                fired += 1
                if fired % _TURNS == 0:  # bodies that never wait would shut out cancellation and timers
                    await asyncio.sleep(0)
            await self.children.settle()
            self.settled("completed")
            return self.progress.result
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            await asyncio.shield(self.children.close(cancel=cancelled))

    async def _next(self) -> tuple[Transition, Input | None] | None:
        """Return the transition to fire, with its input; None at the end."""
        progress = self.progress
        if progress.failure is not None:
            return await self._recover(progress.failure)
        if progress.place == END:
            return None
        retry, self._retry = self._retry, None
        if retry is not None and progress.place == retry[0].from_:
            return retry
        for item in self.definition.leaving.get(progress.place, ()):
            if not item.wait and guard_holds(self.definition, self.machine, item, progress.state):
                return item, None
        return await self.parks.wait(self.definition.waits_at(progress.place))

    async def _recover(self, failure: Commit) -> tuple[Transition, Input | None]:
        """Return how a failed machine goes on: somebody has answered; otherwise the run ends failed."""
        ways = () if self.scope else recovery_ways(self.definition, failure)
        answer = await self.parks.find(ways, "failed") if ways else None
        if answer is not None:
            chosen, given = answer
            return chosen, given if chosen.wait else None
        await self.children.settle()
        self.settled("failed", [item.name for item in ways])
        assert failure.error is not None
        error = dict(failure.error)
        raise TransitionError(
            str(error.get("message", "")),
            code=str(error.get("code", "error")),
            run_status=str(error.pop("runStatus", "error")),
            data={
                **(error.get("data") or {}),
                "transition": failure.transition,
                "place": failure.to,
                "availableTransitions": [item.name for item in ways],
            },
        ) from self.exception

    def settled(self, status: str, available: Sequence[str] | None = None) -> None:
        """Tell listeners that the machine parks or ends."""
        facts: dict[str, Any] = {
            "workflow": self.definition.name,
            "status": status,
            "place": self.progress.place,
        }
        if available is not None:
            facts["availableTransitions"] = list(available)
        self.run.bus.emit("run:settled", self.span, None, facts)

    # -- firing --------------------------------------------------------------------------

    async def _fire(self, item: Transition, given: Input | None) -> None:
        run, place = self.run, self.here()
        segment = f"{self.definition.name}.{item.name}"
        scope = workflow_scope(self.scope, segment, run.next_site(self.scope, f"wf:{segment}"))
        claim = run.claim(place, item.call)
        if run.observe:
            served = Served(how="journal" if claim.action in ("replay", "skip") else "live")
            run.observe.call("step", place.scope, item.call.key, served, item.site, label=item.name)
        if claim.operation is not None and claim.action in ("replay", "skip"):
            run.accounting.served_scopes.append(scope)
            self._replay(item, given, claim)
            return
        await self.children.start()
        if claim.action == "live":
            await self._pause()
        await self._run_live(item, given, claim, scope)

    def _replay(self, item: Transition, given: Input | None, claim: Claim) -> None:
        assert claim.operation is not None
        terminal = claim.operation.terminal
        wire = {} if terminal is None else terminal.to_wire()
        value = wire.get("value") or {"transition": item.name, "from": item.from_, "to": item.to}
        ended_ms = recorded_ms(wire, "endedAt")
        self._take(item, given, Commit.from_wire(value), ended_ms, replayed=True)

    async def _run_live(self, item: Transition, given: Input | None, claim: Claim, scope: str) -> None:
        run, place = self.run, self.here()
        attempt = TransitionAttempt(self, item, given, scope)
        value: dict[str, Any] = {"transition": item.name, "from": item.from_, "to": item.to, "scope": scope}
        if attempt.number:
            value["attempt"] = attempt.number
        skips = given is not None and given.has_error and not item.takes_failures
        if skips:
            value["skipped"] = True
        opened = await run.begin(
            place, "step", item.call.key, run.next_span(), claim, item.name, {"value": value}
        )
        facts = {"transition": item.name, "from": item.from_, "to": item.to, "attempt": attempt.number}
        if not skips:
            run.bus.emit("transition:start", opened.span, place.span, facts)
        try:
            if skips:
                assert given is not None
                commit = attempt.failed(
                    RulvarError(given.message or f"the child {given.status}"), skipped=True
                )
            else:
                commit = await attempt.execute(place)
        except asyncio.CancelledError:
            await asyncio.shield(run.finish(opened, "cancelled", {}))
            if attempt.unknown is not None:
                raise attempt.unknown from None
            raise
        data = journal_form(
            commit.to_wire(), f"transition {item.name!r} of {self.definition.machine.__name__}"
        )
        await run.finish(opened, "ok", {"value": fragment(data)})
        self.exception = attempt.exception
        self._take(item, given, commit, run.clock.now_ms(), replayed=False)
        if attempt.stopped is not None:
            raise attempt.stopped

    def _take(
        self, item: Transition, given: Input | None, commit: Commit, ended_ms: int, *, replayed: bool
    ) -> None:
        """Go on by a commit, just made or served."""
        self.launched.update(launch.workflow for launch in commit.children)
        self.progress.apply(commit, ended_ms)
        self.children.add(commit.children)
        if commit.will_retry and item.retry.target is None:
            self._retry = (item, given)
        facts: dict[str, Any] = {"transition": item.name, "to": commit.to, "attempt": commit.attempt}
        if commit.error is not None:
            facts["error"] = dict(commit.error)
            facts["willRetry"] = commit.will_retry
        name = "transition:end" if commit.error is None else "transition:error"
        self.run.bus.emit(name, self.span, None, facts, replayed)
        for launch in commit.children:
            queued = {"workflow": launch.workflow, "scope": launch.scope, "transition": item.name}
            self.run.bus.emit("child:queued", self.span, None, queued, replayed)

    async def _pause(self) -> None:
        """Wait until the next attempt of what has failed is due."""
        last = self.progress.last
        if last is not None and last.retry_ms:
            left = last.retry_ms - self.run.clock.now_ms()
            if left > 0:
                await self.run.clock.sleep(left / 1000)


def _instantiate(machine: type, run: Run) -> Any:
    """Return an instance whose ``inject(...)`` attributes are provided."""
    instance = machine()
    for kind in reversed(machine.__mro__):
        for name, value in vars(kind).items():
            if isinstance(value, Injected):
                object.__setattr__(instance, name, run.engine.providers.provide(value.token))
    return instance
