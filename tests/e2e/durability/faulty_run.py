"""Runs or resumes a workflow of many steps in a process of its own, under a limit, and prints how it ended.

python faulty_run.py STORE FOLDER [--file-limit BYTES] [--unprivileged] [--steps N] [--size BYTES]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import resource
from pathlib import Path
from typing import Any

import rulvar.stores.sqlite
from rulvar import Ctx, Engine, JsonlFileStore, SqliteStore, define_workflow
from rulvar.errors import RulvarError

assert rulvar.stores.sqlite


def open_store(kind: str, folder: Path) -> Any:
    if kind.startswith("sqlite"):
        return SqliteStore(folder / "runs.db", durability="fsync" if kind == "sqlite" else "process")
    return JsonlFileStore(folder / "runs", durability=kind.partition("-")[2] or "process")  # type: ignore[arg-type]


async def main(options: argparse.Namespace) -> dict[str, Any]:
    done: list[int] = []
    text = "x" * options.size

    async def body(ctx: Ctx, args: Any) -> Any:
        for number in range(options.steps):
            await ctx.step("step", lambda: text, deps=[number])
            done.append(number)  # the step's value was handed out: its entries were acknowledged
        return options.steps

    store = open_store(options.store, options.folder)
    workflow = define_workflow("many", body)
    answer: dict[str, Any] = {}
    async with Engine(journal=store) as engine:
        try:
            known = await engine.knows("r")
            handle: Any = engine.resume("r", workflow) if known else engine.run(workflow, run_id="r")
            outcome = await handle.result()
            answer.update(status=outcome.status, value=outcome.value)
            answer["error"] = None if outcome.error is None else outcome.error.to_wire()
            if known:
                answer["misses"] = (await handle.preview()).misses
        except RulvarError as error:
            answer.update(status="refused", error=error.to_wire())
        answer["handed_out"] = len(done)
    return answer


parser = argparse.ArgumentParser()
parser.add_argument("store")
parser.add_argument("folder", type=Path)
parser.add_argument("--file-limit", type=int)
parser.add_argument("--unprivileged", action="store_true")
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--size", type=int, default=4000)
options = parser.parse_args()
if options.unprivileged and os.geteuid() == 0:
    nobody = pwd.getpwnam("nobody")
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
if options.file_limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (options.file_limit, options.file_limit))
print(json.dumps(asyncio.run(main(options))))
