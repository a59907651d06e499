"""Runs the triage example once over files; dies by SIGKILL at the n-th append when told to.

python crash_run.py DIRECTORY RUN_ID N(-1: never) [before|after]
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from test_triage import PROFILES, REPORT, librarian
from triage import triage

from rulvar import Engine, JsonlFileStore
from rulvar.testing import FakeAdapter


class CountingAdapter(FakeAdapter):
    """Writes down every exchange when it is asked for."""

    def stream(self, request, signal=None):
        stream = super().stream(request, signal)
        with open(Path(sys.argv[1]) / "asked.txt", "a") as asked:
            asked.write(json.dumps([request.prompt, len(request.messages)]) + "\n")
        return stream


class MortalStore(JsonlFileStore):
    """Kills its process right before or right after the n-th append."""

    appends = 0

    def append_now(self, run_id, entries):
        MortalStore.appends += 1
        dies = MortalStore.appends == int(sys.argv[3])
        if dies and sys.argv[4] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().append_now(run_id, entries)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    store = MortalStore(Path(sys.argv[1]) / "runs")
    model = CountingAdapter(
        agents={
            "classifier": {"severity": "high", "component": "parser"},
            "summary": "An empty header crashes the parser.",
            "librarian": librarian,
            "reply": "Thanks! ana is on it.",
            "reviewer": {"approved": True, "note": "good"},
        }
    )
    async with Engine(
        adapters=[model], journal=store, routing={"loop": "fake:small"}, profiles=PROFILES
    ) as engine:
        resumes = await store.load_meta(sys.argv[2]) is not None
        handle = (
            engine.resume(sys.argv[2], triage, args=REPORT)
            if resumes
            else engine.run(triage, REPORT, run_id=sys.argv[2])
        )
        outcome = await handle.result()
    value = dict(outcome.value)
    value.pop("received")  # the day on which the run first read it
    print(json.dumps({"status": outcome.status, "value": value, "appends": MortalStore.appends}))


asyncio.run(main())
