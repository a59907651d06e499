"""What `make demo` runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_the_lint_the_replay_the_miss_and_the_editor() -> None:
    done = subprocess.run(
        [sys.executable, "docs/examples/demo.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("RLV101", "passed", "miss", "«"):
        assert shown in done.stdout
