"""What a transition costs, beside the same work as plain steps: `python tests/bench/bench_machines.py`.

A machine that counts, against a workflow whose steps do the same; live and on replay, in memory and on
JSONL; a machine that calls a tool in every transition, against the tool call alone; and reading a run
back as a tree. CPU time, best of three, one process.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rulvar import (
    Ctx,
    Engine,
    InMemoryStore,
    JsonlFileStore,
    MachineCtx,
    StateMachine,
    tool,
    transition,
    workflow,
)
from rulvar.machines.fold import fold_run


class Counting(StateMachine, args={"type": "integer"}):
    @transition("counting")
    def begin(self, ctx: MachineCtx) -> None:
        ctx.state.update(n=0, limit=ctx.args)

    def goes_on(self, state: Any) -> bool:
        return bool(state["n"] < state["limit"])

    @transition("counting", "counting", guard="goes_on")
    async def tick(self, ctx: MachineCtx) -> None:
        ctx.state.n += 1

    @transition("end", "counting")
    def finish(self, ctx: MachineCtx) -> None: ...


@workflow(name="steps")
async def steps(ctx: Ctx, args: int) -> None:
    for n in range(args):
        await ctx.step("tick", lambda n=n: {"n": n})


@tool
def look(n: int) -> dict[str, int]:
    """Look at a number."""
    return {"n": n}


class Looking(Counting):
    async def tick(self, ctx: MachineCtx) -> None:
        ctx.state["n"] = (await ctx.call_tool(look, {"n": ctx.state["n"]}))["n"] + 1


@workflow(name="calls")
async def calls(ctx: Ctx, args: int) -> None:
    for n in range(args):
        await ctx.call_tool(look, {"n": n})


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def drive(store: Any, what: Any, count: int, *, resume: bool) -> None:
    async def main() -> None:
        engine = Engine(journal=store)
        handle: Any = engine.resume("r", what, args=count) if resume else engine.run(what, count, run_id="r")
        outcome = await handle.result()
        assert outcome.status == "ok", outcome.error
        if resume:
            assert (await handle.preview()).misses == 0

    asyncio.run(main())


def measure(what: Any, count: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            memory, files = InMemoryStore(), JsonlFileStore(Path(folder))
            for row, store, resume in (
                ("live memory", memory, False),
                ("replay memory", memory, True),
                ("live jsonl", files, False),
                ("replay jsonl", files, True),
            ):
                spent = cpu(lambda store=store, resume=resume: drive(store, what, count, resume=resume))
                best[row] = min(best.get(row, 1e9), spent / count * 1e6)
            entries = memory._journals["r"]
            spent = cpu(lambda entries=entries: fold_run(entries, "r"))
            best["read back"] = min(best.get("read back", 1e9), spent / count * 1e6)
    return best


def show(name: str, count: int, machine: dict[str, float], plain: dict[str, float]) -> None:
    rows = ", ".join(
        f"{row} {machine[row]:.1f} (plain {plain[row]:.1f}, {machine[row] / plain[row]:.1f}x)"
        for row in ("live memory", "replay memory", "live jsonl", "replay jsonl")
    )
    print(f"{name:>20} {count:>6}, us each: {rows}; read back {machine['read back']:.1f}")


if __name__ == "__main__":
    sizes = [1_000] if "--quick" in sys.argv else [1_000, 10_000]
    for size in sizes:
        show("transition | step", size, measure(Counting, size), measure(steps, size))
    for size in sizes:
        show("with a tool call", size, measure(Looking, size), measure(calls, size))
