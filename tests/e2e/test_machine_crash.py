"""A machine killed at any append: resumed, it ends the same, and what had finished is not done again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAME = ("status", "value", "path", "state", "documents", "children", "trace")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_machine_ends_as_if_nothing_had_happened(when: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "machine_run.py"), str(tmp_path), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    undisturbed, *resumed = map(json.loads, done.stdout.splitlines())
    assert undisturbed["status"] == "ok", undisturbed
    assert undisturbed["path"] == ["investigate", "investigate", "ask", "answered", "decide"]
    assert len(resumed) == undisturbed["appends"] > 40
    calls = Counter(undisturbed["executed"])
    tools = sum(count for line, count in calls.items() if line.startswith("look"))
    for run in resumed:
        assert (run["killed"], run["code"]) == (-signal.SIGKILL, 0), run["killAt"]
        repeated = Counter(run["executed"]) - calls
        again = Counter(run["executed"]) - Counter(run["before"])
        # a call that had finished is not made again: what is left to do is what had not
        assert sum(n for line, n in again.items() if line.startswith("look")) <= tools - run["finished"], run
        # at most what was under way when the process died is done a second time: two branches
        assert sum(repeated.values()) <= 2, (run["killAt"], repeated)
        assert {name: run[name] for name in SAME} == {name: undisturbed[name] for name in SAME}, run
