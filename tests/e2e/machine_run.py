"""Runs a machine over files, answering what it asks, in processes that die by SIGKILL at an append.

python machine_run.py DIRECTORY before|after

Runs it undisturbed, and then once per append in a folder of its own: a process is killed right before
or right after that append, and another one resumes. Prints one JSON line per run. Every process is
forked from this one, so that none pays for importing everything again.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulvar import Engine, Input, JsonlFileStore, MachineCtx, Retry, StateMachine, document, tool, transition
from rulvar.hitl import AskUser
from rulvar.machines.report import choose_way, read_run
from rulvar.testing import FakeAdapter

HERE = Path()
KILL_AT = -1
WHEN = sys.argv[2]


def note(line: str) -> None:
    """Write down one execution."""
    with (HERE / "executed.txt").open("a") as executed:
        executed.write(line + "\n")


@document
@dataclass
class Report:
    text: str


@tool(effects="read")
def look(what: str) -> dict[str, Any]:
    """Look at something; the first flaky one fails."""
    note(f"look {what}")
    if what == "flaky 0":
        raise ConnectionError("flaky")
    return {"saw": what}


class Investigation(StateMachine):
    @transition("looked", retry=Retry(1, delay=0.0))
    async def investigate(self, ctx: MachineCtx) -> None:
        ctx.save(Report("begun"), key="report")
        first = await ctx.call_tool(look, {"what": "first"})
        both = await ctx.parallel([lambda: ctx.call_tool(look, {"what": "left"}), lambda: ctx.agent("right")])
        flaky = await ctx.call_tool(look, {"what": f"flaky {ctx.retry_count}"})
        ctx.state.update(seen=[first, *both, flaky], attempts=ctx.retry_count)

    @transition("asking", "looked")
    def ask(self, ctx: MachineCtx) -> None:
        ctx.start(AskUser, {"question": "Publish?", "mode": "confirm"}, on_done="answered")

    @transition("deciding", "asking", wait=True)
    def answered(self, ctx: MachineCtx, input: Input) -> None:
        ctx.state["answer"] = input.data["answer"]

    @transition("end", "deciding", wait=True, payload={"type": "object", "required": ["ok"]})
    async def decide(self, ctx: MachineCtx, input: Input) -> None:
        summary = await ctx.agent("summarize")
        ctx.save(Report(summary), key="report")
        ctx.result.update(answer=ctx.state["answer"], ok=input.data["ok"], seen=ctx.state["seen"])


class MortalStore(JsonlFileStore):
    """Kills its process right before or right after the n-th append."""

    appends = 0

    def append_now(self, run_id, entries):
        MortalStore.appends += 1
        dies = MortalStore.appends == KILL_AT
        if dies and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().append_now(run_id, entries)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


class CountingAdapter(FakeAdapter):
    def stream(self, request, signal=None):
        note(f"model {request.prompt}")
        return super().stream(request, signal)


ANSWERS = {"user_answered": {"answer": True}, "decide": {"ok": 1}}


async def main() -> None:
    store = MortalStore(HERE / "runs")
    adapters = [CountingAdapter(agents={"*": lambda call: f"<{call.prompt}>"})]
    async with Engine(adapters=adapters, journal=store, routing={"loop": "fake:small"}) as engine:
        known = await store.load_meta("r") is not None
        handle = engine.resume("r", Investigation) if known else engine.run(Investigation, run_id="r")
        outcome = await handle.result()
        while outcome.status == "suspended":
            view = await read_run(store, "r")
            ways = [way for node in view.tree() for way in node.waits]
            way = next(way for name in ANSWERS for way in ways if way.transition == name)
            await engine.resolve_external(
                "r", choose_way(view, way.key).key, ANSWERS[way.transition], wf=Investigation
            )
            outcome = await engine.resume("r", Investigation).result()
        view = await read_run(store, "r")
    print(
        json.dumps(
            {
                "status": outcome.status,
                "value": outcome.value,
                "error": None if outcome.error is None else outcome.error.message,
                "path": view.path,
                "state": view.state,
                "documents": [[item.name, item.content] for item in view.documents],
                "children": [[child.name, child.status, child.result] for child in view.children],
                "trace": [[e.type, e.transition_id or e.status] for node in view.tree() for e in node.trace],
                "appends": MortalStore.appends,
            }
        )
    )


def in_a_process(folder: Path, kill_at: int) -> tuple[int, str]:
    """Run the machine in a forked process; return how it ended and what it printed."""
    global HERE, KILL_AT
    output = folder / "output.json"
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        HERE, KILL_AT = folder, kill_at
        with output.open("w") as sys.stdout:
            asyncio.run(main())
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output.read_text()


def executed(folder: Path) -> list[str]:
    path = folder / "executed.txt"
    return path.read_text().splitlines() if path.exists() else []


def finished(folder: Path) -> int:
    """Count the tool calls that have a terminal entry."""
    path = folder / "runs" / "r.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sum(entry["kind"] == "step" and "ref" in entry and "receipt" in entry for entry in entries)


def sweep(root: Path) -> None:
    """Run undisturbed, and then once per append with a kill there."""
    whole = root / "undisturbed"
    whole.mkdir()
    code, text = in_a_process(whole, -1)
    undisturbed = {**json.loads(text), "code": code, "executed": executed(whole)}
    print(json.dumps(undisturbed))
    for kill_at in range(1, undisturbed["appends"] + 1):
        folder = root / str(kill_at)
        folder.mkdir()
        killed, _ = in_a_process(folder, kill_at)
        facts = {
            "killAt": kill_at,
            "killed": killed,
            "before": executed(folder),
            "finished": finished(folder),
        }
        code, text = in_a_process(folder, -1)
        print(json.dumps({**json.loads(text), **facts, "code": code, "executed": executed(folder)}))


sweep(Path(sys.argv[1]))
