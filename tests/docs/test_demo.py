"""`make demo` shows the whole idea: findings, hits, a miss explained, and the editor's view."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "docs" / "examples" / "demo.py"


def test_the_demo_runs_to_its_end_and_shows_what_it_promises(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        [sys.executable, str(DEMO)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, lint, hits, miss, editor, last = re.split(r"^\d\. ", done.stdout, flags=re.MULTILINE)
    assert "RLV101" in lint
    assert "use `ctx.now()`" in lint
    assert "6 model calls: 6 hits" in hits
    assert "5 model calls: 4 hits, 1 miss" in miss
    assert "recorded: Write to the reporter." in miss
    assert "actual:   Write warmly to the reporter." in miss
    assert re.search(r"« hit [0-9a-f]+ #0 »", editor)
    assert re.search(r"« miss [0-9a-f]+", editor)
    assert "VS Code" in last
    assert "Neovim" in last
    assert "\x1b" not in done.stdout  # colours only on a terminal
