"""An audit finds damage, broken order, dangling calls and disagreement, and mends what it can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

JOURNALS = Path(__file__).resolve().parents[2] / "interop" / "vectors" / "journals"


def findings(done: Any, run_id: str = "r1") -> list[tuple[str, str]]:
    [run] = [run for run in done.json["runs"] if run["runId"] == run_id]
    return [(item["level"], item["kind"]) for item in run["findings"]]


def test_a_sound_store_has_no_findings(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    done = look("runs", "audit")
    assert (done.code, done.out) == (0, "1 run, no problems\n")


def test_a_torn_tail_is_found_and_cut(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    whole = store.journal("r1").read_bytes()
    store.journal("r1").write_bytes(whole + b'{"hashVersion":2,"se')
    found = look("runs", "audit", "--json")
    assert (found.code, findings(found)) == (1, [("problem", "torn-tail")])
    assert store.journal("r1").read_bytes() != whole  # a look writes nothing
    mended = look("runs", "audit", "--repair")
    assert mended.code == 0
    assert "repaired" in mended.out
    assert store.journal("r1").read_bytes() == whole


def test_whole_entries_in_a_torn_tail_are_kept(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    whole = store.journal("r1").read_bytes()
    glued = json.dumps({"hashVersion": 2, "seq": 3, **entry.opened(key="x")}).encode()
    store.journal("r1").write_bytes(whole + glued + b'{"hash')
    look("runs", "audit", "--repair")
    assert store.journal("r1").read_bytes() == whole + glued + b"\n"


def test_a_line_in_the_middle_that_is_no_entry_is_named_and_left_alone(
    look: Any, store: Any, entry: Any
) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    lines = store.journal("r1").read_text().splitlines()
    broken = "\n".join([lines[0], "{broken", *lines[1:]]) + "\n"
    store.journal("r1").write_text(broken)
    done = look("runs", "audit", "--repair")
    assert done.code == 1
    assert "line 2" in done.out
    assert store.journal("r1").read_text() == broken


@pytest.mark.parametrize(
    ("seqs", "kinds"),
    [
        ([0, 2, 1], ["order"]),
        ([0, 0, 1], ["order", "ref"]),
        ([0, 5, 9], []),
    ],
)
def test_an_order_that_no_journal_has_is_found(
    look: Any, store: Any, entry: Any, seqs: list[int], kinds: list[str]
) -> None:
    wires = [entry.opened(), entry.closed(0), entry.settled()]
    text = "".join(
        json.dumps({"hashVersion": 2, **wire, "seq": seq}) + "\n"
        for seq, wire in zip(seqs, wires, strict=True)
    )
    store.put("r1")
    store.journal("r1").write_text(text)
    done = look("runs", "audit", "--json")
    assert [kind for level, kind in findings(done) if level == "problem"] == kinds


def test_references_that_lead_nowhere_or_forward_are_found(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.closed(7), entry.opened(), entry.closed(1), entry.closed(1), entry.settled())
    done = look("runs", "audit", "--json")
    assert findings(done) == [("problem", "ref"), ("note", "closed-twice")]


def test_dangling_calls_and_open_waits_are_notes(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.waiting(), entry.settled("suspended"), meta={"status": "suspended"})
    done = look("runs", "audit", "--json")
    assert (done.code, findings(done)) == (0, [("note", "dangling"), ("note", "open-wait")])


@pytest.mark.parametrize(("at", "field"), [(0, "kind"), (0, "key"), (0, "status"), (1, "ref")])
def test_an_entry_that_no_resume_could_go_on_from_is_found(
    look: Any, store: Any, entry: Any, at: int, field: str
) -> None:
    entries = [entry.opened(), entry.closed(0), entry.settled()]
    del entries[at][field]
    store.put("r1", *entries)
    done = look("runs", "audit", "--json")
    assert done.code == 1
    assert ("problem", "malformed") in findings(done)
    assert f"entry {at + 1} of the journal (seq {at}): {field} is missing" in look("runs", "audit").out


def test_a_version_that_is_not_read_is_found(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", {**entry.opened(), "hashVersion": 3}, entry.settled())
    assert ("problem", "version") in findings(look("runs", "audit", "--json"))


def test_a_meta_row_that_was_copied_from_another_run_is_this_runs(look: Any, store: Any, entry: Any) -> None:
    wires = (entry.opened(), entry.closed(0), entry.settled())
    store.put("r1", *wires, meta={"runId": "other"})
    assert [run["runId"] for run in look("runs", "ls", "--json").json["runs"]] == ["r1"]
    assert look("runs", "audit").out == "1 run, no problems\n"


@pytest.mark.parametrize(
    ("meta", "entries", "healed"),
    [
        ({"status": "running"}, ["opened", "closed", "settled"], {"status": "ok"}),
        ({"status": "error"}, ["opened", "closed", "settled"], {"status": "ok"}),
        ({"status": "ok"}, ["opened"], {"status": "running"}),
        ({"status": "ok", "segments": 1}, ["opened", "closed", "settled 2"], {"segments": 2}),
    ],
)
def test_a_meta_row_that_contradicts_the_journal_is_healed(
    look: Any, store: Any, entry: Any, meta: dict[str, Any], entries: list[str], healed: dict[str, Any]
) -> None:
    made = {
        "opened": entry.opened(), "closed": entry.closed(0), "settled": entry.settled(),
        "settled 2": entry.settled(segment=2),
    }  # fmt: skip
    store.put("r1", *(made[name] for name in entries), meta={"future": 1, **meta})
    assert look("runs", "audit").code == 1
    assert look("runs", "audit", "--repair").code == 0
    row = store.meta("r1")
    assert {name: row[name] for name in healed} == healed
    assert row["future"] == 1
    assert look("runs", "audit").code == 0


def test_an_answer_that_no_resume_has_read_yet_is_no_disagreement(look: Any, store: Any, entry: Any) -> None:
    answer = {
        **entry.opened("resolution", ""),
        "ref": 0,
        "status": "ok",
        "resolution": {"target": 0, "value": 1},
    }
    store.put("r1", entry.waiting(), entry.settled("suspended"), answer, meta={"status": "suspended"})
    done = look("runs", "audit", "--json")
    assert (done.code, findings(done)) == (0, [])


@pytest.mark.parametrize("state", ["missing", "broken"])
def test_a_meta_row_is_written_anew_from_the_journal(look: Any, store: Any, entry: Any, state: str) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled("error"))
    path = store.folder / "r1.meta.json"
    path.unlink() if state == "missing" else path.write_text("{")
    assert look("runs", "audit").code == 1
    assert look("runs", "audit", "--repair").code == 0
    row = store.meta("r1")
    assert (row["runId"], row["status"], row["segments"]) == ("r1", "error", 1)
    assert row["updatedAt"] == "2026-01-01T00:00:00.000Z"


def test_transcripts_that_are_gone_or_lead_out_are_found(look: Any, store: Any, entry: Any) -> None:
    store.put(
        "r1",
        entry.opened("agent"), entry.closed(0, kind="agent", transcriptRef="r1/t0"),
        entry.opened("agent"), entry.closed(2, kind="agent", transcriptRef="../../etc/passwd"),
        entry.settled(),
    )  # fmt: skip
    assert findings(look("runs", "audit", "--json")) == [
        ("note", "no-transcript"),
        ("problem", "transcript-name"),
    ]


def test_one_run_is_audited_by_name_and_an_unknown_one_is_refused(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.settled())
    store.put("r2", entry.settled("error"))
    assert look("runs", "audit", "r1").code == 0
    assert look("runs", "audit", "r2").code == 1
    unknown = look("runs", "audit", "r3")
    assert unknown.code == 2
    assert "no run 'r3'" in unknown.err


@pytest.mark.skipif(not JOURNALS.is_dir(), reason="the vectors are not here")
def test_the_originals_journals_are_sound(look: Any) -> None:
    done = look("runs", "audit", "--json", "--store", JOURNALS)
    problems = [
        (run["runId"], item["message"])
        for run in done.json["runs"]
        for item in run["findings"]
        if item["level"] == "problem"
    ]
    assert problems == []


def test_a_run_that_is_one_torn_line_is_shown_and_its_journal_removed(look: Any, store: Any) -> None:
    store.journal("r2").write_bytes(b'{"hashVersion":2,"se')
    shown = look("inspect", "r2")
    assert shown.code == 0
    assert "the last line is torn: 20 bytes are no entry" in shown.out
    assert "neither a meta row nor an entry" in shown.out
    assert len(look("inspect", "r2", "--json").json["damage"]) == 2
    found = look("runs", "audit", "--json")
    assert (found.code, findings(found, "r2")) == (1, [("problem", "torn-tail"), ("note", "not-begun")])
    assert store.journal("r2").exists()
    mended = look("runs", "audit", "--repair")
    assert (mended.code, mended.out.splitlines()[-1]) == (0, "1 run, no problems, 2 repaired")
    assert not store.journal("r2").exists()
    assert look("runs", "audit").out == "0 runs, no problems\n"


@pytest.mark.parametrize("verb", [("runs",), ("answer",), ("cancel",), ("export",), ("resume",)])
def test_other_verbs_say_that_nothing_of_such_a_run_can_be_read(
    look: Any, store: Any, project: Path, verb: tuple[str, ...]
) -> None:
    store.journal("r2").write_bytes(b"")
    done = look(*verb, "r2")
    assert done.code == 2
    assert "neither a meta row nor an entry; rulvar runs audit r2 says more" in done.err
    assert "did you mean" not in done.err


def test_a_torn_tail_is_shown_by_inspect(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    assert "damage" not in look("inspect", "r1").out
    with store.journal("r1").open("ab") as file:
        file.write(b"{")
    assert "the last line is torn: 1 byte is no entry; see rulvar runs audit r1" in look("inspect", "r1").out


def test_what_cannot_be_repaired_is_not_called_repaired(look: Any, store: Any) -> None:
    (store.folder / "r1.meta.json").write_text("{broken")
    mended = look("runs", "audit", "--repair")
    assert mended.code == 1
    assert "; repaired" not in mended.out


def test_a_tail_that_could_not_be_cut_is_no_repaired_one(
    look: Any, store: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("r1", entry.opened(), entry.closed(0), entry.settled())
    with store.journal("r1").open("ab") as file:
        file.write(b"{")
    monkeypatch.setattr("rulvar.stores.jsonl.JournalFile.repair", lambda file: None)  # a folder read only
    mended = look("runs", "audit", "--repair")
    assert mended.code == 1
    assert "1 byte is no entry; not repaired" in mended.out
