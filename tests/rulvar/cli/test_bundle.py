"""A run goes into one file and comes back byte for byte; a file that means harm is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from rulvar import JsonlFileStore
from rulvar.stores import SqliteStore


@pytest.fixture
def exported(look: Any, store: Any, entry: Any, project: Path) -> Path:
    """An exported run with everything a run can have."""
    store.put(
        "r1", entry.opened(), entry.closed(0, transcriptRef="r1/t0"), entry.settled(), meta={"future": [1]}
    )
    with store.journal("r1").open("a") as file:
        # spaces, an escape, a big number, a lone surrogate, an unknown kind: kept as they are
        file.write(
            '{"seq": 3, "kind":"future",  "n": 1.50, "big": 123456789012345678901, "s": "\\u00e9\\ud800"}\n'
        )
    for name in ("t0", "ckpt/4", "cli-args"):
        path = store.folder / "transcripts" / "r1" / f"{name}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x00\xff" + name.encode())
    done = look("export", "r1")
    assert done.code == 0, done.err
    return project / "r1.run.json"


def test_a_run_comes_back_byte_for_byte(look: Any, store: Any, exported: Path, project: Path) -> None:
    done = look("import", exported, "--store", "other")
    assert done.code == 0, done.err
    other = project / "other"
    assert (other / "r1.jsonl").read_bytes() == store.journal("r1").read_bytes()
    assert json.loads((other / "r1.meta.json").read_text()) == store.meta("r1")
    for name in ("t0", "ckpt/4", "cli-args"):
        path = f"transcripts/r1/{name}.bin"
        assert (other / path).read_bytes() == (store.folder / path).read_bytes()


def test_the_file_is_json_that_says_what_it_is(exported: Path) -> None:
    document = json.loads(exported.read_text())
    assert (document["v"], document["kind"], document["runId"]) == (1, "rulvar-run", "r1")
    assert len(document["entries"]) == 4
    assert base64.b64decode(document["transcripts"]["ckpt/4"]) == b"\x00\xffckpt/4"


def test_a_file_that_was_reformatted_is_still_read(look: Any, exported: Path, project: Path) -> None:
    exported.write_text(json.dumps(json.loads(exported.read_text()), indent=4))
    assert look("import", exported, "--store", "other").code == 0
    assert look("runs", "audit", "--store", "other").code == 0
    assert len((project / "other" / "r1.jsonl").read_text().splitlines()) == 4


def test_a_run_that_is_there_is_not_replaced_unless_told(look: Any, store: Any, exported: Path) -> None:
    refused = look("import", exported)
    assert refused.code == 2
    assert "already" in refused.err
    (store.folder / "transcripts" / "r1" / "old.bin").write_bytes(b"")
    assert look("import", exported, "--force").code == 0
    assert not (store.folder / "transcripts" / "r1" / "old.bin").exists()


def test_a_file_that_is_there_is_not_replaced_unless_told(look: Any, exported: Path) -> None:
    refused = look("export", "r1")
    assert refused.code == 2
    assert "--force" in refused.err
    assert look("export", "r1", "--force").code == 0


def test_stdout_and_stdin_serve_as_files(rulvar: Any, exported: Path, project: Path) -> None:
    text = rulvar("export", "r1", "-o", "-").out
    assert json.loads(text)["runId"] == "r1"
    assert rulvar("import", "-", "--store", "other", stdin=text).code == 0
    assert (project / "other" / "r1.jsonl").exists()


HARM: dict[str, tuple[dict[str, Any], str]] = {
    "run id up": ({"runId": "../r1"}, "runId"),
    "run id dots": ({"runId": ".."}, "runId"),
    "run id absolute": ({"runId": "/tmp/r1"}, "runId"),
    "run id missing": ({"runId": None}, "runId"),
    "run id number": ({"runId": 7}, "runId"),
    "meta of another": ({"meta": {"runId": "r2"}}, "meta.runId"),
    "meta no object": ({"meta": []}, "meta"),
    "transcript up": ({"transcripts": {"../../x": "AA=="}}, "transcripts['../../x']"),
    "transcript dots": ({"transcripts": {"..": "AA=="}}, "transcripts['..']"),
    "transcript absolute": ({"transcripts": {"/etc/x": "AA=="}}, "transcripts['/etc/x']"),
    "transcript backslash": ({"transcripts": {"..\\x": "AA=="}}, "transcripts["),
    "transcript zero": ({"transcripts": {"a\x00b": "AA=="}}, "transcripts["),
    "transcript empty": ({"transcripts": {"": "AA=="}}, "transcripts['']"),
    "transcript deep": ({"transcripts": {"/".join("a" * 50): "AA=="}}, "transcripts["),
    "transcript no base64": ({"transcripts": {"t0": "***"}}, "transcripts['t0']"),
    "transcript no text": ({"transcripts": {"t0": 7}}, "transcripts['t0']"),
    "transcripts no object": ({"transcripts": [1]}, "transcripts"),
    "entries no list": ({"entries": {}}, "not an exported run"),
    "entry no object": ({"entries": [7]}, "entries[0]"),
    "entry without seq": ({"entries": [{}]}, "entries[0].seq"),
    "entries out of order": ({"entries": [{"seq": 1}, {"seq": 0}]}, "entries[1].seq"),
    "another kind": ({"kind": "rulvar-replay-report"}, "kind"),
    "another version": ({"v": 2}, "version 2"),
}


@pytest.mark.parametrize(("change", "named"), HARM.values(), ids=list(HARM))
def test_a_file_that_means_harm_is_refused_whole(
    look: Any, exported: Path, project: Path, change: dict[str, Any], named: str
) -> None:
    document = {**json.loads(exported.read_text()), **change}
    exported.write_text(json.dumps(document))
    before = sorted(str(path) for path in project.parent.rglob("*"))
    done = look("import", exported, "--store", "other")
    assert done.code == 2
    assert str(exported) in done.err
    assert named in done.err
    assert len(done.err.splitlines()) == 1
    assert sorted(str(path) for path in project.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{[]: 1}", b'{"entries": [1,]}', b'{"v": 1} x', b"[" * 100_000, b'{"kind":"rulvar-run","v":1,"runId":"r","meta":' + b"[" * 100_000],
)  # fmt: skip
def test_bytes_that_are_no_such_file_are_refused(look: Any, store: Any, project: Path, data: bytes) -> None:
    (project / "x.json").write_bytes(data)
    done = look("import", "x.json")
    assert done.code == 2
    assert "x.json" in done.err
    assert "internal error" not in done.err


def test_an_export_names_transcripts_that_are_gone(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.closed(0, transcriptRef="r1/t9"))
    done = look("export", "r1", "--json")
    assert done.json["missing"] == ["t9"]
    assert "t9" in done.err


def test_a_link_in_the_store_is_not_followed_into_an_export(
    look: Any, store: Any, entry: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not export")
    store.put("r1", entry.opened())
    folder = store.folder / "transcripts" / "r1"
    folder.mkdir(parents=True)
    (folder / "t0.bin").symlink_to(secret)
    look("export", "r1")
    assert json.loads((store.folder.parent / "r1.run.json").read_text())["transcripts"] == {}


def test_a_run_of_unknown_name_is_not_exported(look: Any, store: Any) -> None:
    for name in ("nope", "../nope", ".."):
        assert look("export", name).code == 2


@pytest.mark.parametrize("name", ["kept", "runs.db"])
def test_a_run_that_somebody_drives_is_not_replaced(rulvar: Any, project: Path, name: str) -> None:
    at = ("--store", name)
    rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", *at)
    rulvar("export", "r1", *at)
    assert rulvar("import", "r1.run.json", *at).code == 2
    assert rulvar("import", "r1.run.json", "--force", *at).code == 0
    assert rulvar("resume", "r1", "flows.py:release", *at).code == 3  # nobody holds it afterwards

    async def refused() -> Any:
        store = JsonlFileStore(project / name) if name == "kept" else SqliteStore(project / name)
        lease = await store.acquire_lease("r1", "somebody", 60)
        try:
            return await asyncio.to_thread(rulvar, "import", "r1.run.json", "--force", *at)
        finally:
            await store.release_lease(lease)
            if isinstance(store, SqliteStore):
                await store.close()

    done = asyncio.run(refused())
    assert done.code == 2
    assert "is held by" in done.err
    assert rulvar("resume", "r1", "flows.py:release", *at).code == 3
