"""A worker: takes runs from the queue and drives them on its engine, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rulvar.contracts.outcome import Outcome
from rulvar.errors import ConfigError, RulvarError
from rulvar.workers.adoption import Adoption
from rulvar.workers.driving import drive, pause_before_retry
from rulvar.workers.queue import TASK, ProcrastinateQueue, cause_of, is_passing
from rulvar.workers.stats import WorkerStats

if TYPE_CHECKING:
    from procrastinate import App, JobContext
    from procrastinate.worker import Worker as ServingWorker

    from rulvar.engine.engine import Engine

__all__ = ["Worker"]

_LOG = logging.getLogger("rulvar.workers")
_RESTART_PAUSE_S = 0.5
_LONGEST_RESTART_PAUSE_S = 10.0
_TELL_AGAIN_S = 0.1

OnOutcome = Callable[[str, Outcome], None]


class Worker:
    """Drives runs of one queue.

    Args:
        engine: knows the workflows, adapters and the store; its ``lease_ttl_s`` is also for how long a
            worker may be silent before others take its runs over.
        queue: where runs come from; the engine's own unless given.
        concurrency: how many runs are driven at once.
        drain_s: for how long runs may go on after ``stop``; those that still run then are let go, and
            taken up by another worker where they stand.
        max_interruptions: a run that has broken off so often in a row at the same place, its process killed or gone
            silent each time, is recorded as failed instead of being taken up once more; None never gives up.
        on_outcome: called with a run's id and outcome when a segment has ended.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(
        self,
        engine: Engine,
        queue: ProcrastinateQueue | None = None,
        *,
        concurrency: int = 10,
        drain_s: float = 30.0,
        max_interruptions: int | None = 5,
        on_outcome: OnOutcome | None = None,
    ) -> None:
        chosen = queue if queue is not None else engine.queue
        if not isinstance(chosen, ProcrastinateQueue):
            raise ConfigError(
                "queue: a worker serves a ProcrastinateQueue; give the engine one, or pass it",
                data={"field": "queue"},
            )
        _check_count(concurrency, "concurrency")
        if max_interruptions is not None:
            _check_count(max_interruptions, "max_interruptions")
        if isinstance(drain_s, bool) or not isinstance(drain_s, (int, float)) or not drain_s >= 0:
            raise ConfigError(f"drain_s={drain_s!r}: expected a number of seconds", data={"field": "drain_s"})
        self.engine = engine
        self.queue = chosen
        self.concurrency = concurrency
        self.drain_s = drain_s
        self.max_interruptions = max_interruptions
        self.stats = WorkerStats()
        self._on_outcome = on_outcome
        self._stopping = asyncio.Event()
        self._driving: dict[asyncio.Task[Any], int | None] = {}

    async def run(self, *, until_idle: bool = False, handle_signals: bool = False) -> None:
        """Serve the queue until ``stop`` is called.

        Args:
            until_idle: return once nothing is left to do that is due.
            handle_signals: SIGTERM and SIGINT stop the worker; a second one lets its runs go at once.
        """
        try:
            with self._signals() if handle_signals else contextlib.nullcontext():
                await self._run(until_idle)
        finally:
            self._stopping.clear()  # not before: it may be told to stop before it has begun

    async def _run(self, until_idle: bool) -> None:
        pause = _RESTART_PAUSE_S
        while not self._stopping.is_set():
            try:
                await self._serve(until_idle)
                pause = _RESTART_PAUSE_S
                if until_idle:
                    return
            except Exception as error:
                if not is_passing(error):
                    raise
                _LOG.warning("out of reach, trying again: %s", cause_of(error))
            if not self._stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
                pause = min(pause * 2, _LONGEST_RESTART_PAUSE_S)

    def stop(self, *, now: bool = False) -> None:
        """Take no more runs; ``now`` lets those under way go instead of waiting ``drain_s`` for them."""
        self._stopping.set()
        if now:
            for task in list(self._driving):
                task.cancel()

    async def _serve(self, until_idle: bool) -> None:
        """Serve with one procrastinate worker until it stops, by itself or because it was told to."""
        async with self.queue.serving() as app:
            await self._serve_on(app, until_idle)

    async def _serve_on(self, app: App, until_idle: bool) -> None:
        from procrastinate.worker import Worker as ServingWorker

        self._register(app)
        ttl = self.engine.lease_ttl_s
        adopting = Adoption(self.engine, self.queue, self.stats)
        if until_idle:
            # what a dead worker has left is to be done too, and there may be no time later
            await adopting.look(app)
        server = ServingWorker(
            app,
            queues=[self.queue.name],
            name=self.engine.owner,
            concurrency=self.concurrency,
            wait=not until_idle,
            fetch_job_polling_interval=min(1.0, ttl / 3),
            abort_job_polling_interval=min(5.0, ttl),
            shutdown_graceful_timeout=self.drain_s,
            install_signal_handlers=False,
            update_heartbeat_interval=ttl / 3,
            stalled_worker_timeout=ttl,
            delete_jobs="successful",
        )
        serving = asyncio.create_task(server.run())  # type: ignore[no-untyped-call]
        others = [
            asyncio.create_task(self._tell(server)),
            asyncio.create_task(adopting.watch(app)),
            asyncio.create_task(self._beat(app)),
        ]
        try:
            await asyncio.wait([serving])
        finally:
            while not serving.done():  # we were cancelled: it drains all the same
                server.stop()  # type: ignore[no-untyped-call]
                await asyncio.wait([serving], timeout=_TELL_AGAIN_S)
            for task in others:
                await _end(task)
        serving.result()

    async def _tell(self, server: ServingWorker) -> None:
        """Pass on that it is to stop; again and again, because what comes while it starts is not heard."""
        await self._stopping.wait()
        while True:
            server.stop()  # type: ignore[no-untyped-call]
            await asyncio.sleep(_TELL_AGAIN_S)

    async def _beat(self, app: App) -> None:
        """Give a sign of life as long as runs are driven: procrastinate's own ends when the drain begins."""
        while True:
            await asyncio.sleep(self.engine.lease_ttl_s / 3)
            for number in {number for number in self._driving.values() if number is not None}:
                try:
                    await app.job_manager.update_heartbeat(number)
                except Exception as error:
                    if not is_passing(error):
                        _LOG.exception("a sign of life could not be given")

    def _register(self, app: App) -> None:
        from procrastinate import BaseRetryStrategy, RetryDecision
        from procrastinate.jobs import Job

        stats = self.stats

        class Again(BaseRetryStrategy):
            def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
                pause = pause_before_retry(exception, job.attempts)
                if pause is None:
                    return None
                stats.retried += 1
                at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=pause)
                return RetryDecision(retry_at=at)

        app.task(name=TASK, queue=self.queue.name, retry=Again(), pass_context=True)(self._job)

    async def _job(self, context: JobContext, /, run_id: str, **payload: Any) -> None:
        from procrastinate.job_context import AbortReason

        def is_unwanted() -> bool:
            return context.abort_reason() is AbortReason.USER_REQUEST

        task = asyncio.current_task()
        assert task is not None
        self._driving[task] = context.job.worker_id
        try:
            job = await self.queue.opened({"run_id": run_id, **payload})
            outcome = await drive(
                self.engine,
                run_id,
                job.get("submission"),
                job.get("answer"),
                is_wanted_again=bool(job.get("again")),
                is_unwanted=is_unwanted,
                max_interruptions=self.max_interruptions,
            )
        except Exception as error:
            if not (isinstance(error, RulvarError) and error.retryable):
                self.stats.failed += 1
                _LOG.error("run %s cannot be driven: %s", run_id, error)
            raise
        finally:
            del self._driving[task]
        if outcome is None:
            return
        self.stats.driven += 1
        if outcome.status == "suspended":
            self.stats.suspended += 1
        if self._on_outcome is not None:
            self._on_outcome(run_id, outcome)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.stop(now=self._stopping.is_set())

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _check_count(value: object, field: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{field}={value!r}: expected an integer from 1 up", data={"field": field})


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended: a database driver that is answered at that very moment may not notice."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_TELL_AGAIN_S)
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
