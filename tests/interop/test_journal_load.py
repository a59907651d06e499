"""Odd journal files load, are repaired and are refused as the original does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_facts import scenario_named
from scenario_language import ScenarioWorkflow, ScriptedAgents, check_words, scenario_engine, scenario_tools

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError, JournalCompatibilityError, JournalOrderViolation, RulvarError
from rulvar.stores import JsonlFileStore

VECTORS = Path(__file__).parent / "vectors" / "journals"
"""The files of the version window hold one scenario's run, whichever set of vectors they come from."""


LOAD_FIELDS = {"name", "file", "repairOnLoad", "loaded", "file_after_load", "file_after_append", "error"}
APPEND_FIELDS = {"name", "instances", "results", "file"}
WINDOW_FIELDS = {"name", "file", "status", "value", "preview", "rejected", "live_calls", "appended"}
WINDOW_FIELDS |= {"prefix_unchanged"}
FOLDERS = {".", ".."}
"""Run ids that the original takes, and that are refused here on purpose: they are folders."""
RUN_ID_CLASS = "JournalOrderViolation"
"""What the original's store refuses a run id with; here it is a ``ConfigError``, raised before any store is asked."""


def check_refusal(error: RulvarError, expected: Mapping[str, Any]) -> None:
    """A refusal is of the recorded class and code, and names what the recorded one names."""
    check_words("a refusal", expected, {"class", "code", "line", "names"})
    assert (type(error).__name__, error.code) == (expected["class"], expected["code"])
    named = [*expected.get("names", ()), *([f"line {expected['line']}"] if "line" in expected else [])]
    assert [name for name in named if name not in str(error)] == []


async def test_every_odd_file_loads_and_is_repaired_as_recorded(load_vectors: Any, tmp_path: Path) -> None:
    for number, case in enumerate(load_vectors("journal_load.json")["load"]):
        store = JsonlFileStore(tmp_path / str(number), repair_on_load=case["repairOnLoad"])
        path = tmp_path / str(number) / "r.jsonl"
        path.parent.mkdir()
        before = case["file"].encode("utf-8")
        path.write_bytes(before)
        check_words("a case of loading", case, LOAD_FIELDS)
        if "error" in case:
            with pytest.raises(JournalOrderViolation, match=r"r\.jsonl, line \d") as refused:
                await store.load("r")
            check_refusal(refused.value, case["error"])
            assert case["file_after_load"] == "unchanged", case["name"]
            assert path.read_bytes() == before
            continue
        entries = await store.load("r")
        assert [entry.seq for entry in entries] == [-1 if seq is None else seq for seq in case["loaded"]]
        after = before if case["file_after_load"] == "unchanged" else case["file_after_load"].encode()
        assert path.read_bytes() == after, case["name"]
        seq = max((entry.seq for entry in entries), default=-1) + 1
        await store.append("r", [decode_entry(b'{"seq":%d,"kind":"rand","note":"appended"}' % seq)])
        assert path.read_bytes() == case["file_after_append"].encode(), case["name"]
        store.close()


async def test_appends_are_guarded_as_recorded(load_vectors: Any, tmp_path: Path) -> None:
    for number, case in enumerate(load_vectors("journal_load.json")["append"]):
        check_words("a case of appending", case, APPEND_FIELDS)
        assert len(case["results"]) == sum(len(seqs) for seqs in case["instances"]), case["name"]
        directory = tmp_path / str(number)
        results = iter(case["results"])
        for seqs in case["instances"]:
            store = JsonlFileStore(directory)
            for seq in seqs:
                entry = decode_entry(encode_json({"seq": seq, "k": 1}))
                expected = next(results)
                if expected == "ok":
                    await store.append("r", [entry])
                else:
                    with pytest.raises(JournalOrderViolation) as refused:
                        await store.append("r", [entry])
                    check_refusal(refused.value, expected)
            store.close()
        assert (directory / "r.jsonl").read_text() == case["file"]


