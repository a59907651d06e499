"""What each store costs per step, beside the raw thing: `python tests/bench/bench_stores.py [--quick] [--workers]`.

A step is two entries (running, ok), so a floor writes two rows. Wall and CPU microseconds per step, best of up
to three rounds, one process; PostgreSQL is a server of the bench's own on loopback with fsync on. DBOS runs the same
steps on the same databases when it is installed in `.cache/bench`. `--workers` measures runs per second over
PostgreSQL with one, two and four worker processes, and where their time goes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from postgres_server import PostgresServer, find_programs  # noqa: E402

from rulvar import Ctx, Engine, InMemoryStore, JsonlFileStore, PostgresStore, SqliteStore, define_workflow  # noqa: E402
from rulvar.stores import LocalKeys, SealedStore  # noqa: E402
from rulvar.workers import ProcrastinateQueue  # noqa: E402

PEERS = ROOT / ".cache" / "bench" / "bin" / "python"
RESULT = {"rows": 3, "name": "a step's result of some length", "flags": [True, False, None]}
LINE = (
    b'{"hashVersion":2,"seq":0,"scope":"","key":"'
    + b"0" * 64
    + b'","kind":"step","value":'
    + b"x" * 120
    + b"}"
)
NO_WAIT = "-c synchronous_commit=off"  # a commit does not wait for the disk
PATIENCE_S = 900.0  # for a peer that hangs
Figures = tuple[float, float]


async def steps(ctx: Ctx, args: int) -> None:
    for number in range(args):
        await ctx.step("load", lambda: RESULT, deps=[number])


async def fan_out(ctx: Ctx, args: int) -> None:
    await ctx.parallel([lambda n=n: ctx.step("load", lambda: RESULT, deps=[n]) for n in range(args)])


STEPS, FAN_OUT = define_workflow("steps", steps), define_workflow("fan-out", fan_out)


def rounds() -> Iterator[int]:
    """Three rounds, or as many as begin within five seconds: a slow disk does not get faster by asking again."""
    begin = time.perf_counter()
    for number in range(3):
        if number == 0 or time.perf_counter() - begin < 5:
            yield number


def timed(work: Callable[[], Any], count: int) -> Figures:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) / count * 1e6, (time.process_time() - cpu) / count * 1e6


async def drive(store: Any, workflow: Any, count: int, run_id: str, *, resume: bool) -> None:
    async with Engine(journal=store) as engine:
        handle: Any = (
            engine.resume(run_id, workflow, args=count)
            if resume
            else engine.run(workflow, count, run_id=run_id)
        )
        outcome = await handle.result()
        assert outcome.status == "ok", outcome.error
        assert not resume or (await handle.preview()).misses == 0


def measure(name: str, make: Callable[[], Any], count: int) -> None:
    live: list[Figures] = []
    replay: list[Figures] = []
    wide: list[Figures] = []
    for number in rounds():
        store = make()
        run_id, other = f"r{number}-{count}", f"w{number}-{count}"
        live.append(
            timed(lambda s=store, r=run_id: asyncio.run(drive(s, STEPS, count, r, resume=False)), count)
        )
        replay.append(
            timed(lambda s=store, r=run_id: asyncio.run(drive(s, STEPS, count, r, resume=True)), count)
        )
        wide.append(
            timed(lambda s=store, r=other: asyncio.run(drive(s, FAN_OUT, count, r, resume=False)), count)
        )
    row = "  ".join(f"{wall:8.1f} {cpu:8.1f}" for wall, cpu in (min(live), min(wide), min(replay)))
    print(f"{name:<28} {count:>6}  {row}", flush=True)


def floor(name: str, count: int, work: Callable[[], None]) -> None:
    wall, cpu = min(timed(work, count) for _ in rounds())
    print(f"{name:<28} {count:>6}  {wall:8.1f} {cpu:8.1f}", flush=True)


def raw_append(path: Path, count: int, *, sync: bool) -> None:
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for _ in range(2 * count):
        os.write(fd, LINE + b"\n")
        if sync:
            os.fdatasync(fd)
    os.close(fd)


def raw_sqlite(path: Path, count: int, synchronous: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS e (run TEXT, seq INTEGER, line BLOB, PRIMARY KEY (run, seq))"
    )
    run = str(time.monotonic_ns())
    for seq in range(2 * count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO e VALUES (?, ?, ?)", (run, seq, LINE))
        connection.execute("COMMIT")
    connection.close()


def raw_postgres(dsn: str, count: int, options: str) -> None:
    async def main() -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, options=options) as connection:
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS e (run text, seq bigint, line bytea, PRIMARY KEY (run, seq))"
            )
            run = str(time.monotonic_ns())
            for seq in range(2 * count):
                await connection.execute("INSERT INTO e VALUES (%s, %s, %b)", (run, seq, LINE))

    asyncio.run(main())


def stores(folder: Path, dsn: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    numbers = iter(range(10_000))

    def fresh(name: str) -> Path:
        return folder / f"{name}{next(numbers)}"

    keys = LocalKeys({"k": b"k" * 32})
    yield "memory", InMemoryStore
    yield "files, process", lambda: JsonlFileStore(fresh("p"))
    yield "files, fsync", lambda: JsonlFileStore(fresh("f"), durability="fsync")
    yield "files, group", lambda: JsonlFileStore(fresh("g"), durability="group")
    yield "sqlite, process", lambda: SqliteStore(fresh("s") / "runs.db", durability="process")
    yield "sqlite, fsync", lambda: SqliteStore(fresh("t") / "runs.db")
    yield (
        "sealed sqlite, process",
        lambda: SealedStore(SqliteStore(fresh("u") / "r.db", durability="process"), keys),
    )
    if dsn is not None:
        yield "postgres", lambda: PostgresStore(dsn, schema=f"b{next(numbers)}")
        yield (
            "postgres, process",
            lambda: PostgresStore(dsn, schema=f"b{next(numbers)}", options={"options": NO_WAIT}),
        )


def dbos(name: str, url: str, count: int) -> None:
    if not PEERS.exists():
        print(f"{name:<28} not installed in .cache/bench")
        return
    script = Path(__file__).parent / "peers" / "dbos_stores.py"
    try:
        figures = [
            subprocess.check_output(
                [str(PEERS), str(script), mode, url, str(count)], text=True, timeout=PATIENCE_S
            ).split()
            for mode in ("live", "replay")
        ]
    except subprocess.SubprocessError as error:
        print(f"{name:<28} {count:>6}  {error}", flush=True)
        return
    (wall, cpu), (replay_wall, replay_cpu) = [[float(value) for value in row] for row in figures]
    blank = " " * 17
    print(
        f"{name:<28} {count:>6}  {wall:8.1f} {cpu:8.1f}  {blank}  {replay_wall:8.1f} {replay_cpu:8.1f}",
        flush=True,
    )


def per_step(sizes: list[int], folder: Path, server: PostgresServer | None) -> None:
    dsn = None if server is None else server.dsn
    head = "  ".join(f"{name:>17}" for name in ("live wall cpu", "fan-out wall cpu", "replay wall cpu"))
    print(f"{'us per step':<28} {'steps':>6}  {head}")
    for count in sizes:
        floor("floor: append", count, lambda n=count: raw_append(folder / "a", n, sync=False))
        floor("floor: append + fdatasync", count, lambda n=count: raw_append(folder / "b", n, sync=True))
        floor("floor: SQLite WAL, normal", count, lambda n=count: raw_sqlite(folder / "c.db", n, "NORMAL"))
        floor("floor: SQLite WAL, full", count, lambda n=count: raw_sqlite(folder / "d.db", n, "FULL"))
        if dsn is not None:
            floor("floor: PostgreSQL insert", count, lambda n=count: raw_postgres(dsn, n, ""))
            floor("floor: PostgreSQL, no wait", count, lambda n=count: raw_postgres(dsn, n, NO_WAIT))
        for name, make in stores(folder, dsn):
            measure(name, make, count)
        dbos("DBOS, SQLite", f"sqlite:///{folder}/dbos{count}.sqlite", count)
        if server is not None:
            dbos("DBOS, PostgreSQL", database_of(server, f"dbos{count}"), count)


def database_of(server: PostgresServer, name: str) -> str:
    import psycopg

    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.dsn.replace("/postgres", f"/{name}")


# -- workers -------------------------------------------------------------------------------------


def cpu_of(pids: list[int]) -> float:
    """Return the CPU seconds of processes so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


