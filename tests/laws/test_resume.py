"""Laws of durability, for random workflows: stopping anywhere and resuming is the same as never stopping."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenario_language import ScenarioWorkflow

from rulvar import Engine
from rulvar.contracts.entries import JournalEntry
from rulvar.stores import InMemoryStore
from rulvar.testing import FakeAdapter
from rulvar.testing.engine import fake_routing

NAMES = st.sampled_from(["a", "b", "c"])


def ops(depth: int) -> st.SearchStrategy[Any]:
    simple = st.one_of(
        st.builds(lambda p: {"agent": f"ask {p}", "as": p}, NAMES),
        st.builds(lambda p, q: {"agent": "about {{" + q + "}}", "as": p}, NAMES, NAMES),
        st.builds(lambda p, v: {"step": f"step {p}", "value": v, "as": p}, NAMES, st.integers(0, 3)),
        st.builds(
            lambda p, q: {"step": p, "deps": ["{{" + q + "}}"], "value": "{{" + q + "}}", "as": p},
            NAMES,
            NAMES,
        ),
        st.builds(
            lambda p: {
                "try": [{"step": f"bad {p}", "throws": "broken"}],
                "catch": [{"step": "mended", "value": 1}],
            },
            NAMES,
        ),
        st.builds(
            lambda p: {"try": [{"agent": f"fail {p}"}], "catch": [{"agent": f"instead of {p}", "as": p}]},
            NAMES,
        ),
        st.just({"random": "k", "as": "r"}),
        st.just({"uuid": True, "as": "u"}),
        st.just({"now": True, "as": "n"}),
    )
    if depth == 0:
        return simple
    blocks = st.lists(ops(depth - 1), min_size=0, max_size=3)
    returning = blocks.map(lambda body: [*body, {"return": ["{{a}}", "{{b}}"]}])
    return st.one_of(
        simple,
        st.builds(
            lambda branches, settle: {"parallel": branches, "settle": settle, "as": "a"},
            st.lists(returning, max_size=3),
            st.booleans(),
        ),
        st.builds(
            lambda stages: {"pipeline": [1, 2], "stages": stages, "as": "b"},
            st.lists(returning, min_size=1, max_size=2),
        ),
        st.builds(
            lambda name, body: {"workflow": {"name": name, "body": body}, "args": {"n": 1}, "as": "c"},
            NAMES,
            returning,
        ),
        st.builds(lambda body: {"phase": "p", "body": body}, blocks),
        st.builds(lambda n, body: {"repeat": n, "body": body}, st.integers(0, 2), blocks),
    )


BODIES = st.lists(ops(2), min_size=1, max_size=5).map(
    lambda body: [*body, {"return": ["{{a}}", "{{b}}", "{{c}}", "{{r}}"]}]
)


class Fixed:
    """A clock and a source of chance that always say the same."""

    def now_ms(self) -> int:
        return 1_800_000_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def random(self) -> float:
        return 0.25

    def uuid4(self) -> str:
        return "00000000-0000-4000-8000-000000000000"


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


def answer(call: Any) -> str:
    if call.prompt.startswith("fail"):
        raise RuntimeError("failed")
    return f"<{call.prompt}>"


def engine_over(store: InMemoryStore) -> tuple[Engine, FakeAdapter]:
    fake = FakeAdapter(agents={"*": answer})
    fixed = Fixed()
    engine = Engine(
        adapters=[fake],
        journal=store,
        routing=fake_routing(),
        clock=fixed,
        entropy=fixed,
        budget_defaults={"max_depth": 4},
    )
    return engine, fake


async def run_to_end(store: InMemoryStore, body: Any, *, resume: bool) -> tuple[Any, FakeAdapter, Any]:
    workflow = ScenarioWorkflow({"agents": {}}, {}).build({"name": "w", "body": body})
    engine, fake = engine_over(store)
    async with engine:
        handle: Any = engine.resume("r", workflow) if resume else engine.run(workflow, run_id="r")
        outcome = await handle.result()
        preview = await handle.preview() if resume else None
    return outcome, fake, preview


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=BODIES, where=st.floats(0, 1))
def test_stopping_after_any_append_and_resuming_equals_never_stopping(body: Any, where: float) -> None:
    async def check() -> None:
        whole = InMemoryStore()
        expected, fake, _ = await run_to_end(whole, body, resume=False)
        entries = len(await whole.load("r"))
        stopped = Stopping(int(where * entries))
        broken, first, _ = await run_to_end(stopped, body, resume=False)
        if len(await stopped.load("r")) == entries:
            return
        assert broken.error is None or broken.error.code in ("settlement", "error", "config")
        survived = InMemoryStore()
        survived.append_now("r", await stopped.load("r"))
        await survived.save_meta("r", {"runId": "r", "status": "running", "segments": 1, "workflowName": "w"})
        done = {
            entry.ref for entry in await survived.load("r") if entry.kind == "agent" and entry.status == "ok"
        }
        outcome, second, _ = await run_to_end(survived, body, resume=True)
        assert (outcome.status, outcome.value) == (expected.status, expected.value)
        made = Counter(call.prompt for call in second.calls)
        all_calls = Counter(call.prompt for call in fake.calls)
        assert sum(made.values()) <= sum(all_calls.values()) - len(done)
        assert len(first.calls) <= len(fake.calls)

    asyncio.run(check())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=BODIES)
def test_replaying_appends_nothing_but_what_failed_before(body: Any) -> None:
    async def check() -> None:
        store = InMemoryStore()
        expected, _, _ = await run_to_end(store, body, resume=False)
        before = [entry.line for entry in await store.load("r")]
        outcome, again, preview = await run_to_end(store, body, resume=True)
        assert (outcome.status, outcome.value) == (expected.status, expected.value)
        after = [entry.line for entry in await store.load("r")]
        assert after[: len(before)] == before
        assert preview.misses == 0
        if preview.reruns == 0:
            assert after == before
            assert again.calls == []

    asyncio.run(check())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=BODIES)
def test_a_journal_is_a_serial_history(body: Any) -> None:
    async def check() -> None:
        store = InMemoryStore()
        await run_to_end(store, body, resume=False)
        entries = await store.load("r")
        assert [entry.seq for entry in entries] == list(range(len(entries)))
        assert all(entry.ref is None or entry.ref < entry.seq for entry in entries)
        opened = {entry.seq for entry in entries if entry.status == "running"}
        closed = [entry.ref for entry in entries if entry.ref is not None and entry.kind != "resolution"]
        assert sorted(closed) == sorted(opened)
        places = Counter((e.scope, e.key, e.ordinal) for e in entries if e.ref is None)
        assert max(places.values(), default=1) == 1

    asyncio.run(check())
