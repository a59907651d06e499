"""Runs are listed, whatever state their files are in."""

from __future__ import annotations

from typing import Any


def test_the_latest_run_comes_first(look: Any, store: Any) -> None:
    store.put("old", meta={"updatedAt": "2026-01-01T00:00:00.000Z", "name": "first", "tags": ["nightly"]})
    store.put("new", meta={"updatedAt": "2026-02-01T00:00:00.000Z", "status": "suspended"})
    done = look("runs", "ls")
    heading, first, second = done.out.splitlines()
    assert heading.split() == ["RUN", "STATUS", "WORKFLOW", "SEGMENTS", "UPDATED", "NAME"]
    assert first.split()[:3] == ["new", "suspended", "w"]
    assert second.split()[:2] == ["old", "ok"]
    assert second.endswith("first #nightly")


def test_runs_are_chosen_by_status_workflow_tag_and_number(look: Any, store: Any) -> None:
    store.put("a", meta={"status": "error", "tags": ["x"]})
    store.put("b", meta={"workflowName": "other"})
    store.put("c", meta={"tags": ["x", "y"]})

    def ids(*words: str) -> set[str]:
        return {run["runId"] for run in look("runs", "ls", "--json", *words).json["runs"]}

    assert ids() == {"a", "b", "c"}
    assert ids("--status", "error") == {"a"}
    assert ids("--status", "error", "--status", "ok", "--workflow", "w") == {"a", "c"}
    assert ids("--tag", "x", "--tag", "y") == {"c"}
    assert len(ids("--limit", "2")) == 2
    assert ids("--limit", "0") == set()


def test_the_document_holds_the_meta_rows_as_they_are(look: Any, store: Any) -> None:
    store.put("a", meta={"future": {"kept": [1]}})
    done = look("runs", "ls", "--json")
    [run] = done.json["runs"]
    assert run["future"] == {"kept": [1]}
    assert done.json["problems"] == []


def test_a_run_whose_meta_row_is_broken_or_missing_is_listed_as_such(
    look: Any, store: Any, entry: Any
) -> None:
    store.put("good")
    (store.folder / "broken.meta.json").write_text("{")
    (store.folder / "list.meta.json").write_text("[]")
    store.put("bare", entry.opened())
    (store.folder / "bare.meta.json").unlink()
    (store.folder / "not a run id.meta.json").write_text("{}")
    done = look("runs", "ls")
    assert done.code == 0
    lines = {line.split()[0]: line for line in done.out.splitlines()[1:]}
    assert set(lines) == {"good", "broken", "list", "bare"}
    assert "not JSON" in lines["broken"]
    assert "expected an object" in lines["list"]
    assert "no meta row" in lines["bare"]
    assert {item["runId"] for item in look("runs", "ls", "--json").json["problems"]} == {
        "broken",
        "list",
        "bare",
    }


def test_an_empty_store_is_no_error(look: Any, store: Any) -> None:
    assert look("runs", "ls").code == 0
    assert look("runs", "ls", "--json").json["runs"] == []


def test_rows_hold_values_of_any_type(look: Any, store: Any) -> None:
    store.put("odd", meta={"status": None, "segments": "x", "updatedAt": 7, "tags": "t", "name": {"a": 1}})
    assert look("runs", "ls").code == 0
