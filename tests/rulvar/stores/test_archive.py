"""Archives: what goes in comes out in any store, and no archive can reach outside or hide a change."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import PostgresServer

from rulvar import Ctx, Engine, define_workflow
from rulvar.contracts.entries import decode_entry
from rulvar.errors import ConfigError, JournalOrderViolation, LeaseHeldError, RunNotFoundError, StoreError
from rulvar.stores import (
    InMemoryStore,
    JsonlFileStore,
    LocalKeys,
    PostgresStore,
    SealedStore,
    SqliteStore,
    export_runs,
    import_runs,
    read_archive,
)
from rulvar.testing import FakeAdapter
from rulvar.testing.conformance.store_suite import close, entry
from rulvar.testing.engine import fake_routing


async def chat(ctx: Ctx, args: Any) -> Any:
    return [await ctx.agent("hello"), await ctx.step("s", lambda: args)]


WORKFLOW = define_workflow("chat", chat)


def engine_over(store: Any) -> Engine:
    return Engine(adapters=[FakeAdapter(agents={"*": "hi"})], journal=store, routing=fake_routing())


async def filled() -> InMemoryStore:
    store = InMemoryStore()
    for run_id in ("a", "b"):
        assert (await engine_over(store).run(WORKFLOW, 7, run_id=run_id).result()).status == "ok"
    return store


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite"])
async def test_an_exported_run_goes_on_in_another_store(kind: str, tmp_path: Path) -> None:
    source, path = await filled(), tmp_path / "runs.zip"
    assert await export_runs(source, ["a", "b"], path) == 2
    target: Any = {
        "memory": InMemoryStore,
        "files": lambda: JsonlFileStore(tmp_path / "runs"),
        "sqlite": lambda: SqliteStore(tmp_path / "runs.db", durability="process"),
    }[kind]()
    assert await import_runs(target, path) == ["a", "b"]
    for run_id in ("a", "b"):
        assert [e.line for e in await target.load(run_id)] == [e.line for e in await source.load(run_id)]
        assert await target.load_meta(run_id) == await source.load_meta(run_id)
        assert await target.transcripts.get(f"{run_id}/t0") == await source.transcripts.get(f"{run_id}/t0")
    handle = engine_over(target).resume("a", WORKFLOW, args=7)
    assert (await handle.result()).value == ["hi", 7]
    assert (await handle.preview()).misses == 0
    await close(target)


async def test_a_run_moves_through_every_kind_of_store_and_comes_back_as_it_was(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    keys = [LocalKeys({name: name[0].encode() * 32}) for name in ("first", "second", "third")]
    kinds: list[Any] = [
        JsonlFileStore(tmp_path / "files"),
        SqliteStore(tmp_path / "runs.db", durability="process"),
        PostgresStore(postgres.dsn, schema=f"s{uuid.uuid4().hex}"),
        SealedStore(JsonlFileStore(tmp_path / "sealed", durability="group"), keys[0]),
        SealedStore(SqliteStore(tmp_path / "sealed.db", durability="process"), keys[1]),
        SealedStore(PostgresStore(postgres.dsn, schema=f"s{uuid.uuid4().hex}"), keys[2]),
        InMemoryStore(),
    ]
    source = await filled()
    await source.save_meta(
        "b", {**(await source.load_meta("b") or {}), "name": "日本 \ud800", "extra": [1e22]}
    )
    await source.transcripts.put("b/deep/er", bytes(range(256)))
    before = source
    for number, target in enumerate(kinds):
        path = tmp_path / f"{number}.zip"
        await export_runs(before, ["a", "b"], path)
        assert await import_runs(target, path) == ["a", "b"]
        for run_id in ("a", "b"):
            assert [e.line for e in await target.load(run_id)] == [e.line for e in await source.load(run_id)]
            assert await target.load_meta(run_id) == await source.load_meta(run_id)
            refs = await source.transcripts.refs(run_id)
            assert await target.transcripts.refs(run_id) == refs
            for ref in refs:
                assert await target.transcripts.get(ref) == await source.transcripts.get(ref)
        before = target
    assert len({(tmp_path / f"{number}.zip").read_bytes() for number in range(7)}) == 1
    for store in kinds:
        await close(store)


async def test_an_archive_of_sealed_bytes_is_opened_with_their_keys_wherever_it_is_unpacked(
    tmp_path: Path,
) -> None:
    await export_runs(await filled(), ["a"], tmp_path / "plain.zip")
    keys = LocalKeys({"k": b"k" * 32})
    inner = JsonlFileStore(tmp_path / "files")
    await import_runs(SealedStore(inner, keys), tmp_path / "plain.zip")
    await export_runs(inner, ["a"], tmp_path / "sealed.zip")
    elsewhere = SqliteStore(tmp_path / "runs.db", durability="process")
    assert await import_runs(elsewhere, tmp_path / "sealed.zip") == ["a"]
    handle = engine_over(SealedStore(elsewhere, keys)).resume("a", WORKFLOW, args=7)
    assert (await handle.result()).value == ["hi", 7]
    assert (await handle.preview()).misses == 0
    with pytest.raises(StoreError, match=r"entry a 0: .*'k'"):
        await SealedStore(elsewhere, LocalKeys({"other": b"o" * 32})).load("a")
    await elsewhere.close()


async def test_an_unpacked_archive_is_a_folder_of_the_file_store(tmp_path: Path) -> None:
    await export_runs(await filled(), ["a"], tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    store = JsonlFileStore(tmp_path / "unpacked" / "runs")
    assert (await engine_over(store).resume("a", WORKFLOW, args=7).result()).value == ["hi", 7]
    store.close()


async def test_the_same_runs_make_the_same_archive(tmp_path: Path) -> None:
    store = await filled()
    for name in ("one.zip", "two.zip"):
        await export_runs(store, ["b", "a"], tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


async def test_an_export_that_fails_leaves_no_archive(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        await export_runs(await filled(), ["a", "nobody"], tmp_path / "x.zip")
    with pytest.raises(StoreError):
        await export_runs(await filled(), ["a"], tmp_path / "no folder" / "x.zip")
    assert list(tmp_path.iterdir()) == []


async def test_a_run_that_is_there_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    await export_runs(await filled(), ["a"], path)
    target = InMemoryStore()
    await target.append("a", [entry(0, value="mine")])
    with pytest.raises(ConfigError, match="'a' is in the store already"):
        await import_runs(target, path)
    assert (await target.load("a"))[0].value == "mine"
    lease = await target.acquire_lease("a", "driver", 60)
    with pytest.raises(LeaseHeldError):
        await import_runs(target, path, overwrite=True)
    await target.release_lease(lease)
    assert await import_runs(target, path, overwrite=True) == ["a"]
    assert (await target.load("a"))[0].value != "mine"


def archive(files: dict[str, bytes], manifest: Any = None) -> bytes:
    """Return an archive of run r whose manifest fits its files unless told otherwise."""
    if manifest is None:
        digests = {name: sha256(data).hexdigest() for name, data in files.items()}
        manifest = {"v": 1, "kind": "rulvar-archive", "runs": [{"runId": "r", "files": digests}]}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
        packed.writestr("rulvar-archive.json", json.dumps(manifest))
    return out.getvalue()


LINE = entry(0).line + b"\n"
META = b'{"runId":"r","status":"ok"}'
GOOD = {"runs/r.jsonl": LINE, "runs/r.meta.json": META, "runs/transcripts/r/t0.bin": b"x"}
DIGEST = sha256(LINE).hexdigest()


def of(files: Any, run_id: Any = "r") -> dict[str, Any]:
    return {"v": 1, "kind": "rulvar-archive", "runs": [{"runId": run_id, "files": files}]}


HOSTILE: dict[str, Callable[[], bytes]] = {
    "not a zip": lambda: b"PK\x03\x04 nothing",
    "empty": lambda: b"",
    "cut off": lambda: archive(GOOD)[:-40],
    "no manifest": lambda: archive({}, manifest=None).replace(b"rulvar-archive.json", b"rulvar-archive.yaml"),
    "manifest is a list": lambda: archive(GOOD, []),
    "manifest of another kind": lambda: archive(GOOD, {"v": 1, "kind": "x", "runs": []}),
    "manifest of another version": lambda: archive({}, {"v": 2, "kind": "rulvar-archive", "runs": []}),
    "files that are not listed": lambda: archive({**GOOD, "runs/x.jsonl": b""}, of({"runs/r.jsonl": DIGEST})),
    "files that are missing": lambda: archive({}, of({"runs/r.jsonl": DIGEST})),
    "a digest that does not fit": lambda: archive({"runs/r.jsonl": LINE}, of({"runs/r.jsonl": "0" * 64})),
    "a digest that is a number": lambda: archive({"runs/r.jsonl": LINE}, of({"runs/r.jsonl": 7})),
    "a run id that climbs": lambda: archive({}, of({}, "../r")),
    "a run id that is a number": lambda: archive({}, of({}, 7)),
    "a name that climbs": lambda: archive({"runs/../../etc/x": LINE}),
    "an absolute name": lambda: archive({"/etc/passwd": LINE}),
    "a blob that climbs": lambda: archive({"runs/transcripts/r/../../x.bin": b"x"}),
    "a blob of another run": lambda: archive({"runs/transcripts/other/t0.bin": b"x"}),
    "a journal of another run": lambda: archive({"runs/other.jsonl": LINE}),
    "a torn journal": lambda: archive({"runs/r.jsonl": LINE + b'{"seq":1,'}),
    "a corrupt journal": lambda: archive({"runs/r.jsonl": b"nonsense\n" + LINE}),
    "a meta row that is a list": lambda: archive({"runs/r.jsonl": LINE, "runs/r.meta.json": b"[]"}),
    "a meta row that is no JSON": lambda: archive({"runs/r.jsonl": LINE, "runs/r.meta.json": b"{"}),
    "the same run twice": lambda: archive(
        {}, {"v": 1, "kind": "rulvar-archive", "runs": [{"runId": "r", "files": {}}] * 2}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_an_unsound_archive_is_refused_and_nothing_is_stored(name: str, tmp_path: Path) -> None:
    path = tmp_path / "archives" / "hostile.zip"
    path.parent.mkdir()
    path.write_bytes(HOSTILE[name]())
    store = JsonlFileStore(tmp_path / "runs")
    with pytest.raises(ConfigError):
        await import_runs(store, path)
    assert [item.name for item in tmp_path.iterdir()] == ["archives"]


async def test_a_sound_archive_of_the_same_making_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "good.zip"
    path.write_bytes(archive(GOOD))
    store = InMemoryStore()
    assert await import_runs(store, path) == ["r"]
    assert await store.transcripts.get("r/t0") == b"x"


async def test_an_archive_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(archive({"runs/r.jsonl": b" " * 50_000_000}))
    assert path.stat().st_size < 200_000
    with pytest.raises(ConfigError, match="max_bytes"):
        await import_runs(InMemoryStore(), path, max_bytes=1_000_000)


async def test_a_member_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    data = bytearray(archive({"runs/r.jsonl": LINE * 1}))
    at = data.find(b"PK\x01\x02")  # the first entry of the directory: its size says 1 byte
    data[at + 24 : at + 28] = (1).to_bytes(4, "little")
    path = tmp_path / "liar.zip"
    path.write_bytes(bytes(data))
    with pytest.raises(ConfigError):
        list(read_archive(path))


async def test_entries_without_an_order_are_refused_by_stores_that_need_one(tmp_path: Path) -> None:
    path = tmp_path / "odd.zip"
    path.write_bytes(archive({"runs/r.jsonl": b'{"odd":1}\n{"odd":2}\n'}))
    with pytest.raises(JournalOrderViolation):
        await import_runs(InMemoryStore(), path)


WHOLE = archive(GOOD)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=300),
        st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=6)).map(
            lambda at: WHOLE[: at[0]] + at[1] + WHOLE[at[0] + len(at[1]) :]
        ),
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE))).map(
            lambda cut: WHOLE[: min(cut)] + WHOLE[max(cut) :]
        ),
    )
)
def test_any_bytes_are_an_archive_or_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "fuzzed.zip"
    path.write_bytes(data)
    try:
        runs = list(read_archive(path))
    except ConfigError as error:
        assert "fuzzed.zip" in error.message or "run_id" in error.message
        return
    assert [run.run_id for run in runs] in ([], ["r"])
    for run in runs:
        assert all(decode_entry(item.line).seq == item.seq for item in run.entries)
