"""Two journals are compared scope by scope: the first call in which they part."""

from __future__ import annotations

from typing import Any

import pytest


def steps(entry: Any, *calls: tuple[str, Any], scope: str = "", first: int = 0) -> list[dict[str, Any]]:
    """Entries of steps by key and value."""
    entries: list[dict[str, Any]] = []
    for key, value in calls:
        seq = first + len(entries)
        entries += [entry.opened("step", key, scope), entry.closed(seq, value, key=key, scope=scope)]
    return entries


def divergences(done: Any) -> list[tuple[str, int, str]]:
    return [(item["scope"], item["position"], item["reason"]) for item in done.json["divergences"]]


def test_times_and_entry_numbers_do_not_count(look: Any, store: Any, entry: Any) -> None:
    store.put("a", *steps(entry, ("x", 1), ("y", 2)), entry.settled())
    later = [
        {**item, "startedAt": "2027-01-01T00:00:00.000Z", "spanId": "s9"}
        for item in steps(entry, ("x", 1), ("y", 2))
    ]
    store.put("b", *later)
    done = look("diff", "a", "b")
    assert done.code == 0
    assert done.out.startswith("same")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param([("x", 1), ("y", 3)], [("", 2, "outcome")], id="another value"),
        pytest.param([("x", 1), ("z", 2)], [("", 2, "changed")], id="another call"),
        pytest.param([("x", 1), ("n", 0), ("y", 2)], [("", 2, "inserted")], id="inserted"),
        pytest.param([("y", 2)], [("", 1, "removed")], id="removed"),
        pytest.param([("y", 2), ("x", 1)], [("", 1, "changed")], id="reordered"),
        pytest.param([("x", 1)], [("", 2, "removed")], id="shorter"),
        pytest.param([("x", 1), ("y", 2), ("z", 3)], [("", 3, "inserted")], id="longer"),
        pytest.param([("x", True), ("y", 2)], [("", 1, "outcome")], id="true is not one"),
    ],
)
def test_the_first_divergence_is_named(look: Any, store: Any, entry: Any, other: Any, found: Any) -> None:
    store.put("a", *steps(entry, ("x", 1), ("y", 2)))
    store.put("b", *steps(entry, *other))
    done = look("diff", "a", "b", "--json")
    assert (done.code, divergences(done)) == (1, found)


def test_every_scope_is_compared_by_itself(look: Any, store: Any, entry: Any) -> None:
    store.put(
        "a", *steps(entry, ("x", 1), scope="par:0:0"), *steps(entry, ("y", 1), scope="par:0:1", first=2)
    )
    store.put(
        "b", *steps(entry, ("y", 2), scope="par:0:1"), *steps(entry, ("x", 1), scope="par:0:0", first=2)
    )
    assert divergences(look("diff", "a", "b", "--json")) == [("par:0:1", 1, "outcome")]


def test_what_differs_in_a_value_is_shown_by_path(look: Any, store: Any, entry: Any) -> None:
    long = "x" * 500
    store.put("a", *steps(entry, ("k", {"list": [1, {"text": f"{long} old"}], "same": 1, "gone": 1})))
    store.put("b", *steps(entry, ("k", {"list": [1, {"text": f"{long} new"}], "same": 1, "come": [2]})))
    done = look("diff", "a", "b", "--json")
    [item] = done.json["divergences"]
    found = {difference["path"]: (difference["a"], difference["b"]) for difference in item["differences"]}
    assert set(found) == {"value.list[1].text", "value.gone", "value.come"}
    assert found["value.gone"] == ("1", "nothing")
    old, new = found["value.list[1].text"]
    assert old.endswith(' old"')
    assert new.endswith(' new"')
    assert len(old) < 120
    assert "value.list[1].text" in look("diff", "a", "b").out


def test_an_answer_and_an_error_are_compared(look: Any, store: Any, entry: Any) -> None:
    def answer(value: Any) -> dict[str, Any]:
        return {
            **entry.opened("resolution", ""),
            "ref": 0,
            "status": "ok",
            "resolution": {"target": 0, "value": value},
        }

    store.put("a", entry.waiting(), answer(1))
    store.put("b", entry.waiting(), answer(2))
    store.put("c", entry.waiting())
    assert look("diff", "a", "b", "--json").json["divergences"][0]["differences"][0]["path"] == "value"
    assert look("diff", "a", "c", "--json").json["divergences"][0]["differences"][0]["path"] == "status"


def test_journals_and_exported_runs_are_compared_as_files(look: Any, store: Any, entry: Any) -> None:
    store.put("a", *steps(entry, ("x", 1)))
    assert look("export", "a", "-o", "a.run.json").code == 0
    assert look("diff", "a", "./a.run.json").code == 0
    assert look("diff", store.journal("a"), "a").code == 0


@pytest.mark.parametrize("name", ["./nope.json", "./nope.jsonl", "nope"])
def test_a_side_that_is_not_there_is_named(look: Any, store: Any, entry: Any, name: str) -> None:
    store.put("a", *steps(entry, ("x", 1)))
    done = look("diff", "a", name)
    assert done.code == 2
    assert "nope" in done.err


def test_scopes_inside_agents_are_matched_by_place_and_not_by_entry_number(
    look: Any, store: Any, entry: Any
) -> None:
    wait = entry.waiting()
    store.put("a", entry.opened("agent", "k"), {**wait, "scope": "agent:0"})
    store.put("b", {"kind": "future"}, entry.opened("agent", "k"), {**wait, "scope": "agent:1"})
    assert look("diff", "a", "b").code == 0


@pytest.mark.parametrize("answer", [3.5, "yes", True, [1], None])
def test_an_answer_of_an_odd_shape_is_compared_and_shown_all_the_same(
    look: Any, store: Any, entry: Any, answer: Any
) -> None:
    resolved = {**entry.closed(0), "kind": "resolution", "resolution": answer}
    store.put("r1", entry.waiting(), resolved)
    store.put("r2", entry.waiting(), {**resolved, "resolution": {"value": 1}})
    assert look("diff", "r1", "r2").code == 1
    assert look("inspect", "r1").code == 0
