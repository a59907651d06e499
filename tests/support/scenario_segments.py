"""Runs the segments of one scenario: answers, cancels and resumes as its recording did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scenario_language import (
    ScenarioWorkflow,
    ScriptedAgents,
    answer_approvals,
    check_scenario,
    run_options,
    scenario_engine,
    scenario_tools,
)

from rulvar.contracts.outcome import Outcome, Preview
from rulvar.errors import ResolutionError
from rulvar.stores import InMemoryStore


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """How one segment went: its end, what it asked of the model, what it told."""

    outcome: Outcome[Any]
    calls: list[dict[str, str]]
    preview: Preview | None
    events: list[dict[str, Any]]
    resolved: list[dict[str, Any]]


async def run_segments(
    scenario: Mapping[str, Any], routing: Mapping[str, Any], store: InMemoryStore
) -> list[SegmentRun]:
    """Run every segment of a scenario against one store."""
    check_scenario(scenario)
    workflow = ScenarioWorkflow(scenario, scenario_tools(scenario)).build(scenario["wf"])
    agents = ScriptedAgents(scenario)
    return [
        await _run(scenario, segment, routing, store, workflow, agents) for segment in scenario["segments"]
    ]


async def _run(
    scenario: Mapping[str, Any],
    segment: Mapping[str, Any],
    routing: Mapping[str, Any],
    store: InMemoryStore,
    workflow: Any,
    agents: ScriptedAgents,
) -> SegmentRun:
    name, args = scenario["name"], scenario.get("args")
    engine, fake = scenario_engine(scenario, store, agents, routing)
    async with engine:
        if segment["kind"] == "run":
            handle: Any = engine.run(workflow, args, run_id=name, **run_options(scenario))
        else:
            handle = engine.resume(name, workflow, args=args)
        answer_approvals(handle, segment.get("approvals", []))
        if "cancel_after_ms" in scenario:
            await asyncio.sleep(scenario["cancel_after_ms"] / 1000)
            await handle.cancel()
        for key, value in segment.get("externals", {}).items():
            await asyncio.sleep(0.04)
            await handle.resolve_external(key, value)
        outcome = await asyncio.wait_for(handle.result(), 10)
        resolved = [
            await _resolve(engine, handle, store, key, value)
            for key, value in segment.get("resolve_after", {}).items()
        ]
        preview = None if segment["kind"] == "run" else await handle.preview()
    events = [event.to_wire() for event in handle.events_seen()]
    return SegmentRun(outcome, [_call(call) for call in fake.calls], preview, events, resolved)


async def _resolve(engine: Any, handle: Any, store: InMemoryStore, key: str, value: Any) -> dict[str, Any]:
    try:
        await handle.resolve_external(key, value)
    except ResolutionError:
        return {"applied": False}
    return {"applied": True, "seq": (await store.load(handle.run_id))[-1].seq}


def _call(call: Any) -> dict[str, str]:
    told = {"prompt": call.prompt}
    for name, value in (("agentType", call.agent_type), ("label", call.label)):
        if value:
            told[name] = value
    return told
