"""Answers are journaled from the shell; a refused one leaves the wait open."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from rulvar.cli.answers import answer_value
from rulvar.cli.questions import options_again
from rulvar.contracts.outcome import Pending
from rulvar.errors import ConfigError

ONE_FIELD = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}, "why": {}}}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ('{"a": 1}', None, {"a": 1}),
        ("plain words", None, "plain words"),
        ("3", None, 3),
        ("3", {"type": "string"}, "3"),
        ('"3"', {"type": "string"}, "3"),
        ("true", {"type": "string"}, "true"),
        ("yes", {"type": "boolean"}, True),
        ("N", {"type": "boolean"}, False),
        ("true", {"type": "boolean"}, True),
        ("maybe", {"type": "boolean"}, "maybe"),
        ("7", {"type": "integer"}, 7),
        ("1", {"enum": ["1", "2"]}, "1"),
        ("1", {"enum": [1, 2]}, 1),
        ("x", True, "x"),
        ("yes", ONE_FIELD, {"ok": True}),
        ('{"ok": false}', ONE_FIELD, {"ok": False}),
        ("maybe", ONE_FIELD, {"ok": "maybe"}),
        (
            "3",
            {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
            {"text": "3"},
        ),
        ("3", {"type": "object", "properties": {"a": {}, "b": {}}}, 3),
        ("yes", {"$ref": "#/$defs/Ok", "$defs": {"Ok": {"type": "boolean"}}}, True),
    ],
)
def test_a_typed_text_becomes_the_value_that_is_meant(text: str, schema: Any, value: Any) -> None:
    made = answer_value(text, Pending(key="k", scope="", entry_ref=0, schema=schema))
    assert (made, type(made)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("allow", {"decision": "allow"}),
        ("Yes", {"decision": "allow"}),
        ("deny", {"decision": "deny"}),
        ("deny: too risky", {"decision": "deny", "reason": "too risky"}),
        ("no way", {"decision": "deny", "reason": "way"}),
        ('{"decision": "allow"}', {"decision": "allow"}),
        ('{"decision": "deny", "reason": "no"}', {"decision": "deny", "reason": "no"}),
    ],
)
def test_an_approval_takes_allow_and_deny(text: str, value: Any) -> None:
    assert answer_value(text, Pending(key="approval:4", scope="", entry_ref=4)) == value


@pytest.mark.parametrize(
    "text",
    [
        "maybe", "", "null", "1", "[]", "{}", '"allow"', '{"decision": "Allow"}', '{"decision": true}',
        '{"approved": true}', '{"decision": "allow", "reason": 1}', '{"decision": "allow", "input": {}}',
        "yes, but not in production", "allow nothing",
    ],
)  # fmt: skip
def test_an_approval_refuses_what_decides_nothing_and_says_what_it_takes(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write allow .*deny .*stays open"):
        answer_value(text, Pending(key="approval:4", scope="", entry_ref=4))


def test_a_file_that_decides_nothing_is_refused_for_an_approval(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"approved": true}')
    with pytest.raises(ConfigError, match="does not answer an approval"):
        answer_value(f"@{tmp_path / 'a.json'}", Pending(key="approval:4", scope="", entry_ref=4))


def test_a_refused_answer_to_an_approval_exits_2_and_journals_nothing(
    look: Any, store: Any, entry: Any
) -> None:
    asked = {**entry.opened("approval", "a"), "status": "suspended", "value": {"toolName": "rm", "input": {}}}
    store.put("r1", asked, entry.settled("suspended"), meta={"status": "suspended"})
    before = store.journal("r1").read_bytes()
    done = look("answer", "r1", "approval:0", "maybe")
    assert (done.code, done.out) == (2, "")
    assert "write allow" in done.err
    assert store.journal("r1").read_bytes() == before
    assert look("answer", "r1", "approval:0", "deny too risky").code == 0


@pytest.fixture
def waits(look: Any, store: Any, entry: Any) -> Any:
    schema = {"type": "object", "required": ["ok"]}
    store.put(
        "r1",
        entry.waiting("gate", prompt="Go?", schema=schema),
        entry.settled("suspended"),
        meta={"status": "suspended"},
    )
    return look


def resolutions(store: Any) -> list[Any]:
    entries = [json.loads(line) for line in store.journal("r1").read_text().splitlines()]
    return [entry["resolution"]["value"] for entry in entries if entry["kind"] == "resolution"]


def test_an_answer_is_journaled(waits: Any, store: Any) -> None:
    done = waits("answer", "r1", "gate", '{"ok": 1}', "--json")
    assert done.code == 0, done.err
    assert done.json == {"runId": "r1", "key": "gate", "answered": True, "pending": []}
    assert resolutions(store) == [{"ok": 1}]


def test_a_refused_answer_leaves_no_trace(waits: Any, store: Any) -> None:
    before = store.journal("r1").read_bytes()
    for value in ("{}", "no", "[1]"):
        done = waits("answer", "r1", "gate", value)
        assert done.code == 2
        assert "the wait stays open" in done.err
    assert store.journal("r1").read_bytes() == before


def test_the_key_may_be_left_out_where_there_is_one_wait(waits: Any, store: Any) -> None:
    assert waits("answer", "r1", '{"ok": 1}').code == 0
    assert resolutions(store) == [{"ok": 1}]


def test_an_answer_may_come_from_a_file(waits: Any, store: Any, project: Any) -> None:
    (project / "answer.json").write_text('{"ok": "from a file"}')
    assert waits("answer", "r1", "gate", "@answer.json").code == 0
    assert resolutions(store) == [{"ok": "from a file"}]
    assert waits("answer", "r1", "gate", "@nope.json").code == 2


def test_without_a_value_what_is_waited_for_is_shown(waits: Any) -> None:
    done = waits("answer", "r1")
    assert done.code == 3
    assert "gate" in done.out
    assert "Go?" in done.out
    assert waits("answer", "r1", "--json").json["pending"][0]["key"] == "gate"


def test_a_key_that_nothing_waits_for_is_refused_and_the_open_ones_named(waits: Any) -> None:
    done = waits("answer", "r1", "gat", "1")
    assert done.code == 2
    assert "'gate'" in done.err


def test_the_first_answer_wins(waits: Any) -> None:
    assert waits("answer", "r1", "gate", '{"ok": 1}').code == 0
    again = waits("answer", "r1", "gate", '{"ok": 2}')
    assert again.code == 2
    assert "open waits: none" in again.err


def test_a_run_that_may_be_live_is_not_written_to(waits: Any, store: Any, entry: Any) -> None:
    store.put("r1", entry.waiting(), meta={"status": "running"})
    done = waits("answer", "r1", "gate", "1")
    assert done.code == 2
    assert "marked as running" in done.err
    assert waits("answer", "r1", "gate", "1", "--force").code == 0


def test_a_run_that_waits_for_nothing_says_so(waits: Any, store: Any, entry: Any) -> None:
    store.put("r2", entry.settled())
    assert waits("answer", "r2").out == "run r2 waits for nothing\n"
    assert waits("answer", "r2", "gate", "1").code == 2


def test_an_approval_is_shown_with_what_its_tool_would_be_called_with(
    look: Any, store: Any, entry: Any
) -> None:
    called = {"order": "A7\x1b[31m"}
    asked = {
        **entry.opened("approval", "a"),
        "status": "suspended",
        "value": {"toolName": "rm", "input": called},
    }
    store.put("r1", asked, entry.settled("suspended"), meta={"status": "suspended"})
    for words in (("answer", "r1"), ("inspect", "r1")):
        assert '    input  {"order": "A7\\u001b[31m"}\n' in look(*words).out
        assert look(*words, "--json").json["pending"][0]["input"] == called


@pytest.mark.parametrize(
    ("name", "shown"),
    [(".rulvar", " --store .rulvar"), ("a b.db", " --store 'a b.db'"), (None, "")],
)
def test_what_is_proposed_looks_for_the_run_where_it_is(rulvar: Any, name: str | None, shown: str) -> None:
    at = () if name is None else ("--store", name)
    begun = rulvar("run", "flows.py:release", "--arg", "version=1", "--run-id", "r1", *at)
    told = f"  answer   rulvar answer r1 gate VALUE{shown}, then rulvar resume r1"
    assert begun.out.endswith(f"{told} flows.py:release{shown}\n")
    assert rulvar("answer", "r1", *at).out.endswith(f"{told}{shown}\n")
    answered = rulvar("answer", "r1", "gate", '{"approved": true}', *at)
    assert answered.out.endswith(f"  next     rulvar resume r1{shown}\n")


def test_a_password_of_a_store_is_not_repeated() -> None:
    options = argparse.Namespace(store="postgresql://me:secret@host/db", config="conf.py:engine")
    assert options_again(options) == " --store ... --config conf.py:engine"
    assert options_again(argparse.Namespace(store="sqlite:///a.db")) == " --store sqlite:///a.db"
