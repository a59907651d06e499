"""Kills a run at every durable write of a store, resumes it in a fresh process, and prints what it saw.

python kill_points.py files|files-group|sqlite|postgres FOLDER [DSN]

Prints one JSON object: the undisturbed run, and one observation per kill point. Every process is forked
from this one, which only ever imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mortal_store import MortalStore

import rulvar.stores.sqlite
from rulvar import Ctx, Engine, JsonlFileStore, PostgresStore, SqliteStore, define_workflow, tool
from rulvar.errors import LeaseHeldError
from rulvar.testing import FakeAdapter, fake_tool_calls
from rulvar.testing.engine import fake_routing

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
DSN = sys.argv[3] if len(sys.argv) > 3 else ""
TTL_S = 0.3


def open_store(case: str) -> Any:
    if KIND == "postgres":
        return PostgresStore(DSN, schema="kill_points", max_connections=2)
    if KIND == "sqlite":
        return SqliteStore(FOLDER / f"{case}.db")
    return JsonlFileStore(FOLDER / case, durability="group" if KIND == "files-group" else "process")


class Trace:
    """One line per event, each written at once: what a killed process did stays known."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, what: str, name: str) -> None:
        os.write(self._fd, f"{what} {name}\n".encode())


def workflow(paid: Callable[[str], None]) -> Any:
    def pay(what: str) -> str:
        paid(what)
        return what

    async def slow() -> str:
        await asyncio.sleep(TTL_S * 0.6)  # the lease is renewed meanwhile
        return pay("slow")

    async def body(ctx: Ctx, args: Any) -> Any:
        first = await ctx.step("first", lambda: pay("first"))

        @tool
        def look(q: str) -> str:
            """Look a thing up."""
            return pay("tool")

        answer = await ctx.agent("ask", tools=[look])
        both = await ctx.parallel([lambda n=n: ctx.step(n, lambda: pay(n)) for n in ("left", "right")])
        child = await ctx.workflow(define_workflow("child", child_body))
        return [first, answer, both, child, await ctx.step("slow", slow)]

    async def child_body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("inner", lambda: pay("inner"))

    return define_workflow("kill-points", body)


def model(paid: Callable[[str], None]) -> FakeAdapter:
    def answer(call: Any) -> Any:
        if call.req.messages[-1].role == "tool":
            paid("second turn")
            return "done"
        paid("first turn")
        return fake_tool_calls(name="look", args={"q": "x"})

    return FakeAdapter(agents={"*": answer})


async def drive(case: str, trace: Trace, victim: tuple[str, str] | None, *, resume: bool) -> dict[str, Any]:
    def paid(what: str) -> None:
        trace("paid", what)

    store = open_store(case)
    mortal = MortalStore(store, trace, victim)
    async with Engine(
        adapters=[model(paid)], journal=mortal, routing=fake_routing(), lease_ttl_s=TTL_S
    ) as engine:
        wf, run_id = workflow(paid), f"run-{case}"
        survived = [entry.to_wire() for entry in await store.load(run_id)]
        checkpoints = [ref for ref in await store.transcripts.refs(run_id) if "/ckpt/" in ref]
        deadline = time.monotonic() + 20
        while True:
            known = resume and await engine.knows(run_id)
            handle = engine.resume(run_id, wf) if known else engine.run(wf, run_id=run_id)
            try:
                outcome = await handle.result()
                break
            except LeaseHeldError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
        meta = await store.load_meta(run_id)
        lease = await store.lease_of(run_id)
        return {
            "status": outcome.status,
            "value": outcome.value,
            "error": None if outcome.error is None else outcome.error.to_wire(),
            "meta": meta and meta["status"],
            "segments": meta and meta["segments"],
            "held": lease is not None and lease.is_held,
            "survived": survived,
            "checkpoints": checkpoints,
            "entries": [entry.to_wire() for entry in await store.load(run_id)],
        }


def in_a_process(case: str, part: str, victim: tuple[str, str] | None, *, resume: bool) -> tuple[int, Any]:
    """Drive a run in a forked process; return its exit status and its answer, if it lived to give one."""
    answer = FOLDER / f"{case}.{part}.json"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            result = asyncio.run(drive(case, Trace(FOLDER / f"{case}.{part}.trace"), victim, resume=resume))
            answer.write_text(json.dumps(result))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), json.loads(answer.read_text()) if answer.exists() else None


def trace_of(case: str, part: str) -> list[list[str]]:
    lines = (FOLDER / f"{case}.{part}.trace").read_text().splitlines()
    return [line.split(" ", 1) for line in lines]


def observe(number: int, victim: tuple[str, str]) -> dict[str, Any]:
    case = f"c{number}"
    killed, _ = in_a_process(case, "killed", victim, resume=False)
    resumed, result = in_a_process(case, "resumed", None, resume=True)
    return {
        "victim": victim,
        "killed": killed,
        "resumed": resumed,
        "result": result,
        "first": trace_of(case, "killed"),
        "second": trace_of(case, "resumed"),
    }


def main() -> None:
    assert rulvar.stores.sqlite  # everything is imported before the first fork
    code, undisturbed = in_a_process("whole", "killed", None, resume=False)
    trace = trace_of("whole", "killed")
    points = [
        (when, name)
        for when in ("before", "after")
        for name in dict.fromkeys(name for what, name in trace if what == "before")
        if not name.startswith("renew") or name == "renew #1"
    ]
    with ThreadPoolExecutor(4) as pool:  # the threads only fork and wait
        seen = list(pool.map(observe, range(len(points)), points))
    print(json.dumps({"code": code, "undisturbed": undisturbed, "trace": trace, "seen": seen}))


main()
