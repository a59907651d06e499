"""Laws of durability, for random workflows: stopping anywhere and resuming is the same as never stopping."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_scenarios import BODIES, RUN, NoDiskError, Runner, Stopping, has_abort

from rulvar.errors import StoreError

EXAMPLES = int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "40"))  # more of them for a longer look
LAW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


async def lines(store: Stopping) -> list[bytes]:
    return [entry.line for entry in await store.load(RUN)]


@LAW
@given(body=BODIES, where=st.floats(0, 1), live=st.booleans())
def test_stopping_after_any_append_and_resuming_equals_never_stopping(
    body: Any, where: float, live: bool
) -> None:
    async def check() -> None:
        whole, never_stopped = Stopping(), Runner(body, live=live)
        expected = await never_stopped.to_the_end(whole)
        stopped, stopping = Stopping(int(where * whole.appends)), Runner(body, live=live)
        try:
            outcome = await stopping.to_the_end(stopped)
        except (NoDiskError, StoreError):  # the human's answer found no disk
            pass
        else:
            assert outcome.error is None or outcome.error.code in ("settlement", "error", "config")
        first = stopping.calls.total()
        store = await stopped.survived()
        entries = await store.load(RUN)
        done = {entry.ref for entry in entries if entry.kind == "agent" and entry.status == "ok"}
        outcome = await stopping.to_the_end(store, resume=True)
        assert (outcome.status, outcome.value) == (expected.status, expected.value)
        assert stopping.calls.total() - first <= never_stopped.calls.total() - len(done)

    asyncio.run(check())


@LAW
@given(body=BODIES, live=st.booleans())
def test_replaying_twice_appends_nothing_but_what_failed_before(body: Any, live: bool) -> None:
    async def check() -> None:
        store, runner = Stopping(), Runner(body, live=live)
        expected = await runner.to_the_end(store)
        for _ in range(2):
            before, calls = await lines(store), runner.calls.total()
            outcome, preview = await runner.segment(store, resume=True)
            assert (outcome.status, outcome.value) == (expected.status, expected.value)
            after = await lines(store)
            assert after[: len(before)] == before
            assert preview.misses == 0 or (live and has_abort(body))
            if preview.reruns == preview.misses == 0:
                assert after == before
                assert runner.calls.total() == calls

    asyncio.run(check())


@LAW
@given(body=BODIES, live=st.booleans())
def test_a_journal_is_a_serial_history(body: Any, live: bool) -> None:
    async def check() -> None:
        store, runner = Stopping(), Runner(body, live=live)
        await runner.to_the_end(store)
        entries = await store.load(RUN)
        assert [entry.seq for entry in entries] == list(range(len(entries)))
        assert all(entry.ref is None or entry.ref < entry.seq for entry in entries)
        opened = {entry.seq for entry in entries if entry.status == "running"}
        closed = [entry.ref for entry in entries if entry.ref is not None and entry.kind != "resolution"]
        assert sorted(closed) == sorted(opened)
        places = Counter((e.scope, e.key, e.ordinal) for e in entries if e.ref is None)
        assert max(places.values(), default=1) == 1

    asyncio.run(check())
