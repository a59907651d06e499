"""One execution segment of a run: the workflow body against the journal.

The body runs from the top. Every call it makes is matched against the journal first; what is there
is served, what is not is done and journaled. The segment ends when the body returns or raises, when
every branch waits for an external answer, when the run is cancelled, or when a strict replay would
have gone live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.outcome import Dropped, Pending, Preview
from rulvar.contracts.ports.clock import iso_ms
from rulvar.contracts.ports.observer import CallSite
from rulvar.contracts.usage import ZERO_USAGE
from rulvar.engine.branch import CURRENT_PLACE, Branch, Liveness, Place
from rulvar.engine.budget import Budget
from rulvar.engine.bus import EventBus
from rulvar.engine.calls import Accounting, Call, Claim, Opened, RunRequest
from rulvar.engine.divergence import would_go_live
from rulvar.engine.invalidation import journal_invalidation
from rulvar.engine.journal import JournalWriter
from rulvar.engine.lease import HeldRun
from rulvar.engine.models import RunModels
from rulvar.engine.observation import Observation
from rulvar.engine.spend import Spend
from rulvar.engine.waits import Waits
from rulvar.errors import ConfigError, ReplayStopped, RulvarError, RunSuspended, TransitionAborted
from rulvar.kernel.disposition import Disposition
from rulvar.kernel.keys import content_key
from rulvar.kernel.matching import SEGMENT_BITS, JournalIndex, Operation
from rulvar.tools.grants import narrow_grants

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.guard import Watch

__all__ = ["Run"]

Body = TypeVar("Body", bound=Awaitable[Any])

_AFTER_CANCEL = ("step", "rand")
"""What a cancelled run may still do live, so that it can tidy up; it starts nothing that is paid or waits."""


class Run:
    """The state of one execution segment, and what every primitive needs of it."""

    def __init__(
        self,
        engine: Engine,
        request: RunRequest,
        entries: list[JournalEntry],
        segment: int,
        bus: EventBus,
        held: HeldRun,
        ceiling_usd: float | None = None,
    ) -> None:
        self.engine = engine
        self.request = request
        self.run_id = request.run_id
        self.strict = request.strict
        self.segment = segment
        self.bus = bus
        self.clock = engine.clock
        self.index = JournalIndex(entries, request.invalidate)
        self.observe = Observation(self, engine.observers)
        self.journal = JournalWriter(
            held,
            request.run_id,
            self.index.next_seq,
            broken=self.lose,
            tap=self.observe.keep if self.observe.keeps_segments else None,
        )
        self.transcript_store = held.transcripts
        self.stores_at_once = held.stores_at_once
        self.models = RunModels(engine, request.workflow.adapters)
        self.agents: Any = None
        """What the agents of the run share; see ``rulvar.agents``."""
        self.spend = Spend(self.models.price_of)
        for entry in entries:
            self.spend.add_entry(entry, abandoned=self.index.is_abandoned(entry.ref))
            if self.observe.keeps_segments:
                self.observe.keep(entry)
        self.budget = Budget(self, ceiling_usd)
        self.transcripts = sum(1 for entry in entries if b'"transcriptRef"' in entry.line)
        self.accounting = Accounting()
        self.dropped: list[Dropped] = []
        self.divergence: dict[str, Any] | None = None
        self.divergence_site: CallSite | None = None
        self.stop_error: RulvarError | None = None
        self.failure: BaseException | None = None
        self.tracing = request.trace
        self.cancel_reason: str | None = None
        self._task: asyncio.Task[Any] | None = None
        self.suspended = False
        self.is_over = False
        self._thread = get_ident()
        self.watch: Watch | None = None
        self.sites: dict[tuple[str, str], int] = {}
        self.opened: dict[str, Opened] = {}
        """What is under way, by span."""
        self.waits = Waits(self)
        self.liveness = Liveness(self.suspend_when_still)
        self._base = segment << SEGMENT_BITS
        self._spans = 0
        self.root = Place(
            run=self,
            branch=Branch(self.liveness),
            scope="",
            span=self.next_span(),
            workflow=request.workflow,
            grants=narrow_grants(engine.grants, request.workflow.grants),
        )

    # -- where a call stands -------------------------------------------------------------

    def place(self) -> Place:
        """Return where the current call stands.

        Raises:
            RunSuspended, ReplayStopped, TransitionAborted: what calls is over and has to unwind.
            ConfigError: a journaling call inside a step, or in another thread.
        """
        if get_ident() != self._thread:
            raise ConfigError(
                "ctx was called in another thread; it belongs to the thread of the run's event loop: do the work in "
                "the thread, and call ctx with its result"
            )
        place = CURRENT_PLACE.get()
        if place is None or place.run is not self:
            if place is not None and self.is_over:
                raise ConfigError(
                    f"ctx of run {self.run_id!r}, which is over, was called in run {place.run.run_id!r}: call the ctx that the body is given"
                )
            place = self.root
        if self.suspended or place.branch.is_closed:
            raise RunSuspended
        if self.stop_error is not None:
            raise ReplayStopped(self.stop_error)
        if place.attempt is not None and place.attempt.is_over:
            raise TransitionAborted(f"transition {place.attempt.transition!r} is over: it was rolled back")
        if self.is_over:
            raise RunSuspended
        if place.step is not None:
            raise ConfigError(
                f"ctx was called inside ctx.step({place.step!r}); a step's body is served as a whole, so a "
                "journaled call in it would be lost on replay: move the call out of the step",
                data={"step": place.step},
            )
        return place

    def next_span(self) -> str:
        """Return a new span id."""
        span = f"s{self._base + self._spans}"
        self._spans += 1
        return span

    def next_site(self, scope: str, what: str) -> int:
        """Count the calls of a kind in a scope, in execution order."""
        place = (scope, what)
        number = self.sites.get(place, 0)
        self.sites[place] = number + 1
        return number

    def now_iso(self) -> str:
        """Return the time that entries carry."""
        return iso_ms(self.clock.now_ms())

    # -- matching ------------------------------------------------------------------------

    def claim(self, place: Place, call: Call) -> Claim:
        """Match a call against the journal, count it, and say what to do.

        Raises:
            ReplayStopped: a strict replay would have gone live.
        """
        index = self.index
        older = content_key(call.identity, 1) if index.has_v1 else None
        operation = None
        if call.mode == "never":
            index.set_aside(place.scope, call.key)
        else:
            operation = index.take(place.scope, call.key, older)
            if operation is None and call.mode == "cache":
                operation = index.take_anywhere(call.key, older)
        if operation is None:
            self.accounting.misses += 1
            return self.not_served("live", None, place, call)
        if index.is_skipped(operation):
            self.accounting.skipped += 1
            self.observe.claimed(place.scope, call, "skip")
            return Claim("skip", operation)
        waits = operation.first.kind in ("external", "approval")
        if waits or index.disposition(operation) is Disposition.REPLAY:
            self.accounting.hits += 1
            self.observe.claimed(place.scope, call, "replay")
            return Claim("replay", operation)
        self.accounting.reruns += 1
        if self.strict and index.waits_below(operation):
            self.observe.claimed(place.scope, call, "rerun")
            return Claim("wait", operation)
        claim = self.not_served("rerun", operation, place, call)
        if index.is_first_rerun(operation):
            journal_invalidation(self, place, operation)
        return claim

    def not_served(
        self, action: Literal["live", "rerun"], operation: Operation | None, place: Place, call: Call
    ) -> Claim:
        """Say what to do with a call that the journal does not serve; see :meth:`claim`."""
        self.observe.claimed(place.scope, call, action)
        if not self.strict:
            if self.cancel_reason is not None and call.identity["kind"] not in _AFTER_CANCEL:
                # a body that swallowed the cancellation may tidy up, and start nothing new
                raise asyncio.CancelledError(self.cancel_reason)
            return Claim(action, operation)
        error, self.divergence = would_go_live(self.index, place.scope, call, action, operation)
        self.divergence_site = call.site
        self.stop(error)
        raise ReplayStopped(error)

    def stop(self, error: RulvarError) -> None:
        """End the segment with an error that no body may catch."""
        if self.stop_error is None:
            self.stop_error = error

    def lose(self, error: RulvarError) -> None:
        """End the segment because nothing it does can be journaled any more; what is under way is cancelled."""
        self.stop(error)
        self.journal.refuse(error)
        if self._task is not None:
            self._task.cancel()

    # -- entries -------------------------------------------------------------------------

    async def begin(
        self,
        place: Place,
        kind: str,
        key: str,
        span: str,
        claim: Claim,
        name: str,
        extra: Mapping[str, Any] | None = None,
    ) -> Opened:
        """Journal that an operation starts; a dangling one is taken up where it stands. Watchers see its name."""
        operation, began = claim.operation, self.clock.now_ms()
        if claim.action == "rerun" and operation is not None and operation.terminal is None:
            at, started = operation.first, str(operation.first.to_wire().get("startedAt", ""))
            opened = Opened(at.seq, at.scope, at.key, at.ordinal, kind, at.span_id, started)
            opened.hash_version = at.hash_version
        else:
            ordinal = self.index.next_ordinal(place.scope, key)
            opened = Opened(-1, place.scope, key, ordinal, kind, span, iso_ms(began))
        opened.name, opened.began_ms, opened.task = name, began, asyncio.current_task()
        self.opened[opened.span] = opened
        if opened.seq >= 0:
            return opened
        wire = {
            "scope": opened.scope,
            "key": key,
            "ordinal": opened.ordinal,
            "kind": kind,
            "status": "running",
            "spanId": span,
            "startedAt": opened.started_at,
            **(extra or {}),
        }

        def cancelled(seq: int) -> dict[str, Any]:
            opened.seq = seq
            fields = {"usage": ZERO_USAGE.to_wire()} if kind == "agent" else {}
            return self.terminal(opened, "cancelled", fields)

        opened.seq = await self.journal.open(wire, cancelled)
        return opened

    async def finish(self, opened: Opened, status: str, fields: Mapping[str, Any]) -> int:
        """Journal how an operation ended, and return the entry's seq."""
        return await self.journal.append(self.terminal(opened, status, fields))

    def terminal(self, opened: Opened, status: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the terminal entry of an operation."""
        self.opened.pop(opened.span, None)
        return {
            "hashVersion": opened.hash_version,
            "ref": opened.seq,
            "scope": opened.scope,
            "key": opened.key,
            "ordinal": opened.ordinal,
            "kind": opened.kind,
            "status": status,
            "spanId": opened.span,
            "startedAt": opened.started_at,
            "endedAt": self.now_iso(),
            **fields,
        }

    async def decide(self, scope: str, key: str, span: str, value: Mapping[str, Any]) -> int:
        """Journal a decision before its effect."""
        return await self.journal.append(self._single("decision", scope, key, span, value))

    def decide_soon(self, scope: str, key: str, span: str, value: Mapping[str, Any]) -> int:
        """Journal a decision without waiting; see ``JournalWriter.append_soon``."""
        return self.journal.append_soon(self._single("decision", scope, key, span, value))

    def single(self, kind: str, place: Place, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a one-entry operation at a place."""
        return self._single(kind, place.scope, key, place.span, value)

    def _single(self, kind: str, scope: str, key: str, span: str, value: Mapping[str, Any]) -> dict[str, Any]:
        now = self.now_iso()
        return {
            "scope": scope,
            "key": key,
            "ordinal": self.index.next_ordinal(scope, key),
            "kind": kind,
            "status": "ok",
            "spanId": span,
            "startedAt": now,
            "value": value,
            "endedAt": now,
        }

    # -- the end -------------------------------------------------------------------------

    async def drive(self, body: Any) -> Any:
        """Run the body in a task of its own, so that it can be cancelled apart from the segment."""
        task: asyncio.Task[Any] = asyncio.ensure_future(body)
        self._task = task
        if self.cancel_reason is not None or self.stop_error is not None:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if not task.done():  # the segment itself was cancelled from outside
                task.cancel()
                await asyncio.wait([task])
            raise
        finally:
            self.root.branch.end()

    def inside(self, body: Body) -> Body:
        """Return what runs workflow code, in view of the determinism guard where that is on."""
        return body if self.watch is None else cast(Body, self.watch.inside(body))

    def watch_deadline(self) -> asyncio.TimerHandle | None:
        """Cancel the run when its deadline comes; return the timer."""
        deadline = self.request.deadline_ms
        if deadline is None:
            return None
        delay = max(0, deadline - self.clock.now_ms()) / 1000
        return asyncio.get_running_loop().call_later(delay, self.cancel, "the deadline has passed")

    def cancel(self, reason: str) -> None:
        """Cancel the body; calls under way are journaled as cancelled."""
        if self.cancel_reason is None:
            self.cancel_reason = reason
            if self._task is not None:
                self._task.cancel()

    def log(self, level: str, msg: str, data: Any) -> None:
        """Emit a log event at the current place."""
        place = CURRENT_PLACE.get()
        place = place if place is not None and place.run is self else self.root
        facts = {"level": level, "msg": msg, **({} if data is None else {"data": data})}
        self.bus.emit("log", place.span, place.around, facts)

    def suspend_when_still(self) -> None:
        """Suspend the run if nothing in it moves, once what was woken a moment ago has."""
        if self.liveness.moving == 0 and self.waits.are_open:
            asyncio.get_running_loop().call_soon(self._suspend_if_still)

    def _suspend_if_still(self) -> None:
        if self.liveness.moving == 0 and self.waits.are_open and not self.suspended:
            self.suspended = True
            self.waits.unwind()

    def pending(self) -> tuple[Pending, ...]:
        """Return the waits that are open, in journal order."""
        return self.waits.pending()

    def preview(self) -> Preview:
        """Return the segment's accounting."""
        counts = self.accounting
        orphans, given_up = self.index.orphans(counts.served_scopes)
        return Preview(
            hits=counts.hits,
            misses=counts.misses,
            reruns=counts.reruns,
            skipped=counts.skipped + len(given_up),
            orphaned=tuple(operation.first.seq for operation in orphans),
            invalid_resolutions=(*self.index.closings.refused, *counts.invalid_resolutions),
        )