def test_legacy_versions_are_normalized_as_recorded(load_vectors: Any) -> None:
    for case in load_vectors("journal_load.json")["normalize"]:
        check_words("a case of normalizing", case, {"raw", "normalized"})
        entry = decode_entry(encode_json(case["raw"]))
        assert entry.hash_version == case["normalized"]["hashVersion"], case
        # the original moves a legacy version to its new name; here the line stays as it was written
        assert entry.to_wire() == case["raw"], case
        moved = {
            key: value for key, value in case["raw"].items() if key != "v" or "hashVersion" in case["raw"]
        }
        assert {**moved, "hashVersion": entry.hash_version} == case["normalized"], case


def test_run_ids_are_accepted_and_refused_as_recorded(load_vectors: Any) -> None:
    for case in load_vectors("journal_load.json")["run_ids"]:
        check_words("a run id", case, {"id", "ok", "error"})
        assert ("ok" in case) != ("error" in case), case
        if "ok" in case:
            assert case["ok"] is True, case
        else:
            check_words("a refused run id", case["error"], {"class", "code"})
            assert case["error"]["class"] == RUN_ID_CLASS, case
        if "ok" in case and case["id"] not in FOLDERS:
            assert check_run_id(case["id"]) == case["id"]
        else:
            with pytest.raises(ConfigError):
                check_run_id(case["id"])


def test_an_entry_passes_unknown_fields_through_byte_for_byte() -> None:
    line = b'{"seq":0,"kind":"future.kind","zzz":{"k":[1e21,0.1,-0]}}'
    entry = decode_entry(line)
    assert isinstance(entry, JournalEntry)
    assert entry.line == line


async def test_journals_of_other_versions_resume_or_are_refused_as_recorded(
    load_vectors: Any, tmp_path: Path
) -> None:
    scenario = scenario_named(json.loads((VECTORS / "scenarios.json").read_text("utf-8")), "seq-agents")
    for number, case in enumerate(load_vectors("journal_load.json")["version_window"]):
        check_words("a journal of another version", case, WINDOW_FIELDS)
        path = tmp_path / str(number) / "seq-agents.jsonl"
        path.parent.mkdir()
        path.write_bytes(case["file"].encode("utf-8"))
        store: Any = JsonlFileStore(path.parent)
        engine, fake = scenario_engine(scenario, store, ScriptedAgents(scenario), {})
        workflow = ScenarioWorkflow(scenario, scenario_tools(scenario)).build(scenario["wf"])
        async with engine:
            handle = engine.resume("seq-agents", workflow, args=scenario["args"])
            if "rejected" in case:
                check_words("a rejection", case["rejected"], {"class", "code", "data", "names"})
                with pytest.raises(JournalCompatibilityError, match="hashVersion") as caught:
                    await handle.result()
                expected = {key: value for key, value in case["rejected"]["data"].items() if key != "hint"}
                found = {key: value for key, value in caught.value.data.items() if key != "hint"}
                assert (caught.value.code, found) == (case["rejected"]["code"], expected), case["name"]
                assert type(caught.value).__name__ == case["rejected"]["class"], case["name"]
                assert [name for name in case["rejected"]["names"] if name not in str(caught.value)] == []
            else:
                outcome = await handle.result()
                assert (outcome.status, outcome.value) == (case["status"], case["value"]), case["name"]
                preview = await handle.preview()
                counts = (preview.hits, preview.misses, preview.reruns, preview.skipped)
                expected = case["preview"]
                assert counts == tuple(expected[key] for key in ("hits", "misses", "reruns", "skipped"))
                assert list(preview.orphaned) == expected["orphaned"]
                assert list(preview.invalid_resolutions) == expected["invalidResolutions"]
        assert len(fake.calls) == case["live_calls"]
        lines = len(path.read_bytes().splitlines()) - len(case["file"].splitlines())
        assert lines == case["appended"], case["name"]
        assert path.read_bytes().startswith(case["file"].encode("utf-8")) is case["prefix_unchanged"]
