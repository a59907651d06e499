"""A run tells what the original tells, in the same order within each span."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_language import (
    ScenarioWorkflow,
    ScriptedAgents,
    answer_approvals,
    run_options,
    scenario_engine,
    scenario_tools,
)

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
VOLATILE |= {"logicalTaskId", "message"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        other = metafunc.config.getoption("--interop-dir")
        path = (Path(other) if other else Path(__file__).parent / "vectors") / "events.json"
        runs = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else []
        metafunc.parametrize("recorded", runs, ids=[run["name"] for run in runs])


async def test_every_segment_emits_the_recorded_events(
    recorded: Mapping[str, Any], load_vectors: Any
) -> None:
    scenarios = load_vectors("journals/scenarios.json")
    scenario = next(item for item in scenarios["scenarios"] if item["name"] == recorded["name"])
    store, tools = InMemoryStore(), scenario_tools(scenario)
    workflow = ScenarioWorkflow(scenario, tools).build(scenario["wf"])
    agents = ScriptedAgents(scenario)
    for number, (segment, expected) in enumerate(
        zip(scenario["segments"], recorded["segments"], strict=True)
    ):
        engine, _ = scenario_engine(scenario, store, agents, scenarios["routing"])
        async with engine:
            args = scenario.get("args")
            if segment["kind"] == "run":
                handle: Any = engine.run(workflow, args, run_id=scenario["name"], **run_options(scenario))
            else:
                handle = engine.resume(scenario["name"], workflow, args=args)
            answer_approvals(handle, segment.get("approvals", []))
            await handle.result()
            for key, value in segment.get("resolve_after", {}).items():
                await handle.resolve_external(key, value)
        seen = [event.to_wire() for event in handle.events_seen()]
        assert [event["seq"] for event in seen] == list(range(number << 32, (number << 32) + len(seen)))
        own_texts = recorded["name"] == "schema-retry"
        assert by_span(seen, own_texts) == by_span(expected, own_texts)


def by_span(events: list[Mapping[str, Any]], own_texts: bool) -> list[Any]:
    """Events of each span in order; spans are told apart by what happens in them."""
    spans: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        if event["type"] in ("budget:update",):
            continue  # how often it is told depends on how branches interleave
        spans[event["spanId"]].append(normal(event, own_texts))
    return sorted(spans.values(), key=lambda span: json.dumps(span, sort_keys=True))


def normal(value: Any, own_texts: bool) -> Any:
    if isinstance(value, Mapping):
        dropped = VOLATILE | ({"usage"} if own_texts else set())
        return {key: normal(item, own_texts) for key, item in value.items() if key not in dropped}
    return value
