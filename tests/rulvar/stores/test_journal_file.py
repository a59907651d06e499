"""One journal file that is appended to: which seq may come next."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulvar.contracts.entries import decode_entry
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
