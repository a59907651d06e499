"""Laws of state machines, for random machines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from fixed_clock import Fixed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_machines import MACHINES, Bench

from rulvar import Engine
from rulvar.contracts.entries import JournalEntry
from rulvar.errors import StoreError
from rulvar.machines.app import definition_of
from rulvar.machines.fold import fold_run
from rulvar.machines.view import RunView
from rulvar.stores import InMemoryStore
from rulvar.testing import diff_traces, replay_run, run_workflow

SLOW = [HealthCheck.too_slow]


class Stopping(InMemoryStore):
    """Takes n appends and refuses the rest, as a machine that has lost its disk."""

    def __init__(self, appends: int) -> None:
        super().__init__()
        self.left = appends

    def append_now(self, run_id: str, entries: Sequence[JournalEntry]) -> None:
        if self.left == 0:
            raise OSError("no disk")
        self.left -= 1
        super().append_now(run_id, entries)


ANSWERS = {f"{kind}{n}": {"answer": n} for kind in ("t", "recover") for n in range(4)}


async def to_the_end(store: InMemoryStore, machine: Any, *, resume: bool) -> Any:
    """Run a machine, answering whatever it asks, failed or waiting."""
    fixed = Fixed()
    engine = Engine(
        journal=store, clock=fixed, entropy=fixed, serial_children=True, trace=True, determinism="off"
    )
    handle: Any = engine.resume("r", machine) if resume else engine.run(machine, run_id="r")
    outcome = await handle.result()
    for _ in range(20):
        view = await viewed(store)
        # what failed for good is not tried again by hand: it would fail for ever
        named = [way for way in view.waits if way.transition in ANSWERS]
        ways = named if outcome.status == "suspended" else [w for w in named if w.transition[:7] == "recover"]
        way = next(iter(ways), None)
        if outcome.status not in ("suspended", "error") or way is None:
            return outcome
        await engine.resolve_external("r", way.key, ANSWERS[way.transition or ""], wf=machine)
        outcome = await engine.resume("r", machine).result()
    raise AssertionError("the machine does not end")


async def viewed(store: InMemoryStore) -> RunView:
    return fold_run(await store.load("r"), "r", await store.load_meta("r"))


def what_is_there(view: RunView) -> Any:
    return [
        (
            node.workflow,
            node.status,
            node.place,
            node.path,
            node.state,
            node.result,
            node.error,
            [(item.name, item.key, item.content) for item in node.documents],
            [(event.type, event.transition_id, event.tool_name, event.status) for event in node.trace],
        )
        for node in view.tree()
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(links=MACHINES, where=st.floats(0, 1))
def test_stopping_after_any_append_and_resuming_equals_never_stopping(links: Any, where: float) -> None:
    async def check() -> None:
        bench = Bench()
        machine = bench.machine(links)
        whole = InMemoryStore()
        expected = await to_the_end(whole, machine, resume=False)
        executions = bench.executions.copy()
        entries = len(await whole.load("r"))
        stopped = Stopping(int(where * entries))
        bench.executions.clear()
        with contextlib.suppress(OSError, StoreError):
            await to_the_end(stopped, machine, resume=False)
        before = bench.executions.copy()
        survived = InMemoryStore()
        journal = await stopped.load("r")
        survived.append_now("r", journal)
        meta = {"runId": "r", "status": "running", "segments": 99, "workflowName": "random", "trace": True}
        await survived.save_meta("r", meta)
        finished = sum(
            1 for e in journal if e.kind == "step" and e.ref is not None and b'"receipt"' in e.line
        )
        outcome = await to_the_end(survived, machine, resume=True)
        assert (outcome.status, outcome.value) == (expected.status, expected.value)
        assert what_is_there(await viewed(survived)) == what_is_there(await viewed(whole))
        again = bench.executions - before
        assert sum(again.values()) == sum(executions.values()) - finished

    asyncio.run(check())


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(links=MACHINES)
def test_a_strict_replay_calls_nothing_and_appends_nothing(links: Any) -> None:
    async def check() -> None:
        bench = Bench()
        machine = bench.machine(links)
        store = InMemoryStore()
        expected = await to_the_end(store, machine, resume=False)
        bench.executions.clear()
        replayed = await replay_run(machine, journal=(store, "r"))
        assert (replayed.outcome.status, replayed.outcome.value) == (expected.status, expected.value)
        assert (replayed.preview.misses, replayed.preview.orphaned) == (0, ())
        before = [entry.line for entry in await store.load("r")]
        outcome = await to_the_end(store, machine, resume=True)
        assert (outcome.status, outcome.value) == (expected.status, expected.value)
        assert [entry.line for entry in await store.load("r")] == before
        assert not bench.executions

    asyncio.run(check())


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(links=MACHINES)
def test_the_trace_folds_to_the_state_and_the_journal(links: Any) -> None:
    async def check() -> None:
        store = InMemoryStore()
        await to_the_end(store, Bench().machine(links), resume=False)
        for node in (await viewed(store)).tree():
            state: dict[str, Any] = {}
            for event in node.trace:
                for key, change in (event.get("stateDiff") or {}).items():
                    assert state.get(key) == change.get("before", None)
                    if "after" in change:
                        state[key] = change["after"]
                    else:
                        del state[key]
            assert state == node.state
            assert [event.seq for event in node.trace] == list(range(len(node.trace)))
            called = [event.type for event in node.trace if event.type == "tool.called"]
            assert len(called) == len(node.tool_calls)
            started = [e for e in node.trace if e.type == "transition.started"]
            assert len(started) == len(node.path)
            queued = [e.child_workflow_id for e in node.trace if e.type == "child.queued"]
            assert queued == [child.run_id for child in node.children]

    asyncio.run(check())


@pytest.mark.filterwarnings("ignore::rulvar.testing.UnusedAnswerWarning")
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(links=MACHINES)
def test_a_replayed_fixture_executes_nothing_and_makes_the_same(links: Any) -> None:
    async def check() -> None:
        bench = Bench()
        machine = bench.machine(links)
        fixed = Fixed()
        definition = definition_of(machine)
        assert definition is not None
        names = ANSWERS.keys() & {way.name for way in definition.transitions}
        answers = {name: ANSWERS[name] for name in names}
        options: dict[str, Any] = {"answers": answers, "entropy": fixed, "determinism": "off"}
        recorded = await run_workflow(machine, record=True, **options)
        assert recorded.recordings is not None
        assert len(recorded.recordings) == sum(bench.executions.values())
        bench.executions.clear()
        replayed = await run_workflow(machine, replay=recorded.recordings.to_wire(), **options)
        assert not bench.executions
        assert (replayed.status, replayed.result, replayed.state) == (
            recorded.status,
            recorded.result,
            recorded.state,
        )
        assert [item.content for item in replayed.documents] == [item.content for item in recorded.documents]
        assert diff_traces(recorded, replayed) is None

    asyncio.run(check())
