"""A process killed at any append: the resumed run ends the same, and no finished call is made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs" / "examples" / "triage"


def run(directory: Path, kill_at: int, when: str = "after") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(EXAMPLE)}
    command = [sys.executable, str(HERE / "crash_run.py"), str(directory), "r1", str(kill_at), when]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def journal(directory: Path) -> list[dict[str, Any]]:
    path = directory / "runs" / "r1.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def asked(directory: Path) -> Counter[str]:
    path = directory / "asked.txt"
    return Counter(path.read_text().splitlines() if path.exists() else [])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("undisturbed")
    done = run(directory, -1)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    result["asked"] = asked(directory)
    result["directory"] = directory
    return result


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_run_resumes_to_the_same_end_and_pays_nothing_twice(
    undisturbed: dict[str, Any], when: str, tmp_path: Path
) -> None:
    for kill_at in range(1, undisturbed["appends"] + 1):
        directory = tmp_path / str(kill_at)
        directory.mkdir()
        killed = run(directory, kill_at, when)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        finished = {
            entry["ref"]: entry for entry in journal(directory) if entry["kind"] == "agent" and "ref" in entry
        }
        before = asked(directory)
        resumed = run(directory, -1)
        assert resumed.returncode == 0, resumed.stderr
        result = json.loads(resumed.stdout)
        assert (result["status"], result["value"]) == ("ok", undisturbed["value"]), kill_at
        again = asked(directory) - before
        # an exchange is asked again only when its call had not finished before the crash
        unfinished = sum(undisturbed["asked"].values()) - sum(
            len(entry["providerCalls"]) for entry in finished.values()
        )
        assert sum(again.values()) <= unfinished, kill_at
        calls_made_once = Counter(
            line for line in undisturbed["asked"] if prompt_of(line) in finished_prompts(directory, finished)
        )
        assert not (again & calls_made_once), (kill_at, again & calls_made_once)
        assert len([entry for entry in journal(directory) if is_settle(entry)]) == 1


def prompt_of(line: str) -> str:
    prompt: str = json.loads(line)[0]
    return prompt


def finished_prompts(directory: Path, finished: dict[int, dict[str, Any]]) -> set[str]:
    """Prompts of the calls that had a terminal entry, from their transcripts."""
    prompts = set()
    for entry in finished.values():
        path = directory / "runs" / "transcripts" / f"{entry['transcriptRef']}.bin"
        messages = json.loads(path.read_bytes())["messages"]
        prompts.add(messages[0]["parts"][0]["text"])
    return prompts


def is_settle(entry: dict[str, Any]) -> bool:
    return entry["kind"] == "decision" and entry["value"].get("decisionType") == "run_settle"
