"""What every store owes a journal and its meta row."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import decode_entry
from rulvar.errors import ConfigError, JournalOrderViolation
from rulvar.testing.conformance.store_suite import StoreSuite, entry, meta, refused, seqs

__all__ = ["JournalCases"]

RUN = "run-1"
_BAD_IDS = ("", ".", "..", "a/b", "../a", "a\\b", "a b", "a\n", "ä", "a\0", "x" * 201)


class JournalCases(StoreSuite):
    """Journals and meta rows."""

    def test_entries_are_loaded_in_the_order_in_which_they_were_appended(self) -> None:
        async def case(store: Any) -> None:
            await store.append(RUN, [entry(0), entry(1)])
            await store.append(RUN, [entry(5)])
            assert [item.seq for item in await store.load(RUN)] == [0, 1, 5]

        self.check(case)

    def test_an_append_behind_the_tail_is_refused_and_stores_nothing(self) -> None:
        async def case(store: Any) -> None:
            await store.append(RUN, [entry(0), entry(3)])
            for batch in ([entry(3)], [entry(1)], [entry(4), entry(4)], [entry(5), entry(2)]):
                await refused(JournalOrderViolation, store.append(RUN, batch), f"{seqs(batch)} behind seq 3")
                assert [item.seq for item in await store.load(RUN)] == [0, 3]
            await store.append(RUN, [entry(4)])
            assert [item.seq for item in await store.load(RUN)] == [0, 3, 4]

        self.check(case)

    def test_unknown_kinds_and_fields_survive(self) -> None:
        async def case(store: Any) -> None:
            strange = entry(
                0, kind="plan.decision", later={"a": [1, None, {"b": 2.5}]}, value="ü 日本 \u2028 🧪"
            )
            await store.append(RUN, [strange])
            [kept] = await store.load(RUN)
            assert kept.kind == "plan.decision"
            assert kept.to_wire() == strange.to_wire()
            assert decode_json(kept.line) == decode_json(strange.line)

        self.check(case)

    def test_what_was_loaded_is_the_callers_own(self) -> None:
        async def case(store: Any) -> None:
            await store.append(RUN, [entry(0)])
            (await store.load(RUN)).clear()
            assert len(await store.load(RUN)) == 1

        self.check(case)

    def test_a_meta_row_is_replaced_as_a_whole(self) -> None:
        async def case(store: Any) -> None:
            await store.save_meta(RUN, meta(RUN, tags=["a"]))
            await store.save_meta(RUN, meta(RUN, status="ok", later={"x": 1}))
            kept = await store.load_meta(RUN)
            assert kept == meta(RUN, status="ok", later={"x": 1})
            kept.clear()
            assert await store.load_meta(RUN) == meta(RUN, status="ok", later={"x": 1})

        self.check(case)

    def test_runs_are_listed_by_id(self) -> None:
        async def case(store: Any) -> None:
            for run_id in ("run-c", "run-a", "run-b"):
                await store.save_meta(run_id, meta(run_id))
            assert [row["runId"] for row in await store.list_runs()] == ["run-a", "run-b", "run-c"]

        self.check(case)

    def test_what_is_kept_is_seen_by_another_store_over_the_same_data(self) -> None:
        async def case(store: Any, other: Any) -> None:
            await store.append(RUN, [entry(0, value={"n": 1})])
            await store.save_meta(RUN, meta(RUN))
            [kept] = await other.load(RUN)
            assert kept.value == {"n": 1}
            assert await other.load_meta(RUN) == meta(RUN)
            await other.append(RUN, [entry(1)])
            assert [item.seq for item in await other.load(RUN)] == [0, 1]
            await refused(JournalOrderViolation, store.append(RUN, [entry(1)]))

        self.check_two(case, is_shared=True)

    def test_an_unknown_run_has_no_entries_and_no_meta(self) -> None:
        async def case(store: Any) -> None:
            assert await store.load("nobody") == []
            assert await store.load_meta("nobody") is None
            assert await store.list_runs() == []
            await store.delete("nobody")

        self.check(case)

    def test_entries_come_back_byte_for_byte_and_in_order(self) -> None:
        lines = [
            b'{"hashVersion":2,"seq":0,"kind":"future.kind","zzz":{"k":[1e21,0.1,-0]},"b":"\\ud800"}',
            b'{"hashVersion":2,  "seq":3,"kind":"step","status":"ok","value":"\\u0000 \xc3\xa9"}',
            b'{"v":1,"seq":4,"kind":"rand","status":"ok","scope":"","key":"","ordinal":0}',
            entry(2**40).line,
        ]

        async def case(store: Any) -> None:
            entries = [decode_entry(line) for line in lines]
            await store.append("r", entries[:2])
            await store.append("r", entries[2:])
            loaded = await store.load("r")
            assert [item.line for item in loaded] == lines
            assert [item.seq for item in loaded] == [0, 3, 4, 2**40]
            assert loaded[2].hash_version == 1

        self.check(case)

    def test_an_empty_append_stores_nothing(self) -> None:
        async def case(store: Any) -> None:
            await store.append("r", [])
            assert await store.load("r") == []

        self.check(case)

    def test_runs_with_similar_names_are_apart(self) -> None:
        names = ["r", "r1", "r10", "r_1", "r.1", "r-1", "r.meta", "r.jsonl", "x" * 200, "rX1", "0", "-", "_"]

        async def case(store: Any) -> None:
            for number, name in enumerate(names):
                await store.append(name, [entry(number)])
                await store.save_meta(name, {"runId": name, "status": "ok"})
            await store.delete("r_1")
            await store.delete("r")
            left = [name for name in names if name not in ("r_1", "r")]
            assert [meta["runId"] for meta in await store.list_runs()] == sorted(left)
            for number, name in enumerate(names):
                assert seqs(await store.load(name)) == ([number] if name in left else [])

        self.check(case)

    def test_a_run_id_that_could_leave_its_place_is_refused_everywhere(self) -> None:
        async def case(store: Any) -> None:
            for name in _BAD_IDS:
                for attempt in (
                    store.load(name),
                    store.append(name, [entry(0)]),
                    store.load_meta(name),
                    store.save_meta(name, {"runId": name, "status": "ok"}),
                    store.delete(name),
                ):
                    await refused(ConfigError, attempt)

        self.check(case)

    def test_big_entries_and_long_journals_are_kept(self) -> None:
        async def case(store: Any) -> None:
            big = entry(0, value="ü" * 600_000)
            await store.append("big", [big])
            assert (await store.load("big"))[0].line == big.line
            for start in range(0, 4000, 1000):
                await store.append("long", [entry(seq) for seq in range(start, start + 1000)])
            assert seqs(await store.load("long")) == list(range(4000))

        self.check(case)

    def test_runs_may_be_written_at_the_same_time(self) -> None:
        async def case(store: Any) -> None:
            async def write(name: str) -> None:
                for seq in range(10):
                    await store.append(name, [entry(seq)])
                    await store.save_meta(name, {"runId": name, "status": str(seq)})

            await asyncio.gather(*(write(f"r{number}") for number in range(20)))
            for number in range(20):
                assert seqs(await store.load(f"r{number}")) == list(range(10))
                assert (await store.load_meta(f"r{number}") or {})["status"] == "9"

        self.check(case)

    def test_a_meta_row_is_replaced_and_keeps_fields_that_nobody_knows(self) -> None:
        meta = {
            "runId": "r",
            "status": "ok",
            "ümlaut": ["\u2028", "😀", None, 0.1, {"a": []}],
            "z": 1,
            "a": 2,
        }

        async def case(store: Any) -> None:
            await store.save_meta("r", {"runId": "r", "status": "running", "gone": 1})
            await store.save_meta("r", meta)
            loaded = await store.load_meta("r")
            assert loaded == meta
            assert list(loaded or ()) == list(meta)
            (loaded or {})["status"] = "changed by the caller"
            assert await store.load_meta("r") == meta
            assert await store.list_runs() == [meta]

        self.check(case)

    def test_deleting_a_run_forgets_its_journal_and_its_meta_row(self) -> None:
        async def case(store: Any) -> None:
            await store.append("r", [entry(0)])
            await store.save_meta("r", {"runId": "r", "status": "ok"})
            await store.delete("r")
            assert await store.load("r") == []
            assert await store.load_meta("r") is None
            await store.append("r", [entry(0)])
            assert seqs(await store.load("r")) == [0]

        self.check(case)
