"""Runs of workers that have fallen silent, put back for others.

Two looks: at the queue, for jobs whose worker sends no sign of life; and at the store, for runs that are
recorded as running and that nobody holds. The second finds what the first cannot: a worker that was only
stopped may end, when it wakes up, a job that another worker drives by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from rulvar.workers.queue import TASK, ProcrastinateQueue, is_outrun, is_passing
from rulvar.workers.stats import WorkerStats

if TYPE_CHECKING:
    from procrastinate import App

    from rulvar.engine.engine import Engine

__all__ = ["Adoption"]

_LOG = logging.getLogger("rulvar.workers")
_PATIENCE = 4
_MOST_REMEMBERED = 10_000


class Adoption:
    """Looks for runs without an owner, a few times per lease time."""

    def __init__(self, engine: Engine, queue: ProcrastinateQueue, stats: WorkerStats) -> None:
        self._engine = engine
        self._queue = queue
        self._stats = stats
        self._ttl = engine.lease_ttl_s
        self._not_before: dict[str, tuple[float, float]] = {}

    async def watch(self, app: App) -> None:
        """Look again and again, for ever; what goes wrong is tried again."""
        while True:
            try:
                await self.look(app)
            except Exception as error:
                if not is_passing(error):
                    _LOG.exception("looking for runs to adopt failed")
            await asyncio.sleep(self._ttl / 3)

    async def look(self, app: App) -> None:
        """Look once."""
        await self._put_back_jobs(app)
        await self._put_back_runs()

    async def _put_back_jobs(self, app: App) -> None:
        stalled = await app.job_manager.get_stalled_jobs(
            queue=self._queue.name, task_name=TASK, seconds_since_heartbeat=self._ttl
        )
        for job in stalled:
            try:
                await app.job_manager.retry_job(job)
            except Exception as error:
                if is_outrun(error):
                    continue  # another worker was faster, or the job has ended meanwhile
                raise
            self._stats.adopted += 1
            run_id = job.task_kwargs.get("run_id")
            _LOG.warning("run %s is adopted: its worker has fallen silent", run_id)

    async def _put_back_runs(self) -> None:
        look = getattr(self._engine.store, "orphaned_runs", None)
        if look is None:
            return
        now = time.monotonic()
        for run_id in await look():
            again, pause = self._not_before.get(run_id, (0.0, self._ttl * _PATIENCE))
            if now < again:
                continue
            # one that cannot be driven (its workflow is gone) is not tried for ever at the same pace
            self._not_before[run_id] = (now + pause, pause * 2)
            if again:
                self._stats.adopted += 1
                _LOG.warning("run %s is adopted: nobody drives it", run_id)
                await self._queue.adopt(run_id)
        if len(self._not_before) > _MOST_REMEMBERED:
            self._not_before.clear()
