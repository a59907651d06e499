"""What a worker counts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WorkerStats"]


@dataclass(slots=True)
class WorkerStats:
    """What a worker has done so far: execution segments by how they ended.

    Attributes:
        driven: segments that ended, however the run stands now.
        suspended: those of them after which the run waits for an answer.
        failed: jobs that cannot be driven, whoever tries.
        retried: jobs that were put back: the run was held, the store was away, the worker was stopping.
        adopted: jobs and runs of silent workers that this one has put back.
    """

    driven: int = 0
    suspended: int = 0
    failed: int = 0
    retried: int = 0
    adopted: int = 0
