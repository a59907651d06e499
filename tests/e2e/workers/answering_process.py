"""Answers a waiting run and dies in the middle of it: python answering_process.py DSN RUN_ID MOMENT"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from rulvar import Engine, PostgresStore
from rulvar.workers import ProcrastinateQueue

DSN, RUN_ID, MOMENT = sys.argv[1:]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingQueue(ProcrastinateQueue):
    async def wake(self, run_id: str, *, connection: Any = None) -> None:
        if MOMENT == "before the wake":
            die()
        await super().wake(run_id, connection=connection)
        if MOMENT == "after the wake":
            die()


class DyingStore(PostgresStore):
    async def append(self, *args: Any, **kwargs: Any) -> None:
        if MOMENT == "before the answer is journaled":
            die()
        await super().append(*args, **kwargs)


async def main() -> None:
    engine = Engine(journal=DyingStore(DSN), queue=DyingQueue(DSN, patience_s=0.5), lease_ttl_s=1.0)
    await engine.resolve_external(RUN_ID, "answer", 7)


asyncio.run(main())
