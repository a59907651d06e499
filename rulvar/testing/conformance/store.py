"""What every store must do, as a suite that third-party stores run too.

Subclass it in a test file, switch it on, and say how a store is opened::

    class TestMyStore(StoreConformance):
        __test__ = True

        def open_store(self, place):
            return MyStore(place / "runs")

``place`` is an empty folder of the test. ``open_store`` may be called more than once for one place: each
call stands for another process that opens the same data. Every test runs in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.ports.lease import Lease
from rulvar.errors import ConfigError, JournalOrderViolation, LeaseHeldError, RulvarError, SupersededError

__all__ = ["StoreConformance", "entry"]

E = TypeVar("E", bound=BaseException)
_TTL = 0.15
_BAD_IDS = ("", ".", "..", "a/b", "../a", "a\\b", "a b", "a\n", "ä", "a\0", "x" * 201)
_BAD_REFS = ("r", "r/", "/t", "r/../x", "r/./x", "../r/t", "r/a b", "r//t", "r/t\0", "r/" + "a/" * 20 + "b")


def entry(seq: int, **fields: Any) -> JournalEntry:
    """Return a small entry of a journal."""
    return JournalEntry.from_wire(
        {
            "hashVersion": 2,
            "seq": seq,
            "scope": "",
            "key": "k",
            "ordinal": 0,
            "kind": "rand",
            "status": "ok",
            **fields,
        }
    )


class StoreConformance:
    """Tests of one store; see the module's docstring.

    Attributes:
        is_shared: whether two openings of one place see the same data.
        leases_expire: whether a lease ends by time; a lock that ends with its process does not.
    """

    __test__ = False
    is_shared: ClassVar[bool] = True
    leases_expire: ClassVar[bool] = True

    def open_store(self, place: Path) -> Any:
        """Open a store over a place; may be an async function."""
        raise NotImplementedError

    # -- journals ------------------------------------------------------------------------

    def test_an_unknown_run_has_no_entries_no_meta_and_no_blobs(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            assert await store.load("nobody") == []
            assert await store.load_meta("nobody") is None
            assert await store.list_runs() == []
            assert await store.transcripts.get("nobody/t0") is None
            assert await store.transcripts.refs("nobody") == []
            await store.delete("nobody")

        self._with_one(tmp_path, check)

    def test_entries_come_back_byte_for_byte_and_in_order(self, tmp_path: Path) -> None:
        lines = [
            b'{"hashVersion":2,"seq":0,"kind":"future.kind","zzz":{"k":[1e21,0.1,-0]},"b":"\\ud800"}',
            b'{"hashVersion":2,  "seq":3,"kind":"step","status":"ok","value":"\\u0000 \xc3\xa9"}',
            b'{"v":1,"seq":4,"kind":"rand","status":"ok","scope":"","key":"","ordinal":0}',
            entry(2**40).line,
        ]

        async def check(store: Any) -> None:
            entries = [decode_entry(line) for line in lines]
            await store.append("r", entries[:2])
            await store.append("r", entries[2:])
            loaded = await store.load("r")
            assert [item.line for item in loaded] == lines
            assert [item.seq for item in loaded] == [0, 3, 4, 2**40]
            assert loaded[2].hash_version == 1

        self._with_one(tmp_path, check)

    def test_an_entry_that_is_not_after_the_tail_is_refused_and_leaves_no_trace(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            await store.append("r", [entry(0), entry(1)])
            for batch in ([entry(1)], [entry(0)], [entry(2), entry(2)], [entry(3), entry(2)]):
                await refused(JournalOrderViolation, store.append("r", batch))
            assert seqs(await store.load("r")) == [0, 1]
            await store.append("r", [entry(2)])
            assert seqs(await store.load("r")) == [0, 1, 2]

        self._with_one(tmp_path, check)

    def test_an_empty_append_stores_nothing(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            await store.append("r", [])
            assert await store.load("r") == []

        self._with_one(tmp_path, check)

    def test_what_was_stored_is_there_after_a_restart(self, tmp_path: Path) -> None:
        async def write(store: Any) -> None:
            await store.append("r", [entry(0)])
            await store.save_meta("r", {"runId": "r", "status": "ok", "x": [1]})
            await store.transcripts.put("r/t0", b"blob")

        async def read(store: Any) -> None:
            assert seqs(await store.load("r")) == [0]
            assert await store.load_meta("r") == {"runId": "r", "status": "ok", "x": [1]}
            assert await store.transcripts.get("r/t0") == b"blob"
            await refused(JournalOrderViolation, store.append("r", [entry(0)]))

        if self.is_shared:
            self._with_one(tmp_path, write)
            self._with_one(tmp_path, read)

    def test_runs_with_similar_names_are_apart(self, tmp_path: Path) -> None:
        names = ["r", "r1", "r10", "r_1", "r.1", "r-1", "r.meta", "r.jsonl", "x" * 200, "rX1", "0", "-", "_"]

        async def check(store: Any) -> None:
            for number, name in enumerate(names):
                await store.append(name, [entry(number)])
                await store.save_meta(name, {"runId": name, "status": "ok"})
                await store.transcripts.put(f"{name}/t", name.encode())
            await store.delete("r_1")
            await store.delete("r")
            left = [name for name in names if name not in ("r_1", "r")]
            assert [meta["runId"] for meta in await store.list_runs()] == sorted(left)
            for number, name in enumerate(names):
                assert seqs(await store.load(name)) == ([number] if name in left else [])
                assert (await store.transcripts.get(f"{name}/t") is not None) == (name in left)

        self._with_one(tmp_path, check)

    def test_a_run_id_that_could_leave_its_place_is_refused_everywhere(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            for name in _BAD_IDS:
                for attempt in (
                    store.load(name),
                    store.append(name, [entry(0)]),
                    store.load_meta(name),
                    store.save_meta(name, {"runId": name, "status": "ok"}),
                    store.delete(name),
                    store.transcripts.refs(name),
                    store.transcripts.delete_run(name),
                    store.acquire_lease(name, "me", 1),
                    store.lease_of(name),
                ):
                    await refused(ConfigError, attempt)

        self._with_one(tmp_path, check)

    def test_big_entries_and_long_journals_are_kept(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            big = entry(0, value="ü" * 600_000)
            await store.append("big", [big])
            assert (await store.load("big"))[0].line == big.line
            for start in range(0, 4000, 1000):
                await store.append("long", [entry(seq) for seq in range(start, start + 1000)])
            assert seqs(await store.load("long")) == list(range(4000))

        self._with_one(tmp_path, check)

    def test_runs_may_be_written_at_the_same_time(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            async def write(name: str) -> None:
                for seq in range(10):
                    await store.append(name, [entry(seq)])
                    await store.save_meta(name, {"runId": name, "status": str(seq)})

            await asyncio.gather(*(write(f"r{number}") for number in range(20)))
            for number in range(20):
                assert seqs(await store.load(f"r{number}")) == list(range(10))
                assert (await store.load_meta(f"r{number}") or {})["status"] == "9"

        self._with_one(tmp_path, check)

    # -- meta rows -----------------------------------------------------------------------

    def test_a_meta_row_is_replaced_and_keeps_fields_that_nobody_knows(self, tmp_path: Path) -> None:
        meta = {
            "runId": "r",
            "status": "ok",
            "ümlaut": ["\u2028", "😀", None, 0.1, {"a": []}],
            "z": 1,
            "a": 2,
        }

        async def check(store: Any) -> None:
            await store.save_meta("r", {"runId": "r", "status": "running", "gone": 1})
            await store.save_meta("r", meta)
            loaded = await store.load_meta("r")
            assert loaded == meta
            assert list(loaded or ()) == list(meta)
            (loaded or {})["status"] = "changed by the caller"
            assert await store.load_meta("r") == meta
            assert await store.list_runs() == [meta]

        self._with_one(tmp_path, check)

    def test_deleting_a_run_forgets_its_journal_its_meta_and_its_blobs(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            await store.append("r", [entry(0)])
            await store.save_meta("r", {"runId": "r", "status": "ok"})
            await store.transcripts.put("r/ckpt/4", b"x")
            await store.delete("r")
            assert await store.load("r") == []
            assert await store.load_meta("r") is None
            assert await store.transcripts.get("r/ckpt/4") is None
            await store.append("r", [entry(0)])
            assert seqs(await store.load("r")) == [0]

        self._with_one(tmp_path, check)

    # -- blobs ---------------------------------------------------------------------------

    def test_blobs_are_kept_replaced_listed_and_forgotten(self, tmp_path: Path) -> None:
        data = bytes(range(256)) * 100

        async def check(store: Any) -> None:
            blobs = store.transcripts
            await blobs.put("r/t0", b"old")
            await blobs.put("r/t0", data)
            await blobs.put("r/ckpt/4", b"")
            await blobs.put("other/t0", b"other")
            assert await blobs.get("r/t0") == data
            assert await blobs.get("r/ckpt/4") == b""
            assert await blobs.get("r/ckpt/5") is None
            assert await blobs.refs("r") == ["r/ckpt/4", "r/t0"]
            await blobs.delete_run("r")
            assert await blobs.get("r/t0") is None
            assert await blobs.refs("r") == []
            assert await blobs.get("other/t0") == b"other"

        self._with_one(tmp_path, check)

    def test_a_blob_reference_that_could_leave_its_place_is_refused(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            for ref in _BAD_REFS:
                await refused(ConfigError, store.transcripts.put(ref, b"x"))
                await refused(ConfigError, store.transcripts.get(ref))

        self._with_one(tmp_path, check)

    # -- leases --------------------------------------------------------------------------

    def test_a_run_has_one_holder_at_a_time(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "first", 60)
            assert (lease.run_id, lease.owner, lease.ttl_s) == ("r", "first", 60)
            error = await refused(LeaseHeldError, other.acquire_lease("r", "second", 60))
            assert error.retryable
            assert error.data["runId"] == "r"
            await refused(LeaseHeldError, one.acquire_lease("r", "first", 60))
            await other.release_lease(await other.acquire_lease("r2", "second", 60))
            await one.release_lease(lease)
            await one.release_lease(lease)
            await other.release_lease(await other.acquire_lease("r", "second", 60))

        self._with_two(tmp_path, check)

    def test_the_state_of_a_lease_can_be_asked_for(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "first", 60)
            state = await other.lease_of("r")
            assert state is not None
            assert state.is_held
            if self.leases_expire:
                assert (state.owner, state.epoch) == ("first", lease.epoch)
                assert 0 < state.expires_in_s <= 60
            await one.release_lease(lease)
            state = await other.lease_of("r")
            assert state is None or not state.is_held

        self._with_two(tmp_path, check)

    def test_epochs_grow_even_when_a_run_is_deleted_and_made_anew(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            epochs = []
            for round_ in range(4):
                store = other if round_ % 2 else one
                lease = await store.acquire_lease("r", "me", 60)
                epochs.append(lease.epoch)
                await store.append("r", [entry(0)], lease=lease)
                await store.delete("r", lease=lease)
                await store.release_lease(lease)
            assert epochs == sorted(set(epochs))
            assert await one.load("r") == []

        self._with_two(tmp_path, check)

    def test_a_holder_writes_under_its_lease(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", 60)
            await one.append("r", [entry(0)], lease=lease)
            await one.save_meta("r", {"runId": "r", "status": "running"}, lease=lease)
            await one.transcripts.put("r/t0", b"x", lease=lease)
            await one.renew_lease(lease)
            assert seqs(await other.load("r")) == [0]
            assert await other.transcripts.get("r/t0") == b"x"
            await one.release_lease(lease)

        self._with_two(tmp_path, check)

    def test_nothing_is_written_under_a_lease_that_was_let_go(self, tmp_path: Path) -> None:
        async def check(store: Any) -> None:
            lease = await store.acquire_lease("r", "me", 60)
            await store.append("r", [entry(0)], lease=lease)
            await store.release_lease(lease)
            await self._all_refused(store, lease)

        self._with_one(tmp_path, check)

    def test_an_expired_lease_can_be_taken_and_its_old_holder_writes_nothing(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            old = await one.acquire_lease("r", "old", _TTL)
            await one.append("r", [entry(0)], lease=old)
            await asyncio.sleep(_TTL * 1.5)
            new = await other.acquire_lease("r", "new", 60)
            assert new.epoch > old.epoch
            await self._all_refused(one, old)
            await one.release_lease(old)
            await other.append("r", [entry(1)], lease=new)
            assert seqs(await other.load("r")) == [0, 1]
            await refused(LeaseHeldError, one.acquire_lease("r", "old", 60))
            await other.delete("r", lease=new)
            await self._all_refused(one, old)
            await other.release_lease(new)
            await self._all_refused(one, old)

        if self.leases_expire:
            self._with_two(tmp_path, check)

    def test_an_expired_lease_that_nobody_took_goes_on(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", _TTL)
            await asyncio.sleep(_TTL * 1.5)
            await one.append("r", [entry(0)], lease=lease)
            await one.renew_lease(lease)
            await refused(LeaseHeldError, other.acquire_lease("r", "other", 60))
            await one.release_lease(lease)

        if self.leases_expire:
            self._with_two(tmp_path, check)

    def test_renewing_keeps_a_run_for_longer_than_its_ttl(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", 0.5)
            for _ in range(8):
                await asyncio.sleep(0.1)
                await one.renew_lease(lease)
            await refused(LeaseHeldError, other.acquire_lease("r", "other", 60))
            await one.release_lease(lease)

        if self.leases_expire:
            self._with_two(tmp_path, check)

    def test_of_many_who_want_a_run_one_gets_it(self, tmp_path: Path) -> None:
        async def check(one: Any, other: Any) -> None:
            attempts = [
                (one if number % 2 else other).acquire_lease("r", f"owner {number}", 60)
                for number in range(16)
            ]
            results = await asyncio.gather(*attempts, return_exceptions=True)
            assert len([item for item in results if isinstance(item, Lease)]) == 1
            assert len([item for item in results if isinstance(item, LeaseHeldError)]) == 15
            for item in results:
                if isinstance(item, Lease):
                    await one.release_lease(item)
                    await other.release_lease(item)

        self._with_two(tmp_path, check)

    def test_a_write_without_a_lease_is_refused_while_another_process_holds_the_run(
        self, tmp_path: Path
    ) -> None:
        async def check(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", 60)
            await one.append("r", [entry(0)], lease=lease)
            await refused(LeaseHeldError, other.append("r", [entry(1)]))
            await refused(LeaseHeldError, other.delete("r"))
            assert seqs(await other.load("r")) == [0]
            await one.release_lease(lease)
            await other.append("r", [entry(1)])

        if self.is_shared:
            self._with_two(tmp_path, check)

    # -- how the tests run ---------------------------------------------------------------

    async def _all_refused(self, store: Any, lease: Lease) -> None:
        run_id = lease.run_id
        before = (
            await store.load(run_id),
            await store.load_meta(run_id),
            await store.transcripts.refs(run_id),
        )
        for attempt in (
            store.append(run_id, [entry(1000)], lease=lease),
            store.save_meta(run_id, {"runId": run_id, "status": "stolen"}, lease=lease),
            store.delete(run_id, lease=lease),
            store.transcripts.put(f"{run_id}/stolen", b"x", lease=lease),
            store.transcripts.delete_run(run_id, lease=lease),
            store.renew_lease(lease),
        ):
            await refused(SupersededError, attempt)
        after = (
            await store.load(run_id),
            await store.load_meta(run_id),
            await store.transcripts.refs(run_id),
        )
        assert seqs(after[0]) == seqs(before[0])
        assert after[1:] == before[1:]

    def _with_one(self, place: Path, check: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            store = await self._open(place)
            try:
                await check(store)
            finally:
                await close(store)

        asyncio.run(main())

    def _with_two(self, place: Path, check: Callable[[Any, Any], Awaitable[None]]) -> None:
        async def main() -> None:
            one = await self._open(place)
            other = await self._open(place) if self.is_shared else one
            try:
                await check(one, other)
            finally:
                await close(one)
                await close(other)

        asyncio.run(main())

    async def _open(self, place: Path) -> Any:
        store = self.open_store(place)
        return await store if asyncio.iscoroutine(store) else store


def seqs(entries: Iterable[JournalEntry]) -> list[int]:
    """Return the seqs of entries."""
    return [item.seq for item in entries]


async def refused(kind: type[E], attempt: Awaitable[Any]) -> E:
    """Return the error with which an attempt is refused; anything else fails the test."""
    try:
        result = await attempt
    except kind as error:
        if isinstance(error, RulvarError):
            assert error.message, "a refusal says why"
        return error
    raise AssertionError(f"expected {kind.__name__}, but the store did it and returned {result!r}")


async def close(store: Any) -> None:
    """Close a store, whether its ``close`` is a plain function, an async one or not there."""
    outcome = getattr(store, "close", lambda: None)()
    if asyncio.iscoroutine(outcome):
        await outcome
