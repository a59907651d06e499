"""Answers and abandons of a journal: which of them close what they point at."""

from __future__ import annotations

from typing import Any

from rulvar.contracts.canonical import encode_json
from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.kernel.matching import JournalIndex


class Journal:
    """Entries that are numbered as they come."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []

    def add(self, kind: str, status: str, **fields: Any) -> int:
        seq = len(self.entries)
        wire = {"hashVersion": 2, "seq": seq, "scope": "", "key": f"k{seq}", "ordinal": 0, "kind": kind}
        wire |= {"status": status, "spanId": "s0", **fields}
        self.entries.append(decode_entry(encode_json(wire)))
        return seq

    def wait(self, scope: str = "", **value: Any) -> int:
        return self.add("external", "suspended", scope=scope, value={"key": "gate", **value})

    def answer(self, ref: int, value: Any) -> int:
        return self.add("resolution", "ok", key="", ref=ref, resolution={"target": ref, "value": value})

    def abandon(self, ref: int) -> int:
        return self.add("abandon", "ok", key="", ref=ref, abandon={"target": ref})

    def index(self) -> JournalIndex:
        return JournalIndex(self.entries)


def answered_by(index: JournalIndex, wait: int) -> int | None:
    resolution = index.operations[wait].resolution
    return None if resolution is None else resolution.seq


def test_the_first_answer_that_fits_the_recorded_schema_counts() -> None:
    journal = Journal()
    wait = journal.wait(schema={"type": "object", "required": ["ok"]})
    wrong = journal.answer(wait, {"no": 1})
    right = journal.answer(wait, {"ok": 1})
    journal.answer(wait, {"ok": 2})
    index = journal.index()
    assert answered_by(index, wait) == right
    assert index.closings.refused == (wrong,)


def test_an_answer_that_fits_not_leaves_the_wait_open_and_not_orphaned() -> None:
    journal = Journal()
    wait = journal.wait(schema={"type": "boolean"})
    journal.answer(wait, "yes")
    index = journal.index()
    assert index.operations[wait].is_open
    assert index.orphans() == ([], [])


def test_a_schema_that_nobody_can_use_refuses_nothing() -> None:
    journal = Journal()
    waits = [journal.wait(schema=schema) for schema in ({"$ref": "#"}, {"type": 5}, "text", None, [])]
    answers = [journal.answer(wait, 1) for wait in waits]
    index = journal.index()
    assert [answered_by(index, wait) for wait in waits] == answers


def test_false_is_a_schema_that_nothing_fits() -> None:
    journal = Journal()
    wait = journal.wait(schema=False)
    journal.answer(wait, None)
    assert answered_by(journal.index(), wait) is None


def test_an_answer_to_what_is_no_wait_is_refused() -> None:
    journal = Journal()
    step = journal.add("step", "running")
    decision = journal.add("decision", "ok", value={})
    wrong = (journal.answer(step, 1), journal.answer(decision, 1))
    assert journal.index().closings.refused == wrong


def test_an_answer_without_its_facts_is_refused() -> None:
    journal = Journal()
    wait = journal.wait()
    empty = journal.add("resolution", "ok", key="", ref=wait)
    right = journal.answer(wait, 1)
    index = journal.index()
    assert (index.closings.refused, answered_by(index, wait)) == ((empty,), right)


def test_a_reference_counts_and_not_what_an_entry_says_of_its_target() -> None:
    journal = Journal()
    first, second = journal.wait(), journal.wait()
    answer = journal.add("resolution", "ok", key="", ref=second, resolution={"target": first, "value": 1})
    journal.add("abandon", "ok", key="", ref=first, abandon={"target": second})
    index = journal.index()
    assert (answered_by(index, first), answered_by(index, second)) == (None, answer)
    assert index.closings.covered == {first}


def test_a_wait_that_was_answered_is_not_abandoned_afterwards() -> None:
    journal = Journal()
    wait = journal.wait()
    answer = journal.answer(wait, 1)
    journal.abandon(wait)
    index = journal.index()
    assert answered_by(index, wait) == answer
    assert not index.is_abandoned(wait)


def test_a_wait_that_was_abandoned_is_not_answered_afterwards() -> None:
    journal = Journal()
    agent = journal.add("agent", "running")
    inside = journal.wait(scope=f"agent:{agent}/par:0:1")
    alone = journal.wait()
    for target in (agent, alone):
        journal.abandon(target)
    for wait in (inside, alone):
        journal.answer(wait, 1)
    index = journal.index()
    assert [answered_by(index, wait) for wait in (inside, alone)] == [None, None]
    assert index.closings.covered == {agent, inside, alone}
    assert index.closings.refused == ()


def test_an_abandon_covers_what_is_written_below_it_later_and_nothing_beside_it() -> None:
    journal = Journal()
    child = journal.add("child", "running", value={"workflow": "a/b", "childScope": "wf:a/b:1"})
    journal.abandon(child)
    below = journal.add("step", "running", scope="wf:a/b:1/par:0:0")
    beside = journal.add("step", "running", scope="wf:a/b:10")
    journal.abandon(below)  # covered already
    assert journal.index().closings.covered == {child, below}
    assert not journal.index().is_abandoned(beside)


def test_what_is_left_open_below_an_abandoned_call_is_no_orphan() -> None:
    journal = Journal()
    agent = journal.add("agent", "running")
    inside = [journal.add("step", "running", scope=f"agent:{agent}"), journal.wait(scope=f"agent:{agent}")]
    answered = journal.wait(scope=f"agent:{agent}")
    journal.answer(answered, 1)
    other = journal.add("step", "running")
    journal.abandon(agent)
    index = journal.index()
    orphans, abandoned = index.orphans()
    assert [item.first.seq for item in orphans] == [other]
    assert [item.first.seq for item in abandoned] == [agent, *inside]


def test_of_two_ends_of_a_call_the_last_one_counts() -> None:
    journal = Journal()
    step = journal.add("step", "running")
    journal.add("step", "error", ref=step)
    journal.add("step", "ok", ref=step, value=2)
    assert journal.index().operations[step].status == "ok"


def test_a_call_of_version_1_is_found_in_any_scope() -> None:
    journal = Journal()
    agent = journal.add("agent", "running", scope="par:0:0", key="old", hashVersion=1)
    journal.add("agent", "ok", ref=agent, scope="par:0:0", key="old", hashVersion=1)
    found = journal.index().take_anywhere("new", "old")
    assert found is not None
    assert found.first.seq == agent


def test_what_was_taken_from_another_scope_hides_no_later_call_of_either_version() -> None:
    journal = Journal()
    old = journal.add("agent", "running", key="old", hashVersion=1)
    journal.add("agent", "ok", ref=old, key="old", hashVersion=1)
    new = journal.add("agent", "running", key="new")
    journal.add("agent", "ok", ref=new, key="new")
    index = journal.index()
    assert [index.take_anywhere("new", "old"), index.take("", "new", "old")] == [
        index.operations[new],
        index.operations[old],
    ]
    index = journal.index()
    first, second = index.take("", "new", "old"), index.take("", "new", "old")
    assert [first, second] == [index.operations[old], index.operations[new]]
    assert index.take("", "new", "old") is None
