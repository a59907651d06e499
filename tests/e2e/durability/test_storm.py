"""Four processes storm one store; afterwards every journal is a serial history.

Five seconds per store here; RULVAR_SOAK=1 gives each a minute.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from postgres_server import require_server

from rulvar import JsonlFileStore, PostgresStore, SqliteStore
from rulvar.testing.conformance.store_suite import close

HERE = Path(__file__).parent
SECONDS = 60.0 if os.environ.get("RULVAR_SOAK") else 5.0
PROCESSES = 4
TTL_S = 0.6


@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_after_a_storm_every_journal_is_a_serial_history(kind: str, tmp_path: Path) -> None:
    place = require_server().dsn if kind == "postgres" else str(tmp_path / "store")
    processes = [storm(kind, place, number, tmp_path) for number in range(PROCESSES)]
    stop_some_for_longer_than_their_leases(processes)
    done: dict[str, int] = defaultdict(int)
    for process in processes:
        out, err = process.communicate(timeout=SECONDS + 60)
        assert process.returncode == 0, err[-4000:]
        for what, count in json.loads(out).items():
            done[what] += count
    assert min(done[what] for what in ("start", "resume", "cancel", "answer", "delete", "refused")) > 0, done
    log = [json.loads(line) for path in tmp_path.glob("*.log") for line in path.read_text().splitlines()]
    asyncio.run(check(kind, place, log))


def storm(kind: str, place: str, number: int, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "storm_process.py"), kind, place, str(number)]
    command += [str(SECONDS), str(TTL_S), str(folder / f"{number}.log")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop_some_for_longer_than_their_leases(processes: list[subprocess.Popen[str]]) -> None:
    chance = random.Random(7)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end - 3 * TTL_S:
        time.sleep(chance.uniform(0.3, 1.0))
        victim = chance.choice(processes)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(TTL_S * 2)
        victim.send_signal(signal.SIGCONT)


async def check(kind: str, place: str, log: list[dict[str, Any]]) -> None:
    store: Any = {
        "files": lambda: JsonlFileStore(place),
        "sqlite": lambda: SqliteStore(Path(place) / "runs.db"),
        "postgres": lambda: PostgresStore(place, schema="storm"),
    }[kind]()
    runs = sorted({item["run"] for item in log})
    assert runs
    for run_id in runs:
        entries = await store.load(run_id)
        mine = [item for item in log if item["run"] == run_id]
        check_history([(e.seq, hashlib.sha256(e.line).hexdigest()) for e in entries], mine, run_id)
        check_references([entry.to_wire() for entry in entries], run_id)
        lease = await store.lease_of(run_id)
        assert lease is None or not lease.is_held, (run_id, lease)
    await close(store)


def check_history(journal: list[tuple[int, str]], log: list[dict[str, Any]], run_id: str) -> None:
    assert [seq for seq, _ in journal] == list(range(len(journal))), f"{run_id}: gaps or duplicates"
    deleted = max((item["epoch"] for item in log if item["what"] == "deleted"), default=-1)
    epochs: dict[tuple[int, str], int] = {}
    stored: set[tuple[int, str]] = set()
    for item in log:
        lines = [(int(seq), str(digest)) for seq, digest in item.get("lines", ())]
        if item["what"] == "trying":
            epochs.update(dict.fromkeys(lines, item["epoch"]))
        elif item["what"] == "stored" and item["epoch"] > deleted:
            stored.update(lines)
    assert stored <= set(journal), f"{run_id}: an acknowledged entry is lost"
    assert all(line in epochs for line in journal), f"{run_id}: an entry that nobody wrote"
    # an entry that is there was written by the owner of its time: epochs never go back along the journal
    along = [epochs[line] for line in journal]
    assert along == sorted(along), f"{run_id}: a superseded owner has written"
    assert all(epoch > deleted for epoch in along), f"{run_id}: an entry outlived its deletion"


def check_references(entries: list[dict[str, Any]], run_id: str) -> None:
    closed: set[int] = set()
    for entry in entries:
        ref = entry.get("ref")
        if ref is not None:
            assert ref < entry["seq"], run_id
            assert ref not in closed, f"{run_id}: entry {ref} is closed twice"
            closed.add(ref)
