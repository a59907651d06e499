"""Two workers over PostgreSQL; one of them is killed, and nothing is lost: python demo.py [DSN]

Without a DSN it starts a PostgreSQL of its own in a temporary folder (Debian: apt-get install postgresql).
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from shop import make_engine

HERE = Path(__file__).parent
ITEMS = ["a lamp", "two chairs", "a kettle", "a clock", "a rug", "a bell"]


def start_worker(dsn: str, name: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(HERE / "shop.py"), dsn, name])


async def until(engine, count: int, *statuses: str) -> None:
    while True:
        metas = await engine.store.list_runs()
        if sum(meta["status"] in statuses for meta in metas) >= count:
            return
        await asyncio.sleep(0.1)


async def demo(dsn: str) -> None:
    async with make_engine(dsn, "shop") as engine:
        print(f"{len(ITEMS)} orders are submitted")
        for number, item in enumerate(ITEMS):
            await engine.enqueue("order", {"item": item}, run_id=f"order-{number}")
        workers = [start_worker(dsn, "worker one"), start_worker(dsn, "worker two")]
        try:
            await until(engine, 1, "running", "suspended")
            await asyncio.sleep(0.15)
            print("worker one is killed in the middle of its work")
            workers[0].send_signal(signal.SIGKILL)
            await until(engine, len(ITEMS), "suspended")
            print("every order waits for its payment; the payments come in")
            for number in range(len(ITEMS)):
                await engine.resolve_external(f"order-{number}", "payment", True)
            await until(engine, len(ITEMS), "ok")
            print("every order is done; worker two is told to go")
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait()
        for meta in await engine.store.list_runs():
            entries = await engine.store.load(meta["runId"])
            steps = sum(entry.kind == "step" and entry.status == "ok" for entry in entries)
            print(f"  {meta['runId']}: {meta['status']}, {steps} steps, {meta['segments']} segments")


@contextlib.contextmanager
def own_server():
    """Start a PostgreSQL in a temporary folder, as an unprivileged user even when we are root."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = programs[-1] if programs else Path(shutil.which("pg_ctl") or sys.exit("PostgreSQL is not installed")).parent
    folder = Path(tempfile.mkdtemp(prefix="rulvar-demo-"))
    identity = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def call(program, *arguments):
        command = [str(found / program), "-D", "data", *arguments]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, **identity)

    call("initdb", "-U", "demo", "-A", "trust")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories=''"
    call("pg_ctl", "-w", "-l", "log", "-o", options, "start")
    try:
        yield f"postgresql://demo@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-w", "-m", "fast", "stop")
        shutil.rmtree(folder)


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(demo(sys.argv[1]))
        return
    with own_server() as dsn:
        asyncio.run(demo(dsn))


main()
