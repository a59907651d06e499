"""A run tells what the original tells, in the same order within each span."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_facts import (
    chance_in_identities,
    has_text,
    holds_own_texts,
    loses_defaults,
    scenario_named,
    uses,
)
from scenario_language import check_words
from scenario_segments import run_segments

from rulvar.stores import InMemoryStore

VOLATILE = {"runId", "seq", "ts", "durationMs", "toolCallId", "logicalTaskId"}
"""Fields whose values each run makes; that they are there is compared."""
SPANS = {"spanId", "parentSpanId"}
REFS = {"entryRef", "targetRef"}
"""Seqs of entries: which come first where branches run at once is each library's own."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        other = metafunc.config.getoption("--interop-dir")
        path = (Path(other) if other else Path(__file__).parent / "vectors") / "events.json"
        runs = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else []
        metafunc.parametrize("recorded", runs, ids=[run["name"] for run in runs])


async def test_every_segment_emits_the_recorded_events(
    recorded: Mapping[str, Any], load_vectors: Any
) -> None:
    check_words("a recorded run", recorded, {"name", "segments"})
    scenarios = load_vectors("journals/scenarios.json")
    scenario = scenario_named(scenarios, recorded["name"])
    if loses_defaults(scenario):
        pytest.skip("here workflow-level defaults also hold inside branches and stages")
    ran = await run_segments(scenario, scenarios["routing"], InMemoryStore())
    for number, (ours, expected) in enumerate(zip(ran, recorded["segments"], strict=True)):
        seen = ours.events
        assert [event["seq"] for event in seen] == list(range(number << 32, (number << 32) + len(seen)))
        assert by_span(scenario, seen) == by_span(scenario, expected)
        if not uses(scenario, "parallel", "pipeline"):
            assert in_order(scenario, seen) == in_order(scenario, expected)
            assert spent(seen) == spent(expected)


def by_span(scenario: Mapping[str, Any], events: list[Mapping[str, Any]]) -> list[Any]:
    """Events of each span in order; spans are told apart by what happens in them."""
    spans: dict[str, list[Any]] = defaultdict(list)
    for event in told(events):
        spans[event["spanId"]].append(normal(scenario, event, REFS | dropped(scenario)))
    parents = {event["spanId"]: event.get("parentSpanId") for event in told(events)}
    ordered = (
        [spans[parent][0]["type"] if parent in spans else None, *span]
        for span, parent in ((span, parents[name]) for name, span in spans.items())
    )
    return sorted(ordered, key=lambda span: json.dumps(span, sort_keys=True))


def in_order(scenario: Mapping[str, Any], events: list[Mapping[str, Any]]) -> list[Any]:
    """All events, spans by the order in which they begin."""
    names: dict[str, int] = {}
    return [
        {
            **normal(scenario, event, dropped(scenario)),
            **{key: names.setdefault(event[key], len(names)) for key in sorted(SPANS) if key in event},
        }
        for event in told(events)
    ]


def told(events: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events that are compared one by one: how often a budget is told depends on branches."""
    return [event for event in events if event["type"] != "budget:update"]


def spent(events: list[Mapping[str, Any]]) -> list[Any]:
    """What a run tells of its spend, each amount once."""
    updates = [event for event in events if event["type"] == "budget:update"]
    amounts = [(event["spentUsd"], event["remainingUsd"]) for event in updates]
    assert all(event["committedReserveUsd"] >= 0 for event in updates)
    return [amount for index, amount in enumerate(amounts) if index == 0 or amount != amounts[index - 1]]


def dropped(scenario: Mapping[str, Any]) -> set[str]:
    """The fields that are not compared: of texts that are each library's own, or that chance made."""
    if chance_in_identities(scenario):
        return {"usage", "key", "msg", "data"}
    return {"usage"} if holds_own_texts(scenario) else set()


def normal(scenario: Mapping[str, Any], value: Any, dropped: set[str]) -> Any:
    """What an event says: of messages those that the scenario itself wrote."""
    if isinstance(value, Mapping):
        return {
            key: "made by the run" if key in VOLATILE | SPANS else normal(scenario, item, dropped)
            for key, item in value.items()
            if key not in dropped and (key != "message" or has_text(scenario, item))
        }
    return [normal(scenario, item, dropped) for item in value] if isinstance(value, list) else value
