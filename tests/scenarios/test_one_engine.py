"""Scenarios S39 and S40: a machine resumes and replays as any workflow does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulvar import Engine, JsonlFileStore, MachineCtx, StateMachine, transition
from rulvar.errors import JournalMissError
from rulvar.machines.fold import fold_run
from rulvar.testing import replay_run

DOWN = {"text": "Production is down!"}


async def run_parked_then_resumed(ref: Any, folder: Path) -> tuple[Any, Any, Any]:
    async with Engine(journal=JsonlFileStore(folder)) as engine:
        handle = engine.run(ref.TriageTicket, DOWN, run_id="r1")
        assert (await handle.result()).status == "suspended"
        await handle.answer("approve", {"approved": True})
    store = JsonlFileStore(folder)
    async with Engine(journal=store) as engine:
        resumed = engine.resume("r1", ref.TriageTicket, args=DOWN)
        return store, await resumed.result(), await resumed.preview()


async def test_s39_resume_of_a_machine(ref: Any, tmp_path: Path) -> None:
    store, outcome, preview = await run_parked_then_resumed(ref, tmp_path)
    assert (outcome.status, outcome.value) == ("ok", {"severity": "high", "approved": True})
    assert len(preview.orphaned) == 0
    assert ref.executions == {"classify_ticket": 1}
    view = fold_run(await store.load("r1"), "r1", await store.load_meta("r1"))
    assert view.path == ["classify", "report", "approve"]
    assert [item.name for item in view.documents].count("triage_report") == 1


async def test_s40_strict_replay_of_a_machine(ref: Any, tmp_path: Path) -> None:
    store, _, _ = await run_parked_then_resumed(ref, tmp_path)
    journal = await store.load("r1")
    replayed = await replay_run(ref.TriageTicket, DOWN, journal=journal)
    assert (replayed.outcome.status, replayed.preview.misses) == ("ok", 0)
    assert ref.executions == {"classify_ticket": 1}
    enriched: list[str] = []

    class Edited(ref.TriageTicket, args=ref.TriageTicket.definition.args, name="triage_ticket"):  # type: ignore[misc,name-defined]
        @transition(from_="classified", to="enriched", priority=1, guard="is_new")
        async def enrich(self, ctx: MachineCtx) -> None:
            enriched.append("enrich")

        def is_new(self, state: Any) -> bool:
            return True

    assert issubclass(Edited, StateMachine)
    with pytest.raises(JournalMissError, match="enrich"):
        await replay_run(Edited, DOWN, journal=journal)
    assert enriched == []
