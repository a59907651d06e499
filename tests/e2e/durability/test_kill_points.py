"""A process killed at any durable write of any store: the run goes on, and pays again only what is documented.

What is documented (docs/howto/stores.md): a call whose end was stored is never made again; an agent call goes
on at its last checkpoint; everything else is made again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import require_server

HERE = Path(__file__).parent
SUPPORT = HERE.parents[1] / "support"
STORES = ("files", "files-group", "sqlite", "postgres")
EFFECTS = ["first", "first turn", "tool", "second turn", "left", "right", "inner", "slow"]
WRITES = {
    "acquire",
    "renew",
    "release",
    "meta running",
    "meta ok",
    "step running",
    "step ok",
    "agent running",
}
WRITES |= {"agent ok", "checkpoint", "transcript", "run_settle", "child ok"}


@pytest.fixture(scope="module", params=STORES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    kind = request.param
    command = [sys.executable, str(HERE / "kill_points.py"), kind, str(tmp_path_factory.mktemp(kind))]
    if kind == "postgres":
        command.append(require_server().dsn)
    env = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def paid(trace: list[list[str]]) -> list[str]:
    return [name for what, name in trace if what == "paid"]


def covered(entries: list[dict[str, Any]], checkpoints: list[str]) -> set[str]:
    """Return the effects that a journal and its checkpoints make permanent."""
    kept = {entry["value"] for entry in entries if entry["kind"] == "step" and entry["status"] == "ok"}
    if checkpoints:
        kept |= {"first turn", "tool"}
    if any(entry["kind"] == "agent" and entry["status"] == "ok" for entry in entries):
        kept |= {"first turn", "tool", "second turn"}
    return kept


def test_every_kind_of_write_is_a_kill_point(report: dict[str, Any]) -> None:
    assert report["code"] == 0
    assert paid(report["trace"]) == EFFECTS
    assert {name.split(" #")[0] for what, name in report["trace"] if what == "before"} >= WRITES
    assert len(report["seen"]) >= 40


def test_the_resumed_run_ends_as_if_nothing_had_happened(report: dict[str, Any]) -> None:
    for seen in report["seen"]:
        result, expected = seen["result"], report["undisturbed"]
        assert seen["killed"] == -signal.SIGKILL, seen["victim"]
        assert seen["resumed"] == 0, seen["victim"]
        assert result["error"] is None, (seen["victim"], result["error"])
        assert (result["status"], result["value"]) == ("ok", expected["value"]), seen["victim"]


def test_exactly_what_was_not_made_permanent_is_paid_again(report: dict[str, Any]) -> None:
    for seen in report["seen"]:
        kept = covered(seen["result"]["survived"], seen["result"]["checkpoints"])
        assert paid(seen["second"]) == [name for name in EFFECTS if name not in kept], seen["victim"]
        # at most one thing at a time was under way: a branch, or an agent's turn with its tool
        again = set(paid(seen["first"])) & set(paid(seen["second"]))
        assert again <= {"first turn", "tool"} or len(again) <= 2, (seen["victim"], again)


def test_nothing_that_was_acknowledged_is_lost(report: dict[str, Any]) -> None:
    for seen in report["seen"]:
        acknowledged = {
            int(seq) for what, seqs in seen["first"] if what == "acknowledged" for seq in seqs.split()
        }
        survived = {entry["seq"] for entry in seen["result"]["survived"]}
        assert acknowledged <= survived, seen["victim"]


def test_the_journal_is_a_serial_history_with_one_settle(report: dict[str, Any]) -> None:
    for seen in report["seen"]:
        entries = seen["result"]["entries"]
        assert [entry["seq"] for entry in entries] == list(range(len(entries))), seen["victim"]
        assert entries[: len(seen["result"]["survived"])] == seen["result"]["survived"], seen["victim"]
        closed = [entry["ref"] for entry in entries if "ref" in entry]
        assert len(set(closed)) == len(closed), seen["victim"]
        settles = [e for e in entries if (e.get("value") or {}) and is_settle(e)]
        assert len(settles) == 1, seen["victim"]
        assert is_settle(entries[-1]), seen["victim"]


def test_the_meta_row_is_healed_and_the_run_is_free(report: dict[str, Any]) -> None:
    for seen in report["seen"]:
        assert (seen["result"]["meta"], seen["result"]["held"]) == ("ok", False), seen["victim"]


def is_settle(entry: dict[str, Any]) -> bool:
    return entry["kind"] == "decision" and entry["value"].get("decisionType") == "run_settle"