async def workers(server: PostgresServer, count: int, runs: int) -> None:
    async def nothing(ctx: Ctx, args: Any) -> None: ...

    dsn = database_of(server, f"workers{count}")
    command = [sys.executable, str(Path(__file__).parent / "peers" / "worker.py"), dsn]
    engine = Engine(
        journal=PostgresStore(dsn),
        queue=ProcrastinateQueue(dsn),
        workflows=[define_workflow("five", nothing)],
    )
    await engine.store.list_runs()
    await engine.queue.wake("nobody")  # type: ignore[union-attr]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    for process in started:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
    await asyncio.sleep(1)
    pids = [process.pid for process in started]
    begin, worker_cpu = time.perf_counter(), cpu_of(pids)
    await asyncio.gather(*(submit(engine, range(start, runs, 8)) for start in range(8)))
    submitted = time.perf_counter() - begin
    postmaster = server.pid
    while True:
        metas = await engine.store.list_runs()
        if sum(meta["status"] == "ok" for meta in metas) == runs:
            break
        await asyncio.sleep(0.05)
    wall = time.perf_counter() - begin
    worker_cpu = cpu_of(pids) - worker_cpu
    server_cpu = cpu_of(children_of(postmaster))
    print(
        f"{count} workers: {runs / wall:6.1f} runs/s of 5 steps ({runs * 5 / wall:.0f} steps/s); submitting took "
        f"{submitted:.1f} of {wall:.1f} s; CPU ms per run: workers {worker_cpu / runs * 1e3:.1f}, "
        f"PostgreSQL {server_cpu / runs * 1e3:.1f}",
        flush=True,
    )
    for process in started:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    await engine.close()


async def submit(engine: Engine, numbers: range) -> None:
    for number in numbers:
        await engine.enqueue("five", None, run_id=f"r{number}")


def main(arguments: list[str]) -> None:
    programs = find_programs()
    server = None if programs is None else PostgresServer(programs, fsync="on", full_page_writes="on")
    folder = Path(
        tempfile.mkdtemp(prefix="rulvar-bench-", dir=ROOT / ".cache" if (ROOT / ".cache").exists() else None)
    )
    try:
        if "--workers" not in arguments:
            per_step([1_000] if "--quick" in arguments else [1_000, 10_000], folder, server)
        if server is not None and "--quick" not in arguments:
            each: Callable[[int], Awaitable[None]] = lambda n: workers(server, n, 600)  # noqa: E731
            for count in (1, 2, 4):
                asyncio.run(each(count))  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder)
        if server is not None:
            server.destroy()


if __name__ == "__main__":
    main(sys.argv[1:])
