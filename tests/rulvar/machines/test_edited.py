"""A machine whose class was edited between two segments of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rulvar import Engine, JsonlFileStore, MachineCtx, StateMachine, transition
from rulvar.errors import JournalMissError, ResolutionError
from rulvar.machines.report import read_run
from rulvar.testing import replay_run


def parking(*waits: str, report: str = "report", place: str = "reported", **options: Any) -> type:
    """Return a machine that parks at ``park``, as one edit or another leaves it."""

    def begin(self: Any, ctx: MachineCtx) -> None:
        ctx.state["begun"] = True

    def reports(self: Any, ctx: MachineCtx) -> None: ...

    def way(name: str) -> Any:
        def body(self: Any, ctx: MachineCtx, input: Any) -> None:
            ctx.result[name] = input.data

        return transition("end", "park", wait=True, **options)(body)

    members = {"begin": transition(place)(begin), report: transition("park", place)(reports)}
    members.update({name: way(name) for name in waits})
    return type("Edited", (StateMachine,), members)


async def run(folder: Path, machine: type, *, resume: bool = False) -> Any:
    async with Engine(journal=JsonlFileStore(folder)) as engine:
        handle = engine.resume("r", machine) if resume else engine.run(machine, run_id="r")
        return await handle.result()


async def answer(folder: Path, machine: type, name: str, value: Any) -> None:
    async with Engine(journal=JsonlFileStore(folder)) as engine:
        await engine.resolve_external("r", name, value, wf=machine)


@pytest.mark.parametrize("edited", [parking("go", report="tell"), parking("go", place="elsewhere")])
async def test_what_was_renamed_before_a_park_runs_again_and_the_answer_is_kept(
    edited: type, tmp_path: Path
) -> None:
    await run(tmp_path, parking("go"))
    await answer(tmp_path, parking("go"), "go", 1)
    outcome = await run(tmp_path, edited, resume=True)
    assert (outcome.status, outcome.value) == ("ok", {"go": 1})


@pytest.mark.parametrize("waits", [("onward",), ("go", "onward"), ("onward", "go")])
async def test_a_park_offers_what_the_class_declares_now(waits: tuple[str, ...], tmp_path: Path) -> None:
    await run(tmp_path, parking("go"))
    edited = parking(*waits)
    outcome = await run(tmp_path, edited, resume=True)
    assert [way.transition for way in outcome.pending] == list(waits)
    view = await read_run(JsonlFileStore(tmp_path), "r")
    assert (view.status, view.available_transitions) == ("waiting", list(waits))
    await answer(tmp_path, edited, "onward", 5)
    outcome = await run(tmp_path, edited, resume=True)
    assert (outcome.status, outcome.value) == ("ok", {"onward": 5})
    journal = await JsonlFileStore(tmp_path).load("r")
    replayed = await replay_run(edited, journal=journal)
    assert (replayed.outcome.status, replayed.preview.misses) == ("ok", 0)
    assert replayed.preview.invalid_resolutions == ()
    started = [event.payload for event in (await read_run(JsonlFileStore(tmp_path), "r")).trace]
    assert [payload for payload in started if payload is not None] == [5]


async def test_a_park_that_offers_something_else_stops_a_strict_replay(tmp_path: Path) -> None:
    await run(tmp_path, parking("go"))
    journal = await JsonlFileStore(tmp_path).load("r")
    with pytest.raises(JournalMissError):
        await replay_run(parking("onward"), journal=journal)
    after = await JsonlFileStore(tmp_path).load("r")
    assert [entry.line for entry in after] == [entry.line for entry in journal]


async def test_an_answer_to_a_wait_that_is_gone_says_what_to_do(tmp_path: Path) -> None:
    await run(tmp_path, parking("go"))
    with pytest.raises(ResolutionError, match=r"no transition 'go' at 'park' any more; resume the run"):
        await answer(tmp_path, parking("onward"), "go", 1)


async def test_an_answer_whose_wait_is_gone_is_told_and_the_park_opens_anew(tmp_path: Path) -> None:
    await run(tmp_path, parking("go"))
    await answer(tmp_path, parking("go"), "go", 1)
    async with Engine(journal=JsonlFileStore(tmp_path)) as engine:
        handle = engine.resume("r", parking("onward"))
        outcome = await handle.result()
        assert [way.transition for way in outcome.pending] == ["onward"]
        assert len((await handle.preview()).invalid_resolutions) == 1


async def test_another_payload_schema_is_offered_after_a_resume(tmp_path: Path) -> None:
    await run(tmp_path, parking("go"))
    edited = parking("go", payload={"type": "integer"})
    with pytest.raises(ResolutionError, match="is not of type"):
        await answer(tmp_path, edited, "go", "x")
    await run(tmp_path, edited, resume=True)
    [way] = (await read_run(JsonlFileStore(tmp_path), "r")).waits
    assert way.schema == {"type": "integer"}
