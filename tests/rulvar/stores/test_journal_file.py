"""One journal file that is appended to: which seq may come next."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.errors import JournalOrderViolation
from rulvar.stores import JsonlFileStore


@pytest.mark.parametrize(
    ("stored", "seq", "follows"),
    [
        ('{"seq":4}\n{"seq":null}\n', 1, True),
        ('{"seq":4}\n{"kind":"x"}', 4, True),
        ('{"seq":4}\n5\n', 5, True),
        ('{"seq":4}\n[1]\n', 0, True),
        ('{"seq":4}\n{"seq":2}\n', 3, True),
        ('{"seq":4}\n{"seq":2}\n', 2, False),
        ('{"seq":null}\n{"seq":4}\n', 4, False),
        ("\n\n", 0, True),
    ],
)
async def test_an_entry_comes_after_the_last_one_if_that_has_a_seq(
    tmp_path: Path, stored: str, seq: int, follows: bool
) -> None:
    (tmp_path / "r.jsonl").write_text(stored)
    store = JsonlFileStore(tmp_path)
    entry = decode_entry(b'{"seq":%d}' % seq)
    if follows:
        await store.append("r", [entry])
        whole = stored if stored.endswith("\n") else f"{stored}\n"
        assert (tmp_path / "r.jsonl").read_text() == f'{whole}{{"seq":{seq}}}\n'
    else:
        with pytest.raises(JournalOrderViolation, match=f"entry seq {seq} is not after"):
            await store.append("r", [entry])
    store.close()


async def test_what_white_space_a_torn_journal_had_is_gone_after_the_repair(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'\n{"seq":0,"n":1.0}\r\n\n{"seq":1,"n": 2}\r\n{"seq":2,')
    store = JsonlFileStore(tmp_path)
    loaded = [entry.line for entry in await store.load("r")]
    assert path.read_bytes() == b'{"seq":0,"n":1.0}\n{"seq":1,"n": 2}\n'
    assert loaded == [entry.line for entry in await store.load("r")]
    await store.append("r", [decode_entry(b'{"seq":2}')])
    assert path.read_bytes() == b'{"seq":0,"n":1.0}\n{"seq":1,"n": 2}\n{"seq":2}\n'
    store.close()


async def test_a_journal_that_its_holder_has_loaded_is_not_read_again_to_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlFileStore(tmp_path)
    await store.append("r", [_entry(0), _entry(1)])
    store.close()
    lease = await store.acquire_lease("r", "me", 30)
    assert [item.seq for item in await store.load("r")] == [0, 1]
    monkeypatch.setattr("rulvar.stores.journal_file.read_file", _no_second_read)
    await store.append("r", [_entry(2)], lease=lease)
    with pytest.raises(JournalOrderViolation, match="not after the stored tail 2"):
        await store.append("r", [_entry(1)], lease=lease)
    await store.release_lease(lease)


def _no_second_read(path: Path) -> bytes:
    raise AssertionError(f"{path} was read again")


@pytest.mark.parametrize("end", [b"", b'{"seq":1'], ids=["no line feed", "torn"])
async def test_what_its_holder_appends_to_a_journal_that_does_not_end_well_is_a_line_of_its_own(
    tmp_path: Path, end: bytes
) -> None:
    store = JsonlFileStore(tmp_path)
    line = _entry(0).line
    (tmp_path / "r.jsonl").write_bytes(line + (b"\n" if end else b"") + end)
    lease = await store.acquire_lease("r", "me", 30)
    assert [item.seq for item in await store.load("r")] == [0]
    await store.append("r", [_entry(2)], lease=lease)
    await store.release_lease(lease)
    assert (tmp_path / "r.jsonl").read_bytes() == line + b"\n" + _entry(2).line + b"\n"


async def test_what_somebody_without_a_lock_wrote_after_the_holder_loaded_is_seen(tmp_path: Path) -> None:
    store = JsonlFileStore(tmp_path)
    lease = await store.acquire_lease("r", "me", 30)
    await store.append("r", [_entry(0)], lease=lease)
    await store.load("r")
    with (tmp_path / "r.jsonl").open("ab") as file:
        file.write(_entry(1).line + b"\n")
    with pytest.raises(JournalOrderViolation, match="not after the stored tail 1"):
        await store.append("r", [_entry(1)], lease=lease)
    await store.release_lease(lease)


def _entry(seq: int) -> JournalEntry:
    return decode_entry(b'{"seq":%d}' % seq)
