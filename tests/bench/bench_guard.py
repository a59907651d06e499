"""What the determinism guard costs: `python tests/bench/bench_guard.py [STEPS]`.

A run of 10,000 steps in memory, live and replayed, with the guard off and on; once in a module that
names no source of impurity, and once where every step reads the clock, which is allowed. CPU time per
step, median of five interleaved rounds; the ratio is to the same workflow with the guard off.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rulvar import Engine, InMemoryStore, Workflow, define_workflow

ROUNDS = 5
BODY = """
async def body(ctx, args):
    total = 0
    for number in range(args):
        total += await ctx.step(f"step {number}", one)
    return total


"""
MODULES = {
    "no source in reach": BODY + "def one():\n    return 1\n",
    "a source in reach": "import time\n" + BODY + "def one():\n    time.time()\n    return 1\n",
}


def load(folder: Path, name: str, text: str) -> Workflow[Any]:
    """Return the workflow of a module that lies in a file, as the guard expects of a project."""
    path = folder / f"{name.replace(' ', '_')}.py"
    path.write_text(text)
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(text, path, "exec"), names)
    return define_workflow(name, names["body"])


async def measure(workflow: Workflow[Any], mode: str, steps: int) -> tuple[float, float]:
    """Return CPU microseconds per step, live and replayed."""
    store = InMemoryStore()
    times = []
    async with Engine(journal=store, determinism=mode) as engine:
        for begin in (
            lambda: engine.run(workflow, steps, run_id="r"),
            lambda: engine.resume("r", workflow, args=steps),
        ):
            started = time.process_time()
            outcome = await begin().result()
            assert outcome.value == steps
            times.append((time.process_time() - started) / steps * 1e6)
    return times[0], times[1]


async def main(steps: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        workflows = [load(Path(folder), name, text) for name, text in MODULES.items()]
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for workflow in workflows:
                for mode in ("off", "warn"):
                    found.setdefault((workflow.name, mode), []).append(await measure(workflow, mode, steps))
    print(f"Python {sys.version.split()[0]}, {steps:,} steps, microseconds of CPU per step")
    for (name, mode), rows in found.items():
        live, replayed = (statistics.median(column) for column in zip(*rows, strict=True))
        base = [statistics.median(column) for column in zip(*found[name, "off"], strict=True)]
        print(
            f"  {name:20} {mode:5} live {live:6.2f} ({live / base[0]:.2f}x)   replayed {replayed:6.2f} ({replayed / base[1]:.2f}x)"
        )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
