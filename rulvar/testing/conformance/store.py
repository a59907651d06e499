"""What every journal store owes the engine, as a suite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.ports.store import JournalStore
from rulvar.errors import JournalOrderViolation

__all__ = ["StoreConformance"]

RUN = "run-1"
Case = Callable[[JournalStore], Awaitable[None]]


def entry(seq: int, **fields: Any) -> JournalEntry:
    """Return an entry as the engine writes one."""
    wire = {
        "hashVersion": 2, "seq": seq, "scope": "", "key": f"key-{seq}", "ordinal": 0, "kind": "step", "status": "ok",
        "spanId": "s0", "startedAt": "2026-11-30T10:00:00.000Z", **fields,
    }  # fmt: skip
    return JournalEntry.from_wire(wire)


def meta(run_id: str = RUN, **fields: Any) -> dict[str, Any]:
    """Return a meta row as the engine writes one."""
    row = {"runId": run_id, "status": "running", "segments": 1, "updatedAt": "2026-11-30T10:00:00.000Z"}
    return {**row, "workflowName": "wf", "argsProvided": False, **fields}


class StoreConformance:
    """The suite: subclass it as ``TestSomething`` and say how to make the store.

    ::

        class TestMyStore(StoreConformance):
            def make_store(self):
                return MyStore(self.folder())

    A durable store also overrides ``reopen``, so that what is kept can be looked at from outside.
    """

    def make_store(self) -> JournalStore:
        """Return an empty store; called once per case."""
        raise NotImplementedError("make_store: return the store under test")

    def reopen(self, store: JournalStore) -> JournalStore | None:
        """Return another store over the same data, or None when the data lives with the object."""
        return None

    def check(self, case: Case) -> None:
        """Run one case against a new store."""

        async def run() -> None:
            store = self.make_store()
            try:
                await case(store)
            finally:
                close = getattr(store, "close", None)
                closing = close() if close is not None else None
                if asyncio.iscoroutine(closing):
                    await closing

        asyncio.run(run())

    def test_an_unknown_run_is_empty(self) -> None:
        async def case(store: JournalStore) -> None:
            assert await store.load("nobody") == []
            assert await store.load_meta("nobody") is None
            await store.delete("nobody")

        self.check(case)

    def test_entries_are_loaded_in_the_order_in_which_they_were_appended(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0), entry(1)])
            await store.append(RUN, [entry(5)])
            assert [item.seq for item in await store.load(RUN)] == [0, 1, 5]

        self.check(case)

    def test_an_append_of_nothing_changes_nothing(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0)])
            await store.append(RUN, [])
            assert [item.seq for item in await store.load(RUN)] == [0]

        self.check(case)

    def test_an_append_behind_the_tail_is_refused_and_stores_nothing(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0), entry(3)])
            for batch in ([entry(3)], [entry(1)], [entry(4), entry(4)], [entry(5), entry(2)]):
                try:
                    await store.append(RUN, batch)
                except JournalOrderViolation:
                    pass
                else:
                    raise AssertionError(f"accepted {[item.seq for item in batch]} behind seq 3")
                assert [item.seq for item in await store.load(RUN)] == [0, 3]
            await store.append(RUN, [entry(4)])
            assert [item.seq for item in await store.load(RUN)] == [0, 3, 4]

        self.check(case)

    def test_unknown_kinds_and_fields_survive(self) -> None:
        async def case(store: JournalStore) -> None:
            strange = entry(
                0, kind="plan.decision", later={"a": [1, None, {"b": 2.5}]}, value="ü 日本 \u2028 🧪"
            )
            await store.append(RUN, [strange])
            [kept] = await store.load(RUN)
            assert kept.kind == "plan.decision"
            assert kept.to_wire() == strange.to_wire()
            assert decode_json(kept.line) == decode_json(strange.line)

        self.check(case)

    def test_runs_do_not_see_each_other(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append("run-a", [entry(0)])
            await store.append("run-b", [entry(0), entry(1)])
            assert len(await store.load("run-a")) == 1
            assert len(await store.load("run-b")) == 2
            await store.delete("run-a")
            assert await store.load("run-a") == []
            assert len(await store.load("run-b")) == 2

        self.check(case)

    def test_what_was_loaded_is_the_callers_own(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0)])
            (await store.load(RUN)).clear()
            assert len(await store.load(RUN)) == 1

        self.check(case)

    def test_a_meta_row_is_replaced_as_a_whole(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.save_meta(RUN, meta(tags=["a"]))
            await store.save_meta(RUN, meta(status="ok", later={"x": 1}))
            kept = await store.load_meta(RUN)
            assert kept == meta(status="ok", later={"x": 1})
            kept.clear()
            assert await store.load_meta(RUN) == meta(status="ok", later={"x": 1})

        self.check(case)

    def test_runs_are_listed_by_id(self) -> None:
        async def case(store: JournalStore) -> None:
            for run_id in ("run-c", "run-a", "run-b"):
                await store.save_meta(run_id, meta(run_id))
            assert [row["runId"] for row in await store.list_runs()] == ["run-a", "run-b", "run-c"]

        self.check(case)

    def test_a_deleted_run_is_gone(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0)])
            await store.save_meta(RUN, meta())
            await store.delete(RUN)
            assert (await store.load(RUN), await store.load_meta(RUN), await store.list_runs()) == (
                [],
                None,
                [],
            )
            await store.append(RUN, [entry(0)])
            assert len(await store.load(RUN)) == 1

        self.check(case)

    def test_many_entries_are_kept(self) -> None:
        async def case(store: JournalStore) -> None:
            for start in range(0, 2000, 100):
                await store.append(RUN, [entry(seq) for seq in range(start, start + 100)])
            assert [item.seq for item in await store.load(RUN)] == list(range(2000))

        self.check(case)

    def test_what_is_kept_is_seen_by_another_store_over_the_same_data(self) -> None:
        async def case(store: JournalStore) -> None:
            await store.append(RUN, [entry(0, value={"n": 1})])
            await store.save_meta(RUN, meta())
            other = self.reopen(store)
            if other is None:
                return
            [kept] = await other.load(RUN)
            assert kept.value == {"n": 1}
            assert await other.load_meta(RUN) == meta()
            await other.append(RUN, [entry(1)])
            assert [item.seq for item in await other.load(RUN)] == [0, 1]

        self.check(case)
