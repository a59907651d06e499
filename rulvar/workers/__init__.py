"""Runs on many machines: a queue in PostgreSQL, workers that drive runs, limits that hold for all of them.

The queue is procrastinate's; this package says what its jobs do. Nothing here is loaded by ``import rulvar``.
"""

from typing import TYPE_CHECKING

from rulvar.lazy_names import lazy_names

if TYPE_CHECKING:
    from rulvar.workers.limits import CallLimit as CallLimit
    from rulvar.workers.limits import PostgresLimiter as PostgresLimiter
    from rulvar.workers.queue import ProcrastinateQueue as ProcrastinateQueue
    from rulvar.workers.stats import WorkerStats as WorkerStats
    from rulvar.workers.worker import Worker as Worker

_HOMES = {
    "CallLimit": "rulvar.workers.limits",
    "PostgresLimiter": "rulvar.workers.limits",
    "ProcrastinateQueue": "rulvar.workers.queue",
    "Worker": "rulvar.workers.worker",
    "WorkerStats": "rulvar.workers.stats",
}

__all__ = ["CallLimit", "PostgresLimiter", "ProcrastinateQueue", "Worker", "WorkerStats"]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
