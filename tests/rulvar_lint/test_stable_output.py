"""The same files give the same report in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = """import os
import random
import time
import uuid

from rulvar import workflow

BUILD = os.environ.get("BUILD")
WHEN = f"{time.time()} {random.random()} {uuid.uuid4()} {os.environ['HOME']}"


def start(at=time.time() + random.random()):
    return at


@workflow
async def flow(ctx, args):
    names = {name for name in args}
    await ctx.agent(f"{BUILD} {WHEN} {names} {start()}")
    return [hash(name) for name in names], str(id(names)) + os.urandom(3).hex()
"""


def test_the_report_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(SOURCE)
    reports = set()
    for seed in range(8):
        done = subprocess.run(
            [sys.executable, "-m", "rulvar_lint", "--no-cache", "flow.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        reports.add(done.stdout)
    assert len(reports) == 1
