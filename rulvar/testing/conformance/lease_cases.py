"""What a store that several processes share owes the one that drives a run, and the ones that do not."""

from __future__ import annotations

import asyncio
from typing import Any

from rulvar.contracts.ports.lease import Lease
from rulvar.errors import LeaseHeldError, SupersededError
from rulvar.testing.conformance.store_suite import StoreSuite, entry, refused, seqs

__all__ = ["LeaseCases"]

_TTL = 0.15


class LeaseCases(StoreSuite):
    """Leases and fencing; a store without ``acquire_lease`` has none."""

    def test_a_run_has_one_holder_at_a_time(self) -> None:
        async def case(one: Any, other: Any) -> None:
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

        self.check_two(case, needs="acquire_lease")

    def test_the_state_of_a_lease_can_be_asked_for(self) -> None:
        async def case(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "first", 60)
            state = await other.lease_of("r")
            assert state is not None
            assert state.is_held
            if expire(one):
                assert (state.owner, state.epoch) == ("first", lease.epoch)
                assert 0 < state.expires_in_s <= 60
            await one.release_lease(lease)
            state = await other.lease_of("r")
            assert state is None or not state.is_held

        self.check_two(case, needs="acquire_lease")

    def test_epochs_grow_even_when_a_run_is_deleted_and_made_anew(self) -> None:
        async def case(one: Any, other: Any) -> None:
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

        self.check_two(case, needs="acquire_lease")

    def test_a_holder_writes_under_its_lease(self) -> None:
        async def case(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", 60)
            await one.append("r", [entry(0)], lease=lease)
            await one.save_meta("r", {"runId": "r", "status": "running"}, lease=lease)
            await one.transcripts.put("r/t0", b"x", lease=lease)
            await one.renew_lease(lease)
            assert seqs(await other.load("r")) == [0]
            assert await other.transcripts.get("r/t0") == b"x"
            await one.release_lease(lease)

        self.check_two(case, needs="acquire_lease")

    def test_nothing_is_written_under_a_lease_that_was_let_go(self) -> None:
        async def case(store: Any) -> None:
            lease = await store.acquire_lease("r", "me", 60)
            await store.append("r", [entry(0)], lease=lease)
            await store.release_lease(lease)
            await self._all_refused(store, lease)

        self.check(case, needs="acquire_lease")

    def test_an_expired_lease_can_be_taken_and_its_old_holder_writes_nothing(self) -> None:
        async def case(one: Any, other: Any) -> None:
            if not expire(one):
                return
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

        self.check_two(case, needs="acquire_lease")

    def test_an_expired_lease_that_nobody_took_goes_on(self) -> None:
        async def case(one: Any, other: Any) -> None:
            if not expire(one):
                return
            lease = await one.acquire_lease("r", "me", _TTL)
            await asyncio.sleep(_TTL * 1.5)
            await one.append("r", [entry(0)], lease=lease)
            await one.renew_lease(lease)
            await refused(LeaseHeldError, other.acquire_lease("r", "other", 60))
            await one.release_lease(lease)

        self.check_two(case, needs="acquire_lease")

    def test_renewing_keeps_a_run_for_longer_than_its_ttl(self) -> None:
        async def case(one: Any, other: Any) -> None:
            if not expire(one):
                return
            lease = await one.acquire_lease("r", "me", 0.5)
            for _ in range(8):
                await asyncio.sleep(0.1)
                await one.renew_lease(lease)
            await refused(LeaseHeldError, other.acquire_lease("r", "other", 60))
            await one.release_lease(lease)

        self.check_two(case, needs="acquire_lease")

    def test_of_many_who_want_a_run_one_gets_it(self) -> None:
        async def case(one: Any, other: Any) -> None:
            attempts = [
                (one if number % 2 else other).acquire_lease("r", f"owner {number}", 60)
                for number in range(16)
            ]
            results = await asyncio.gather(*attempts, return_exceptions=True)
            assert [item for item in results if not isinstance(item, Lease | LeaseHeldError)] == []
            assert len([item for item in results if isinstance(item, Lease)]) == 1
            for item in results:
                if isinstance(item, Lease):
                    await one.release_lease(item)
                    await other.release_lease(item)

        self.check_two(case, needs="acquire_lease")

    def test_a_write_without_a_lease_is_refused_while_another_process_holds_the_run(self) -> None:
        async def case(one: Any, other: Any) -> None:
            lease = await one.acquire_lease("r", "me", 60)
            await one.append("r", [entry(0)], lease=lease)
            await refused(LeaseHeldError, other.append("r", [entry(1)]))
            await refused(LeaseHeldError, other.save_meta("r", {"runId": "r", "status": "stolen"}))
            await refused(LeaseHeldError, other.delete("r"))
            assert seqs(await other.load("r")) == [0]
            await one.release_lease(lease)
            await other.append("r", [entry(1)])

        self.check_two(case, needs="acquire_lease", is_shared=True)

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


def expire(store: Any) -> bool:
    """Whether a store's leases end by time; a lock that ends with its process does not."""
    return bool(getattr(store, "leases_expire", True))
