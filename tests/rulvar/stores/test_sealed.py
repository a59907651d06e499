"""Sealed stores: nothing readable is kept, nothing that was tampered with is read, keys can be changed."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulvar import Ctx, Engine, define_workflow
from rulvar.contracts.entries import JournalEntry
from rulvar.errors import ConfigError, StoreError
from rulvar.stores import InMemoryStore, JsonlFileStore, LocalKeys, SealedStore, SqliteStore
from rulvar.stores.sealed import Seal
from rulvar.testing import FakeAdapter
from rulvar.testing.conformance.store_suite import entry
from rulvar.testing.engine import fake_routing

OLD, NEW = {"2025": b"o" * 32}, {"2025": b"o" * 32, "2026": b"n" * 32}
SECRET = "the patient's name is Ada"


async def secretive(ctx: Ctx, args: Any) -> Any:
    told = await ctx.agent(f"what do you know? {args}")
    return await ctx.step(SECRET, lambda: [args, told])


WORKFLOW = define_workflow("secretive", secretive)


def engine_over(store: Any) -> Engine:
    model = FakeAdapter(agents={"*": f"I know that {SECRET}"})
    return Engine(adapters=[model], journal=store, routing=fake_routing())


@pytest.mark.parametrize("kind", ["files", "sqlite"])
async def test_nothing_that_can_be_read_reaches_the_disk(kind: str, tmp_path: Path) -> None:
    inner = JsonlFileStore(tmp_path) if kind == "files" else SqliteStore(tmp_path / "runs.db")
    store = SealedStore(inner, LocalKeys(NEW))
    engine = engine_over(store)
    outcome = await engine.run(WORKFLOW, SECRET, run_id="r", name=SECRET, tags=[SECRET]).result()
    assert outcome.status == "ok", outcome.error
    await engine.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        for word in (SECRET.encode(), b"secretive", b"argsHash", b"provider-call"):
            assert word not in data, (path, word)
    resumed = await engine_over(store).resume("r", WORKFLOW, args=SECRET).result()
    assert resumed.value == outcome.value
    meta = await store.load_meta("r")
    assert (meta or {})["name"] == SECRET
    await inner.close() if kind == "sqlite" else inner.close()


async def test_another_key_opens_nothing_and_says_why(tmp_path: Path) -> None:
    inner = InMemoryStore()
    sealed = SealedStore(inner, LocalKeys(NEW))
    await sealed.append("r", [entry(0, value=1)])
    with pytest.raises(StoreError, match="'2026' is not among those"):
        await SealedStore(inner, LocalKeys(OLD)).load("r")
    with pytest.raises(StoreError, match="does not fit"):
        await SealedStore(inner, LocalKeys({"2026": b"x" * 32})).load("r")


async def test_a_sealed_run_is_not_run_again_by_whoever_opens_its_store_without_the_seal(
    tmp_path: Path,
) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: paid.append(1) or 1)

    paid: list[int] = []
    workflow = define_workflow("w", body)
    inner = JsonlFileStore(tmp_path)
    sealed = SealedStore(inner, LocalKeys({"k": b"k" * 32}))
    async with Engine(journal=sealed) as engine:
        assert (await engine.run(workflow, run_id="r").result()).status == "ok"
    async with Engine(journal=inner, workflows=[workflow]) as engine:
        for named in (workflow, None):
            with pytest.raises(ConfigError, match="open the store with SealedStore"):
                await engine.resume("r", named).result()
    async with Engine(journal=sealed, workflows=[workflow]) as engine:
        assert (await engine.resume("r").result()).value == 1
        assert [meta["workflowName"] for meta in await engine.store.list_runs()] == ["w"]
    assert paid == [1]


async def test_what_an_older_master_key_sealed_is_read_with_the_new_one() -> None:
    inner = InMemoryStore()
    await SealedStore(inner, LocalKeys(OLD)).append("r", [entry(0, value="old")])
    newer = SealedStore(inner, LocalKeys(NEW))
    await newer.append("r", [entry(1, value="new")])
    assert [item.value for item in await newer.load("r")] == ["old", "new"]


async def test_a_record_that_was_moved_is_not_read() -> None:
    inner = InMemoryStore()
    store = SealedStore(inner, LocalKeys(NEW))
    for run_id in ("a", "b"):
        await store.append(run_id, [entry(0, value=run_id), entry(1, value=run_id)])
        await store.save_meta(run_id, {"runId": run_id, "status": "ok"})
        await store.transcripts.put(f"{run_id}/t0", run_id.encode())
    stolen = await inner.load("a")
    moved = InMemoryStore()
    moved.append_now("b", stolen)
    with pytest.raises(StoreError, match="entry b 0"):
        await SealedStore(moved, LocalKeys(NEW)).load("b")
    swapped = orjson.loads(stolen[1].line)
    line = orjson.dumps({**swapped, "seq": 0})
    other = InMemoryStore()
    other.append_now("a", [JournalEntry(seq=0, line=line)])
    with pytest.raises(StoreError, match="entry a 0"):
        await SealedStore(other, LocalKeys(NEW)).load("a")
    row = await inner.load_meta("a")
    await inner.save_meta("b", {**(row or {}), "runId": "b"})
    with pytest.raises(StoreError, match="meta b"):
        await store.load_meta("b")
    await inner.transcripts.put("b/t0", await inner.transcripts.get("a/t0") or b"")
    with pytest.raises(StoreError, match="blob b/t0"):
        await store.transcripts.get("b/t0")


async def test_plain_records_are_refused_unless_older_data_is_read() -> None:
    inner = InMemoryStore()
    await inner.append("r", [entry(0, value="plain")])
    await inner.save_meta("r", {"runId": "r", "status": "ok"})
    await inner.transcripts.put("r/t0", b"plain")
    strict = SealedStore(inner, LocalKeys(NEW))
    for attempt in (
        strict.load("r"),
        strict.load_meta("r"),
        strict.list_runs(),
        strict.transcripts.get("r/t0"),
    ):
        with pytest.raises(StoreError, match="not sealed"):
            await attempt
    lenient = SealedStore(inner, LocalKeys(NEW), reads_plain=True)
    assert [item.value for item in await lenient.load("r")] == ["plain"]
    assert await lenient.load_meta("r") == {"runId": "r", "status": "ok"}
    assert await lenient.transcripts.get("r/t0") == b"plain"


def sealed_once() -> bytes:
    return asyncio.run(Seal(LocalKeys(NEW)).close("r", b"the secret", "entry r 0"))


SEALED = sealed_once()


@settings(max_examples=300, deadline=None)
@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.integers(0, len(SEALED)).map(lambda end: SEALED[:end]),
        st.tuples(st.integers(0, len(SEALED) - 1), st.integers(1, 255)).map(
            lambda at: SEALED[: at[0]] + bytes([SEALED[at[0]] ^ at[1]]) + SEALED[at[0] + 1 :]
        ),
        st.binary(max_size=50).map(lambda tail: b"RLVS\x01" + tail),
        st.binary(min_size=1, max_size=9).map(lambda tail: SEALED + tail),
    )
)
def test_no_bytes_but_the_sealed_ones_are_opened(data: bytes) -> None:
    seal = Seal(LocalKeys(NEW))
    try:
        opened = asyncio.run(seal.open(data, "entry r 0"))
    except StoreError:
        return
    assert data == SEALED
    assert opened == b"the secret"


async def test_a_damaged_text_is_refused() -> None:
    for field in ("", "%%%", base64.b64encode(b"short").decode(), "é"):
        inner = InMemoryStore()
        inner.append_now("r", [JournalEntry(seq=0, line=orjson.dumps({"seq": 0, "sealed": field}))])
        with pytest.raises(StoreError):
            await SealedStore(inner, LocalKeys(NEW)).load("r")


@pytest.mark.parametrize(
    ("keys", "active"),
    [({}, None), ({"a": b"short"}, None), ({"a": "x" * 32}, None), ({"a": b"a" * 32}, "b")],
)
def test_master_keys_are_checked(keys: Any, active: Any) -> None:
    with pytest.raises(ConfigError):
        LocalKeys(keys, active=active)


async def test_a_key_provider_is_asked_once_per_data_key() -> None:
    class Counting(LocalKeys):
        wraps = unwraps = 0

        async def wrap(self, data_key: bytes) -> Any:
            self.wraps += 1
            return await super().wrap(data_key)

        async def unwrap(self, wrapped: Any) -> bytes:
            self.unwraps += 1
            return await super().unwrap(wrapped)

    inner, keys = InMemoryStore(), Counting(NEW)
    store = SealedStore(inner, keys)
    await store.append("r", [entry(seq) for seq in range(20)])
    await store.load("r")
    assert (keys.wraps, keys.unwraps) == (1, 0)
    await SealedStore(inner, keys).load("r")
    assert (keys.wraps, keys.unwraps) == (1, 1)


async def test_salted_digests_of_equal_arguments_differ_and_still_guard_a_resume(tmp_path: Path) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.step("s", lambda: args)

    store = SqliteStore(tmp_path / "runs.db", durability="process")
    workflow = define_workflow("w", body)
    engine = Engine(journal=store, salt_args=True)
    for run_id in ("a", "b"):
        await engine.run(workflow, {"pin": 1234}, run_id=run_id).result()
    digests = {meta["argsHash"] for meta in await store.list_runs()}
    assert len(digests) == 2
    with pytest.raises(ConfigError, match="args"):
        await engine.resume("a", workflow, args={"pin": 1235}).result()
    assert (await Engine(journal=store).resume("a", workflow, args={"pin": 1234}).result()).status == "ok"
    await store.close()
    connection = sqlite3.connect(store.path)
    assert connection.execute("SELECT count(*) FROM rulvar_metas").fetchone() == (2,)
    connection.close()
