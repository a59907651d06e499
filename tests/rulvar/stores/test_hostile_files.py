"""Whatever bytes lie where a store looks: it reads them, or refuses them by name; never a crash, a hang or a loss."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rulvar.contracts.entries import decode_entry
from rulvar.contracts.ports.queue import Submission
from rulvar.contracts.ports.transcripts import split_ref
from rulvar.errors import ConfigError, JournalOrderViolation, RulvarError
from rulvar.stores import JsonlFileStore, SqliteStore
from rulvar.stores.journal_lines import read_journal_lines
from rulvar.testing.conformance.store_suite import entry

EXAMPLES = int(os.environ.get("RULVAR_FUZZ_EXAMPLES", "120"))  # more of them for a longer look
LINES = st.sampled_from(
    [entry(n).line for n in range(4)] + [b'{"seq":9}', b"[]", b"7", b"null", b'"x"', b"{}"]
)
PIECES = st.one_of(
    LINES.map(lambda line: line + b"\n"),
    LINES,
    LINES.flatmap(lambda line: st.integers(0, len(line)).map(lambda end: line[:end])),
    st.binary(max_size=12),
    st.sampled_from(
        [b"\n", b"\r\n", b"\0", b"\xff", b"[" * 300, b'{"a":' * 300, b"1e999", b"-", b"\xed\xa0\x80"]
    ),
)
JOURNALS = st.lists(PIECES, max_size=8).map(b"".join)
ANYHOW = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@ANYHOW
@given(data=JOURNALS)
@example(data=b'{"seq":0}\n' + b"[" * 100_000)
@example(data=b'{"seq":0}\n' + b"9" * 10_000)
@example(data=b'{"seq":' + b"9" * 5_000 + b"}\n")
def test_any_bytes_are_a_journal_or_refused(data: bytes) -> None:
    try:
        lines = read_journal_lines(data, "r.jsonl")
    except JournalOrderViolation as error:
        assert "r.jsonl, line" in error.message
        return
    assert 0 <= lines.intact <= len(data)
    again = read_journal_lines(lines.repaired(data), "r.jsonl")
    assert not again.torn
    assert [item.line for item in again.entries] == [item.line for item in lines.entries]


@ANYHOW
@given(data=JOURNALS)
def test_loading_repairs_without_losing_and_appending_goes_on(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(data)
    store = JsonlFileStore(tmp_path)

    async def check() -> None:
        try:
            loaded = await store.load("r")
        except JournalOrderViolation:
            assert (tmp_path / "r.jsonl").read_bytes() == data
            return
        assert [item.line for item in await store.load("r")] == [item.line for item in loaded]
        following = entry(max((item.seq for item in loaded), default=-1) + 1)
        await store.append("r", [following])
        assert [item.line for item in await store.load("r")] == [item.line for item in [*loaded, following]]

    asyncio.run(check())
    store.close()
    assert {path.name for path in tmp_path.iterdir()} == {"r.jsonl"}


@ANYHOW
@given(data=st.one_of(st.binary(max_size=60), JOURNALS))
def test_any_line_is_an_entry_or_no_json(data: bytes) -> None:
    try:
        decoded = decode_entry(data)
    except ValueError:
        return
    assert decoded.line == data
    assert isinstance(decoded.seq, int)
    assert isinstance(decoded.kind, str)


@ANYHOW
@given(
    data=st.one_of(
        st.binary(max_size=60), st.sampled_from([b"{}", b"[]", b"{", b'{"runId":7}', b"\xff", b"[" * 9999])
    )
)
def test_any_bytes_are_a_meta_row_or_refused_by_name(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.meta.json").write_bytes(data)
    store = JsonlFileStore(tmp_path)
    for look in (store.load_meta("r"), store.list_runs()):
        try:
            found: Any = asyncio.run(look)
        except ConfigError as error:
            assert "r.meta.json" in error.message
        else:
            assert found is None or isinstance(found, (dict, list))


@ANYHOW
@given(
    ref=st.one_of(
        st.text(max_size=30),
        st.lists(st.sampled_from(["r", "..", ".", "", "a", "t0", "\0", "~"]), max_size=6).map("/".join),
    )
)
def test_any_reference_stays_in_its_place_or_is_refused(ref: str, tmp_path: Path) -> None:
    try:
        run_id, name = split_ref(ref)
    except ConfigError:
        return
    place = (tmp_path / run_id / f"{name}.bin").resolve()
    assert place.is_relative_to((tmp_path / run_id).resolve())
    assert place != (tmp_path / run_id).resolve()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["run_id", "workflow", "args", "budget_usd", "deadline_ms", "name", "tags", "scope", "x"]
)


@ANYHOW
@given(wire=st.dictionaries(FIELDS, st.one_of(JSON, st.just("r")), max_size=9))
@example(wire={"run_id": "r", "workflow": "r", "tags": None})
def test_any_object_is_a_submission_or_refused_by_field(wire: dict[str, Any]) -> None:
    try:
        submission = Submission.from_wire(wire)
    except ConfigError as error:
        assert "submission" in error.message or "run_id" in error.message
        return
    assert Submission.from_wire(submission.to_wire()) == submission


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 100), junk=st.binary(min_size=1, max_size=64))
@example(cut=7, junk=b"0\x80")
def test_a_damaged_database_is_a_typed_error(cut: int, junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for leftover in tmp_path.glob("runs.db*"):
        leftover.unlink(missing_ok=True)

    async def check() -> None:
        store = SqliteStore(path, durability="process")
        await store.append("r", [entry(n) for n in range(50)])
        await store.save_meta("r", {"runId": "r", "status": "ok"})
        await store.close()
        data = bytearray(path.read_bytes())
        at = len(data) * cut // 101
        data[at : at + len(junk)] = junk
        path.write_bytes(bytes(data))
        for look in (
            store.load("r"),
            store.load_meta("r"),
            store.list_runs(),
            store.append("r", [entry(50)]),
        ):
            try:
                await look
            except RulvarError as error:
                assert error.message
        await store.close()

    asyncio.run(check())


async def test_a_value_of_another_type_in_the_database_is_a_typed_error(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    await store.append("r", [entry(0)])
    await store.save_meta("r", {"runId": "r", "status": "ok"})
    await store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE rulvar_entries SET line = 7")
    connection.execute("UPDATE rulvar_metas SET meta = 'text'")
    connection.commit()
    connection.close()
    with pytest.raises(JournalOrderViolation, match="run r, seq 0"):
        await store.load("r")
    with pytest.raises(ConfigError, match="run r"):
        await store.load_meta("r")
    await store.close()


async def test_a_row_that_holds_another_rows_entry_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    await store.append("r", [entry(n) for n in range(3)])
    await store.close()
    connection = sqlite3.connect(store.path)
    connection.execute(
        "UPDATE rulvar_entries SET line = (SELECT line FROM rulvar_entries WHERE seq = 0) WHERE seq = 1"
    )
    connection.commit()
    connection.close()
    with pytest.raises(JournalOrderViolation, match=r"run r, seq 1.*says seq 0"):
        await store.load("r")
    await store.close()
