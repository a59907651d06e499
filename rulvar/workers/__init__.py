"""Runs on many machines: a queue in PostgreSQL, workers that drive runs, limits that hold for all of them.

The queue is procrastinate's; this package says what its jobs do. Nothing here is loaded by ``import rulvar``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rulvar.workers' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
