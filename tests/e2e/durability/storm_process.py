"""One of several processes that storm a store: start, resume, cancel, answer twice, delete, start anew.

python storm_process.py files|sqlite|postgres PLACE SEED SECONDS TTL_S LOG

Every append and deletion that was acknowledged is written to the log, with the epoch under which it was
made; attempts are written before they are made. Anything but the refusals that a storm must bring ends
the process with a traceback.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from rulvar import Ctx, Engine, JsonlFileStore, PostgresStore, SqliteStore, define_workflow
from rulvar.errors import ConfigError, LeaseHeldError, ResolutionError, RunNotFoundError, SupersededError
from rulvar.stores import delete_run

KIND, PLACE, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3])
SECONDS, TTL_S, LOG = float(sys.argv[4]), float(sys.argv[5]), Path(sys.argv[6])
RUNS = [f"run-{number}" for number in range(5)]
ACTORS = 4


def open_store() -> Any:
    if KIND == "postgres":
        return PostgresStore(PLACE, schema="storm", max_connections=4)
    if KIND == "sqlite":
        return SqliteStore(Path(PLACE) / "runs.db", durability="process", busy_timeout_s=30)
    return JsonlFileStore(PLACE)


class Log:
    def __init__(self) -> None:
        self._fd = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, **fields: Any) -> None:
        os.write(self._fd, json.dumps(fields).encode() + b"\n")


class Watched:
    """A store whose acknowledged writes are logged."""

    immediate = False

    def __init__(self, inner: Any, log: Log) -> None:
        self._inner, self._log = inner, log
        self.transcripts = inner.transcripts

    async def append(self, run_id: str, entries: Any, *, lease: Any = None) -> None:
        lines = [[entry.seq, hashlib.sha256(entry.line).hexdigest()] for entry in entries]
        fields = {"run": run_id, "epoch": lease.epoch, "lines": lines}
        self._log(what="trying", **fields)
        await self._inner.append(run_id, entries, lease=lease)
        self._log(what="stored", **fields)

    async def delete(self, run_id: str, *, lease: Any = None) -> None:
        self._log(what="deleting", run=run_id, epoch=lease.epoch)
        await self._inner.delete(run_id, lease=lease)
        self._log(what="deleted", run=run_id, epoch=lease.epoch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def body(ctx: Ctx, args: Any) -> Any:
    seen = [await ctx.step("s", lambda n=n: pause(n), deps=[n]) for n in range(3)]
    both = await ctx.parallel([lambda n=n: ctx.step(n, lambda: pause(n)) for n in "ab"])
    return [seen, both, await ctx.await_external("go"), await ctx.step("end", lambda: pause("end"))]


async def pause(value: Any) -> Any:
    await asyncio.sleep(random.uniform(0, 0.02))
    return value


WORKFLOW = define_workflow("storm", body)


async def act(engine: Engine, chance: random.Random) -> str:
    run_id, what = (
        chance.choice(RUNS),
        chance.choice(["start", "start", "resume", "cancel", "answer", "delete"]),
    )
    try:
        if what == "start":
            await engine.run(WORKFLOW, run_id=run_id).result()
        elif what == "resume":
            await engine.resume(run_id, WORKFLOW).result()
        elif what == "cancel":
            handle = engine.resume(run_id, WORKFLOW)
            await asyncio.sleep(chance.uniform(0, 0.1))
            await handle.cancel()
            await handle.result()
        elif what == "answer":
            answers = [engine.resolve_external(run_id, "go", n) for n in range(2)]
            results = await asyncio.gather(*answers, return_exceptions=True)
            assert sum(result is None for result in results) <= 1, results
            failures = [result for result in results if isinstance(result, BaseException)]
            for failure in failures:
                if len(failures) == 2 or not isinstance(failure, (LeaseHeldError, ResolutionError)):
                    raise failure
        else:
            await delete_run(engine.store, run_id)
    except ConfigError as error:
        assert "exists already" in str(error), error
    except asyncio.CancelledError:
        return "cancelled before it started"
    except (LeaseHeldError, RunNotFoundError, ResolutionError, SupersededError):
        return "refused"
    return what


async def main() -> None:
    random.seed(SEED)
    chance = random.Random(SEED)
    store = Watched(open_store(), Log())
    done: dict[str, int] = {}
    end = time.monotonic() + SECONDS

    async def actor() -> None:
        while time.monotonic() < end:
            what = await act(engine, chance)
            done[what] = done.get(what, 0) + 1

    async with Engine(journal=store, lease_ttl_s=TTL_S) as engine, asyncio.TaskGroup() as group:
        for _ in range(ACTORS):
            group.create_task(actor())
    print(json.dumps(done))


asyncio.run(main())
