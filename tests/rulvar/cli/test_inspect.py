"""A run is shown call by call, or one entry whole."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def told(look: Any, store: Any, entry: Any) -> Any:
    usage = {"inputTokens": 1200, "outputTokens": 34, "cacheReadTokens": 0, "cacheWriteTokens": 0}
    store.put(
        "r1",
        entry.opened(),
        entry.closed(0, {"a": 1}),
        entry.opened("agent", "ka"),
        entry.closed(2, "an answer\nof two lines", kind="agent", usage=usage, servedBy="m:x",
                     costAttribution={"agentType": "writer", "label": "reply"}, transcriptRef="r1/t0"),
        entry.opened("agent", "kb", "par:0:1"),
        entry.closed(4, None, "error", kind="agent", error={"code": "agent", "message": "boom"}),
        {**entry.opened("rand", "kr"), "status": "ok", "value": {"subtype": "now", "value": 5}},
        {**entry.opened("child", "kc"), "value": {"workflow": "sub", "childScope": "wf:sub:0"}},
        entry.waiting("gate", prompt="Go?", schema={"type": "boolean"}),
        entry.settled("suspended"),
        meta={"status": "suspended", "name": "nightly", "tags": ["a"], "budgetUsd": 5},
    )  # fmt: skip
    folder = store.folder / "transcripts" / "r1"
    folder.mkdir(parents=True)
    (folder / "t0.bin").write_text('{"messages": ["hello"]}')
    return look


def test_calls_are_shown_in_order_with_what_they_came_to(told: Any) -> None:
    done = told("inspect", "r1")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    shown = {row[0]: row for row in rows if row and row[0].isdigit()}
    assert shown["0"][1:5] == ["-", "step", "#k", "ok"]
    assert shown["2"][2:5] == ["agent", "reply", "ok"]
    assert shown["2"][6:8] == ["1,200", "in"]
    assert "an answer of two lines" in done.out
    assert shown["4"][1:5] == ["par:0:1", "agent", "#kb", "error"]
    assert "agent: boom" in done.out
    assert shown["6"][2:5] == ["rand", "now", "ok"]
    assert shown["7"][2:5] == ["child", "sub", "running"]
    assert shown["8"][2:5] == ["external", "gate", "suspended"]
    for text in ("nightly", "suspended at 9", "waits for gate", "Go?"):
        assert text in done.out


def test_the_document_holds_meta_calls_waits_and_settles(told: Any) -> None:
    document = told("inspect", "r1", "--json").json
    assert document["meta"]["name"] == "nightly"
    assert [call["seq"] for call in document["calls"]] == [0, 2, 4, 6, 7, 8]
    assert document["calls"][1]["value"] == "an answer\nof two lines"
    assert document["calls"][2]["error"] == {"code": "agent", "message": "boom"}
    assert [item["key"] for item in document["pending"]] == ["gate"]
    assert document["settles"] == [{"seq": 9, "status": "suspended", "segment": 1, "outputHash": None}]


def test_a_scope_without_calls_says_which_there_are(told: Any) -> None:
    done = told("inspect", "r1", "--scope", "par:9")
    assert done.code == 0
    assert "no call in scope 'par:9'; there are: " in done.err
    assert "par:0:1" in done.err


def test_one_scope_can_be_chosen(told: Any) -> None:
    assert [call["seq"] for call in told("inspect", "r1", "--json", "--scope", "par:0:1").json["calls"]] == [
        4
    ]
    assert told("inspect", "r1", "--json", "--scope", "par:0").json["calls"] == []


def test_one_entry_is_shown_whole_with_its_conversation(told: Any) -> None:
    done = told("inspect", "r1", "--seq", "3")
    assert '"servedBy": "m:x"' in done.out
    assert '"hello"' in done.out
    document = told("inspect", "r1", "--seq", "3", "--json").json
    assert document["entry"]["seq"] == 3
    assert document["transcript"] == {"messages": ["hello"]}


def test_an_entry_that_is_not_there_is_refused(told: Any) -> None:
    done = told("inspect", "r1", "--seq", "99")
    assert done.code == 2
    assert "its last one is 9" in done.err


def test_entries_are_shown_as_they_are(told: Any) -> None:
    assert len(told("inspect", "r1", "--entries").out.splitlines()) == 10
    assert [entry["seq"] for entry in told("inspect", "r1", "--entries", "--json").json["entries"]] == list(
        range(10)
    )


def test_a_torn_journal_is_shown_and_left_as_it_is(told: Any, store: Any) -> None:
    torn = store.journal("r1").read_bytes() + b'{"hash'
    store.journal("r1").write_bytes(torn)
    assert told("inspect", "r1").code == 0
    assert store.journal("r1").read_bytes() == torn


def test_a_damaged_journal_names_file_and_line(told: Any, store: Any) -> None:
    lines = store.journal("r1").read_text().splitlines()
    store.journal("r1").write_text("\n".join([lines[0], "nonsense", *lines[2:]]))
    done = told("inspect", "r1")
    assert done.code == 2
    assert "r1.jsonl, line 2" in done.err


@pytest.mark.parametrize("name", ["r2", "R1", "r"])
def test_an_unknown_run_is_refused_and_the_nearest_named(told: Any, name: str) -> None:
    done = told("inspect", name)
    assert done.code == 2
    assert f"no run {name!r}" in done.err


def test_a_reference_that_leads_out_of_the_store_is_not_followed(look: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.opened("agent"), entry.closed(0, kind="agent", transcriptRef="../../../etc/passwd"))
    done = look("inspect", "r1", "--seq", "1", "--json")
    assert (done.code, done.json["transcript"]) == (0, None)


def test_entries_of_unknown_kinds_and_shapes_are_shown_as_far_as_they_go(
    look: Any, store: Any, entry: Any
) -> None:
    store.put(
        "r1",
        {"kind": "future", "x": 1},
        entry.opened("step", "k", spanId="odd"),
        {"status": 7},
        entry.settled(),
    )
    with store.journal("r1").open("a") as file:
        file.write('9\n{"seq": 10}\n')
    assert look("inspect", "r1").code == 0
    assert look("inspect", "r1", "--json").code == 0
    assert look("runs", "audit").code in (0, 1)


@pytest.mark.parametrize(
    ("interrupted", "shown"),
    [
        (
            {"times": 3, "entries": 1, "checkpointBytes": 0},
            "after entry 0, 3 times in a row without getting any further",
        ),
        ({"times": 1, "entries": 1}, "after entry 0, once"),
        ({"times": 2, "entries": 0}, "before its first entry, 2 times in a row without getting any further"),
        ({"times": "often"}, None),
        (None, None),
    ],
)
def test_a_run_that_broke_off_shows_where_and_how_often(
    look: Any, store: Any, entry: Any, interrupted: Any, shown: str | None
) -> None:
    told = {} if interrupted is None else {"interrupted": interrupted}
    store.put("r1", entry.opened(), meta={"status": "error", **told})
    lines = [
        line.split("broke off", 1)[1].strip()
        for line in look("inspect", "r1").out.splitlines()
        if "broke off" in line
    ]
    assert lines == ([] if shown is None else [shown])
