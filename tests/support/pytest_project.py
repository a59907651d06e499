"""A folder with a workflow and tests, and real pytest processes over it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from rulvar.testing.report import read_report

WORKFLOW = """
from rulvar import workflow


@workflow(name="review")
async def review(ctx, args):
    verdict = await ctx.agent("Review the diff of " + args["file"], agent_type="reviewer", label="verdict")
    note = await ctx.step("note", lambda: "noted")
    return {"verdict": verdict, "note": note}
"""
RECORD = """
import asyncio

from rulvar import Engine
from rulvar.testing import FakeAdapter, record
from flow import review


async def main():
    adapters = record(adapters=[FakeAdapter({"*": "looks good"}, id="model")], cassette="cassettes/review.jsonl")
    async with Engine(adapters=adapters, routing={"loop": "model:large"}, profiles={"reviewer": {}}) as engine:
        for file in ("a.py", "b.py", "c.py"):
            outcome = await engine.run(review, {"file": file}).result()
            assert outcome.status == "ok", outcome.error


asyncio.run(main())
"""


class Project:
    """A folder with a workflow and tests, and pytest runs over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(
            "[pytest]\nasyncio_mode = auto\npythonpath = .\nrulvar_offline_adapters = own\n", "utf-8"
        )
        self.write("flow.py", WORKFLOW)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
        return path

    def record(self) -> Path:
        """Record three reviews."""
        self.write("record_it.py", RECORD)
        subprocess.run([sys.executable, "record_it.py"], cwd=self.folder, check=True, timeout=60)
        return self.folder / "cassettes" / "review.jsonl"

    def pytest(
        self, *args: str, installed: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest; CI is off unless a test sets it."""
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "RULVAR_LIVE_TESTS")}
        if not installed:  # only what these tests need, which starts in half the time
            kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            args = ("-p", "rulvar.testing.pytest_plugin", "-p", "pytest_asyncio.plugin", *args)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *args]
        return subprocess.run(
            command, cwd=self.folder, env={**kept, **environment}, capture_output=True, text=True, timeout=120
        )

    def report(self, *args: str, **environment: str) -> Any:
        """Run pytest with a report and return it."""
        self.pytest("--rulvar-report", "out/report.json", *args, **environment)
        return read_report(self.folder / "out" / "report.json")
