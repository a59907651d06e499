"""What a caller holds of a run: its result, its events, its waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic

from rulvar.contracts.events import Event
from rulvar.contracts.outcome import Outcome, Preview, RunStatus
from rulvar.contracts.type_variables import Value
from rulvar.engine.answers import answer_run
from rulvar.engine.bus import EventBus
from rulvar.engine.inspection import UnderWay, calls_under_way
from rulvar.engine.observed import ObservedEvent, observe_bus
from rulvar.errors import SupersededError

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine
    from rulvar.engine.run import Run
    from rulvar.engine.workflow import Workflow

__all__ = ["ResumeHandle", "RunHandle"]


class RunHandle(Generic[Value]):
    """One execution segment of a run, under way or settled."""

    def __init__(self, engine: Engine, run_id: str, bus: EventBus) -> None:
        self.run_id = run_id
        self._engine = engine
        self._bus = bus
        self._run: Run | None = None
        self._task: asyncio.Task[Outcome[Value]] | None = None
        self._end_asked: Callable[[Run], None] | None = None
        self._is_let_go = False
        self._status: RunStatus = "running"
        self._workflow: Workflow[Any] | None = None
        self._preview = Preview()

    @property
    def status(self) -> RunStatus:
        """``running``, or how the segment ended."""
        return self._status

    async def result(self) -> Outcome[Value]:
        """Return how the segment ended; awaiting again gives the same object.

        Raises:
            ConfigError, JournalCompatibilityError, JournalOrderViolation, RunNotFoundError: the run
                could not start. What goes wrong in a run is in the outcome and is never raised.
        """
        assert self._task is not None
        return await asyncio.shield(self._task)

    def __await__(self) -> Generator[Any, None, Outcome[Value]]:
        """``await run`` is ``await run.result()``."""
        return self.result().__await__()

    @property
    def events(self) -> AsyncIterator[Event]:
        """The complete stream of events from the first on, however late it is read."""
        return self._bus.stream()

    def observe(self, after: int = 0) -> AsyncIterator[ObservedEvent]:
        """Return what happened after the event of a number, then follow what happens, to the run's end.

        Works after the end too, and as often as asked. Stopping to iterate does not stop the run. Of more
        events than a run retains, the last ones are told, after an ``events:gap`` that says which are not.

        Raises:
            InvalidInputError: when it is iterated: ``after`` is no number of an event that has happened.
        """
        return observe_bus(self._bus, after, self._retention, self._run_end)

    def _retention(self) -> int:
        nodes = None if self._run is None else self._run.agents
        return int(nodes[0].limits.max_event_retention) if nodes else 256

    def _run_end(self) -> dict[str, Any]:
        return {
            "status": self._status,
            **({} if self._run is None else self._run.budget.snapshot().to_wire()),
        }

    @property
    def outcome(self) -> Awaitable[Outcome[Value]]:
        """How the segment ends, to be awaited; the same object each time."""
        return self.result()

    @property
    def exception(self) -> BaseException | None:
        """What was raised behind the run's error, for a debugger; None when nothing was."""
        failure = None if self._run is None else self._run.failure
        return failure if failure is None or failure.__cause__ is None else failure.__cause__

    def events_seen(self) -> list[Event]:
        """Return the events so far."""
        return self._bus.seen()

    def on(self, type_: str, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back for every event of a type from now on (``"*"``: any); return what stops it.

        A callback is called where the event happens, so it must not wait. One that raises is not called again,
        and the logger ``rulvar`` is told.

        Raises:
            ConfigError: the callback is no plain function.
        """
        return self._bus.subscribe(type_, callback)

    def under_way(self) -> tuple[UnderWay, ...]:
        """Return the calls that the run is making at this moment, the first begun first; may be asked from any thread."""
        live = self._run is not None and self._task is not None and not self._task.done()
        return calls_under_way(self._run) if live and self._run is not None else ()

    async def resolve_external(self, key: str, value: Any) -> None:
        """Answer an open wait.

        While the run is live its branch goes on. On a settled run the answer is journaled, and the
        next resume reads it: the settled segment is not restarted.

        Raises:
            ResolutionError: no open wait has that key, or the value is refused. Nothing is journaled then.
        """
        run = self._run
        if run is not None and self._task is not None and not self._task.done() and not run.suspended:
            await run.waits.resolve(key, value)
            return
        if self._task is not None:
            await asyncio.wait([self._task])
        among = [] if run is None else [way.entry_ref for way in run.pending()]
        await answer_run(self._engine, self.run_id, key, value, self._workflow, among)

    async def answer(self, key: str, value: Any = None) -> None:
        """Answer an open wait, or a wait transition of a state machine by its name."""
        await self.resolve_external(key, value)

    async def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the run and wait until it has settled; a settled run is left alone."""
        if self._task is None or self._task.done():
            return
        self._end_soon(lambda run: run.cancel(reason))
        await asyncio.wait([self._task])

    async def let_go(self, reason: str = "the process is going away") -> None:
        """Stop driving the run without ending it, and wait until it is free.

        What is under way is cancelled and journaled as nothing: to whoever resumes the run it looks as
        if this process had crashed, but the lease is free at once. A settled run is left alone.
        """
        if self._task is None or self._task.done():
            return
        self._is_let_go = True
        error = SupersededError(f"run {self.run_id!r} was let go: {reason}", data={"runId": self.run_id})
        self._end_soon(lambda run: run.lose(error))
        await asyncio.wait([self._task])

    def _end_soon(self, end: Callable[[Run], None]) -> None:
        if self._run is not None:
            end(self._run)
        elif self._end_asked is None:
            self._end_asked = end

    def _begin(self, run: Run) -> None:
        """The run is read and about to move; what was asked of it before happens now."""
        self._run = run
        if self._end_asked is not None:
            self._end_asked(run)


class ResumeHandle(RunHandle[Value]):
    """A resumed run: a handle that also tells what the journal served."""

    async def preview(self) -> Preview:
        """Return what was served from the journal and what was not, once the segment has ended."""
        await self.result()
        return self._preview
