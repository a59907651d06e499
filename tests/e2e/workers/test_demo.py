"""The demo of two workers does what its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[3] / "docs" / "examples" / "workers" / "demo.py"


def test_every_order_is_done_although_a_worker_is_killed(database: str) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), database], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert all("is adopted" in line for line in done.stderr.splitlines()), done.stderr
    rows = [line.strip() for line in done.stdout.splitlines() if " segments" in line]
    assert len(rows) == 6
    assert all("ok, 2 steps" in row for row in rows), done.stdout
