"""What the engine costs, beside the floor of the same bytes: `python tests/bench/bench_engine.py [--quick]`.

The floor canonicalizes each step's identity, hashes it and appends the two lines that the engine
appends; on replay it reads the lines back and indexes them. CPU time, best of three, one process.
With DBOS installed in `.cache/bench` (see `make bench`), the same steps run on it too. With
`--instructions`, valgrind counts instructions per step instead: no other load moves that figure.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from workflows import AGENTS, FAN_OUT, RESULT, STEPS, answer

from rulvar import Engine, InMemoryStore, JsonlFileStore
from rulvar.testing import FakeAdapter
from rulvar.testing.engine import fake_routing

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".cache" / "bench" / "bin" / "python"


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def floor_step(fd: int, number: int) -> None:
    """Write what one step leaves in a journal."""
    identity = {"deps": [number], "key": "load", "kind": "step"}
    key = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()
    head = {"hashVersion": 2, "seq": number, "scope": "", "key": key, "ordinal": 0, "kind": "step"}
    when = "2026-11-30T10:00:00.000Z"
    os.write(fd, orjson.dumps({**head, "status": "running", "spanId": "s1", "startedAt": when}) + b"\n")
    os.write(
        fd, orjson.dumps({**head, "status": "ok", "spanId": "s1", "startedAt": when, "value": RESULT}) + b"\n"
    )


def floor_live(count: int, path: Path) -> None:
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_WRONLY)
    for number in range(count):
        floor_step(fd, number)
    os.close(fd)


def floor_gather(count: int, path: Path) -> None:
    """The floor's work, a task per step."""
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_WRONLY)

    async def one(number: int) -> None:
        floor_step(fd, number)

    async def main() -> None:
        await asyncio.gather(*[one(number) for number in range(count)])

    asyncio.run(main())
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
        "floor gather": lambda: floor_gather(count, floor),
        "floor replay": lambda: floor_replay(floor),
        "live memory": lambda: drive(memory, workflow, count, resume=False),
        "replay memory": lambda: drive(memory, workflow, count, resume=True),
        "live jsonl": lambda: drive(files, workflow, count, resume=False),
        "replay jsonl": lambda: drive(files, workflow, count, resume=True),
    }


def measure(name: str, count: int, workflow: Any, floor: str) -> None:
    figures: dict[str, list[float]] = {}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            for row, work in _rows(Path(folder), count, workflow).items():
                figures.setdefault(row, []).append(cpu(work) / count * 1e6)
    best = {row: min(values) for row, values in figures.items()}
    print(
        f"{name:>10} {count:>7}: live us/step {floor} {best[floor]:5.1f}, memory {best['live memory']:5.1f}, "
        f"jsonl {best['live jsonl']:5.1f} ({best['live jsonl'] / best[floor]:.1f}x); replay floor "
        f"{best['floor replay']:5.1f}, memory {best['replay memory']:5.1f}, jsonl {best['replay jsonl']:5.1f} "
        f"({best['replay jsonl'] / best['floor replay']:.1f}x)",
        flush=True,
    )


def peers(count: int) -> None:
    if not PEERS.exists():
        print("DBOS: not installed in .cache/bench; `make bench` does it")
        return
    script = Path(__file__).parent / "peers" / "dbos_steps.py"
    with tempfile.TemporaryDirectory() as folder:
        figures = [
            float(subprocess.check_output([str(PEERS), str(script), mode, folder, str(count)], text=True))
            for mode in ("live", "replay")
        ]
    print(f"DBOS, SQLite {count:>6}: live {figures[0]:.0f} us/step, replay {figures[1]:.0f}", flush=True)


def run_agents(count: int) -> None:
    async def main() -> None:
        engine = Engine(
            adapters=[FakeAdapter(agents={"*": answer})],
            routing=fake_routing(),
            budget_defaults={"max_spawns": 10**9},
        )
        outcome = await engine.run(AGENTS, count).result()
        assert outcome.status == "ok", outcome.error

    asyncio.run(main())


def agents(count: int) -> None:
    best = min(cpu(lambda: run_agents(count)) for _ in range(3)) / count * 1e6
    print(f"agent run of 2 turns and a tool call, fake tier: {best:.0f} us", flush=True)


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


COUNTED: dict[str, Callable[[int], None]] = {
    "live step, memory": lambda count: drive(InMemoryStore(), STEPS, count, resume=False),
    "fan-out step, memory": lambda count: drive(InMemoryStore(), FAN_OUT, count, resume=False),
    "agent run, memory": run_agents,
}


def instructions() -> None:
    """Count instructions per operation: a run of 300 minus a run of 100, so that start-up cancels out."""
    for name in COUNTED:
        counts = []
        for count in (100, 300):
            command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
            done = subprocess.run(
                [*command, __file__, "--count", name, str(count)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
            found = re.search(r"Collected : (\d+)", done.stderr)
            assert found is not None, done.stderr[-500:]
            counts.append(int(found[1]))
        print(f"{name}: {(counts[1] - counts[0]) / 200 / 1000:.0f} thousand instructions", flush=True)


def main() -> None:
    if "--count" in sys.argv:
        COUNTED[sys.argv[2]](int(sys.argv[3]))
        return
    if "--instructions" in sys.argv:
        instructions()
        return
    for size in [1_000, 10_000] if "--quick" in sys.argv else [1_000, 10_000, 100_000]:
        measure("sequential", size, STEPS, "floor live")
    measure("fan-out", 10_000, FAN_OUT, "floor gather")
    peers(1_000)
    agents(2_000)
    memory(20_000)


if __name__ == "__main__":
    main()
