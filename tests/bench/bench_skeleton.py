"""What a durable step costs in Python before an engine is built around it: `python tests/bench/bench_skeleton.py`.

The floor of `bench_engine.py` hashes an identity and writes two lines. This skeleton adds what the promises of a
step need at the least: a place that a context variable carries, a queue per scope and key and an ordinal, a span,
the time in both lines, a look at the file before each of them, the value as a replay would see it, and a task per
branch. It has no stores, no leases, no cancellation, no budget, no events and no replay. What it costs over the
floor is the part of the engine's cost that no rewriting of the engine takes away.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import tempfile
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson
from bench_engine import cpu, drive, floor_gather, floor_live
from workflows import FAN_OUT, RESULT, STEPS

from rulvar import JsonlFileStore
from rulvar.contracts.ports.clock import iso_ms

COUNT = 10_000
ROUNDS = 5


class Place:
    """Where a call stands."""

    __slots__ = ("scope", "span", "step")

    def __init__(self, scope: str, span: str, step: str | None) -> None:
        self.scope, self.span, self.step = scope, span, step


PLACE: ContextVar[Place] = ContextVar("place")


class Skeleton:
    """One run's journal."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_RDWR)
        self.path = os.fspath(path)
        self.size = self.seq = self.spans = 0
        self.ordinals: dict[tuple[str, str], int] = {}
        self.recorded: dict[tuple[str, str], list[Any]] = {}
        self.under_way: dict[str, Any] = {}

    def append(self, entry: dict[str, Any]) -> int:
        if os.stat(self.path).st_size != self.size:
            raise OSError("somebody else has written")
        entry = {"hashVersion": 2, "seq": self.seq, **entry}
        self.seq += 1
        self.size += os.write(self.fd, orjson.dumps(entry) + b"\n")
        return self.seq - 1

    async def step(self, label: str, function: Callable[[], Any], deps: list[Any]) -> Any:
        place = PLACE.get()
        if place.step is not None:
            raise RuntimeError("a call inside a step")
        identity = b'{"deps":' + orjson.dumps(deps) + b',"key":' + orjson.dumps(label) + b',"kind":"step"}'
        at = place.scope, hashlib.sha256(identity).hexdigest()
        if queue := self.recorded.get(at):
            return queue.pop()
        ordinal = self.ordinals.get(at, 0)
        self.ordinals[at] = ordinal + 1
        self.spans += 1
        span, started = f"s{self.spans}", now_iso()
        head = {"scope": at[0], "key": at[1], "ordinal": ordinal, "kind": "step"}
        times = {"spanId": span, "startedAt": started}
        ref = self.append({**head, "status": "running", **times})
        self.under_way[span] = label, asyncio.current_task()
        token = PLACE.set(Place(place.scope, span, label))
        try:
            value = function()
            if inspect.isawaitable(value):
                value = await value
            data = orjson.dumps(value)
        finally:
            PLACE.reset(token)
        del self.under_way[span]
        end = {"endedAt": now_iso(), "value": orjson.Fragment(data)}
        self.append({"ref": ref, **head, "status": "ok", **times, **end})
        return orjson.loads(data)


def now_iso() -> str:
    return iso_ms(time.time_ns() // 1_000_000)


async def steps(run: Skeleton, count: int) -> None:
    PLACE.set(Place("", "s0", None))
    for number in range(count):
        await run.step("load", lambda: RESULT, [number])


async def fan_out(run: Skeleton, count: int) -> None:
    loop = asyncio.get_running_loop()
    ends: list[Any] = [None] * count
    done, left = loop.create_future(), count

    async def branch(number: int, thunk: Callable[[], Any]) -> None:
        nonlocal left
        run.spans += 1
        PLACE.set(Place(f"par:0:{number}", f"s{run.spans}", None))
        try:
            ends[number] = await thunk()
        except BaseException as error:
            ends[number] = error
        left -= 1
        if not left:
            done.set_result(None)

    thunks = [lambda n=n: run.step("load", lambda: RESULT, [n]) for n in range(count)]
    tasks = [loop.create_task(branch(number, thunk)) for number, thunk in enumerate(thunks)]
    await done
    assert len(tasks) == count


def measure(what: str, *works: Callable[[Path], Any]) -> None:
    best = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for index, work in enumerate(works):
            with tempfile.TemporaryDirectory() as folder:
                spent = cpu(lambda work=work, folder=folder: work(Path(folder) / "r.jsonl"))  # type: ignore[misc]
            best[index] = min(best[index], spent / COUNT * 1e6)
    floor, skeleton, ours = best
    print(
        f"{what:>10}: floor {floor:.1f} us, skeleton {skeleton:.1f} ({skeleton / floor:.1f}x), "
        f"engine {ours:.1f} ({ours / floor:.1f}x, {ours / skeleton:.1f}x the skeleton)",
        flush=True,
    )


def main() -> None:
    measure(
        "sequential",
        lambda path: floor_live(COUNT, path),
        lambda path: asyncio.run(steps(Skeleton(path), COUNT)),
        lambda path: drive(JsonlFileStore(path.parent), STEPS, COUNT, resume=False),
    )
    measure(
        "fan-out",
        lambda path: floor_gather(COUNT, path),
        lambda path: asyncio.run(fan_out(Skeleton(path), COUNT)),
        lambda path: drive(JsonlFileStore(path.parent), FAN_OUT, COUNT, resume=False),
    )


if __name__ == "__main__":
    main()
