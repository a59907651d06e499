"""What the engine costs, beside the floor of the same bytes: `python tests/bench/bench_engine.py`.

The floor canonicalizes each step's identity, hashes it and appends the two lines that the engine
appends; on replay it reads the lines back and indexes them. CPU time, best of three, one process.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from rulvar import Ctx, Engine, InMemoryStore, JsonlFileStore, define_workflow, tool
from rulvar.testing import FakeAdapter, fake_tool_calls
from rulvar.testing.engine import fake_routing

RESULT = {"rows": 3, "name": "a step's result of some length", "flags": [True, False, None]}


async def steps(ctx: Ctx, args: int) -> None:
    for number in range(args):
        await ctx.step("load", lambda: RESULT, deps=[number])


async def fan_out(ctx: Ctx, args: int) -> None:
    await ctx.parallel([lambda n=n: ctx.step("load", lambda: RESULT, deps=[n]) for n in range(args)])


STEPS, FAN_OUT = define_workflow("steps", steps), define_workflow("fan-out", fan_out)


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def floor_live(count: int, path: Path | None) -> None:
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY) if path else None
    kept: list[bytes] = []
    for number in range(count):
        identity = {"deps": [number], "key": "load", "kind": "step"}
        key = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()
        head = {"hashVersion": 2, "seq": number, "scope": "", "key": key, "ordinal": 0, "kind": "step"}
        when = "2026-11-30T10:00:00.000Z"
        first = orjson.dumps({**head, "status": "running", "spanId": "s1", "startedAt": when}) + b"\n"
        last = (
            orjson.dumps({**head, "status": "ok", "spanId": "s1", "startedAt": when, "value": RESULT}) + b"\n"
        )
        for line in (first, last):
            if fd is None:
                kept.append(line)
            else:
                os.write(fd, line)
    if fd is not None:
        os.close(fd)


def floor_replay(path: Path) -> None:
    index: dict[tuple[str, str], Any] = {}
    for line in path.read_bytes().splitlines():
        entry = orjson.loads(line)
        index[entry["scope"], entry["key"]] = entry
    for number in range(len(index)):
        identity = {"deps": [number], "key": "load", "kind": "step"}
        key = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()
        index["", key]["value"]


def drive(store: Any, workflow: Any, count: int, *, resume: bool) -> None:
    async def main() -> None:
        engine = Engine(journal=store)
        handle: Any = (
            engine.resume("r", workflow, args=count) if resume else engine.run(workflow, count, run_id="r")
        )
        outcome = await handle.result()
        assert outcome.status == "ok", outcome.error
        if resume:
            assert (await handle.preview()).misses == 0

    asyncio.run(main())


def _rows(folder: Path, count: int, workflow: Any) -> dict[str, Any]:
    floor, memory, files = folder / "floor.jsonl", InMemoryStore(), JsonlFileStore(folder / "runs")
    return {
        "floor live": lambda: floor_live(count, floor),
        "floor replay": lambda: floor_replay(floor),
        "live memory": lambda: drive(memory, workflow, count, resume=False),
        "replay memory": lambda: drive(memory, workflow, count, resume=True),
        "live jsonl": lambda: drive(files, workflow, count, resume=False),
        "replay jsonl": lambda: drive(files, workflow, count, resume=True),
    }


def measure(name: str, count: int, workflow: Any) -> None:
    figures: dict[str, list[float]] = {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            for row, work in _rows(Path(folder), count, workflow).items():
                figures.setdefault(row, []).append(cpu(work) / count * 1e6)
    best = {row: min(values) for row, values in figures.items()}
    print(
        f"{name:>10} {count:>7}: live us/step floor {best['floor live']:5.1f}, memory {best['live memory']:5.1f}, "
        f"jsonl {best['live jsonl']:5.1f} ({best['live jsonl'] / best['floor live']:.1f}x); replay floor "
        f"{best['floor replay']:5.1f}, memory {best['replay memory']:5.1f}, jsonl {best['replay jsonl']:5.1f} "
        f"({best['replay jsonl'] / best['floor replay']:.1f}x)"
    )


def agents(count: int) -> None:
    @tool
    def look(q: str) -> str:
        """Look a thing up."""
        return q

    def answer(call: Any) -> Any:
        if call.req.messages[-1].role == "tool":
            return "done"
        return fake_tool_calls(name="look", args={"q": "x"})

    async def body(ctx: Ctx, args: int) -> None:
        for number in range(args):
            await ctx.agent(f"ask {number}", tools=[look])

    async def main() -> None:
        engine = Engine(
            adapters=[FakeAdapter(agents={"*": answer})],
            routing=fake_routing(),
            budget_defaults={"max_spawns": 10**9},
        )
        assert (await engine.run(define_workflow("w", body), count).result()).status == "ok"

    best = min(cpu(lambda: asyncio.run(main())) for _ in range(3)) / count * 1e6
    print(f"agent run of 2 turns and a tool call, fake tier: {best:.0f} us")


def memory(count: int) -> None:
    store = InMemoryStore()
    drive(store, STEPS, count, resume=False)
    lines = [entry.line for entry in store._journals["r"]]
    with tempfile.TemporaryDirectory() as folder:
        files = JsonlFileStore(folder)
        (Path(folder) / "r.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        tracemalloc.start()

        async def load() -> Any:
            from rulvar.kernel.matching import JournalIndex

            return JournalIndex(await files.load("r"))

        kept = asyncio.run(load())
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert kept is not None
    print(f"memory of a loaded and indexed journal: {size / len(lines):.0f} bytes per entry")


if __name__ == "__main__":
    sizes = [1_000, 10_000] if "--quick" in sys.argv else [1_000, 10_000, 100_000]
    for size in sizes:
        measure("sequential", size, STEPS)
    measure("fan-out", 10_000, FAN_OUT)
    agents(2_000)
    memory(20_000)
