"""What a store owes the transcripts and checkpoints that it keeps beside its journals."""

from __future__ import annotations

from typing import Any

from rulvar.errors import ConfigError
from rulvar.testing.conformance.store_suite import StoreSuite, refused

__all__ = ["BlobCases"]

_BAD_REFS = ("r", "r/", "/t", "r/../x", "r/./x", "../r/t", "r/a b", "r//t", "r/t\0", "r/" + "a/" * 20 + "b")


class BlobCases(StoreSuite):
    """Blobs; a store without ``transcripts`` keeps none."""

    def test_blobs_are_kept_replaced_listed_and_forgotten(self) -> None:
        data = bytes(range(256)) * 100

        async def case(store: Any) -> None:
            blobs = store.transcripts
            await blobs.put("r/t0", b"old")
            await blobs.put("r/t0", data)
            await blobs.put("r/ckpt/4", b"")
            await blobs.put("other/t0", b"other")
            assert await blobs.get("r/t0") == data
            assert await blobs.get("r/ckpt/4") == b""
            assert await blobs.get("r/ckpt/5") is None
            assert await blobs.get("nobody/t0") is None
            assert await blobs.refs("nobody") == []
            assert await blobs.refs("r") == ["r/ckpt/4", "r/t0"]
            await blobs.delete_run("r")
            assert await blobs.get("r/t0") is None
            assert await blobs.refs("r") == []
            assert await blobs.get("other/t0") == b"other"

        self.check(case, needs="transcripts")

    def test_a_blob_reference_that_could_leave_its_place_is_refused(self) -> None:
        async def case(store: Any) -> None:
            for ref in _BAD_REFS:
                await refused(ConfigError, store.transcripts.put(ref, b"x"))
                await refused(ConfigError, store.transcripts.get(ref))
            for attempt in (store.transcripts.refs("../r"), store.transcripts.delete_run("..")):
                await refused(ConfigError, attempt)

        self.check(case, needs="transcripts")

    def test_a_deleted_run_has_no_blobs_and_its_neighbours_keep_theirs(self) -> None:
        async def case(store: Any) -> None:
            for run_id in ("r", "r1", "r_1", "r.1"):
                await store.transcripts.put(f"{run_id}/ckpt/4", b"x")
            for run_id in ("r", "r_1"):
                await store.delete(run_id)
            kept = [await store.transcripts.get(f"{name}/ckpt/4") for name in ("r", "r1", "r_1", "r.1")]
            assert kept == [None, b"x", None, b"x"]

        self.check(case, needs="transcripts")

    def test_blobs_are_seen_by_another_store_over_the_same_data(self) -> None:
        async def case(store: Any, other: Any) -> None:
            await store.transcripts.put("r/t0", b"x")
            assert await other.transcripts.get("r/t0") == b"x"
            assert await other.transcripts.refs("r") == ["r/t0"]

        self.check_two(case, needs="transcripts", is_shared=True)
