"""A run tells what the original tells, in the same order within each span."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_facts import chance_in_identities, has_text, holds_own_texts, loses_defaults, scenario_named
from scenario_language import check_words
from scenario_segments import run_segments

from rulvar.stores import InMemoryStore

VOLATILE = {
    "runId",
    "seq",
    "ts",
    "spanId",
    "parentSpanId",
    "durationMs",
    "entryRef",
    "targetRef",
    "toolCallId",
}
VOLATILE |= {"logicalTaskId"}


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


def by_span(scenario: Mapping[str, Any], events: list[Mapping[str, Any]]) -> list[Any]:
    """Events of each span in order; spans are told apart by what happens in them."""
    dropped = VOLATILE | ({"usage"} if holds_own_texts(scenario) or chance_in_identities(scenario) else set())
    if chance_in_identities(scenario):
        dropped |= {"key", "msg", "data"}
    spans: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        if event["type"] in ("budget:update",):
            continue  # how often it is told depends on how branches interleave
        spans[event["spanId"]].append(normal(scenario, event, dropped))
    return sorted(spans.values(), key=lambda span: json.dumps(span, sort_keys=True))


def normal(scenario: Mapping[str, Any], value: Any, dropped: set[str]) -> Any:
    """What an event says: of messages those that the scenario itself wrote."""
    if isinstance(value, Mapping):
        return {
            key: normal(scenario, item, dropped)
            for key, item in value.items()
            if key not in dropped and (key != "message" or has_text(scenario, item))
        }
    return [normal(scenario, item, dropped) for item in value] if isinstance(value, list) else value
