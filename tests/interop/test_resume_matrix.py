"""A crash after every entry: the resume makes the recorded calls, and appends the recorded entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_facts import (
    CHANCE,
    chance_in_identities,
    has_text,
    holds_own_texts,
    loses_defaults,
    scenario_named,
    uses,
)
from scenario_language import (
    ScenarioWorkflow,
    ScriptedAgents,
    check_scenario,
    check_words,
    scenario_engine,
    scenario_tools,
)

from rulvar.contracts.entries import decode_entry
from rulvar.stores import InMemoryStore

POINT_FIELDS = {
    "prefix",
    "status",
    "value",
    "error",
    "pending",
    "dropped",
    "preview",
    "live_calls",
    "appended",
}
POINT_FIELDS |= {"meta_after", "counters_before"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" in metafunc.fixturenames:
        other = metafunc.config.getoption("--interop-dir")
        directory = Path(other) if other else Path(__file__).parent / "vectors"
        path = directory / "journals" / "resume_matrix.json"
        rows = json.loads(path.read_text("utf-8"))["matrix"] if path.exists() else []
        metafunc.parametrize("row", rows, ids=[row["scenario"] for row in rows])


async def test_every_crash_point_resumes_as_recorded(
    row: Mapping[str, Any], load_vectors: Any, vectors: Path
) -> None:
    check_words("a row of the matrix", row, {"scenario", "entries", "points"})
    recorded = load_vectors("journals/scenarios.json")
    scenario = scenario_named(recorded, row["scenario"])
    check_scenario(scenario)
    if holds_own_texts(scenario) or chance_in_identities(scenario) or uses(scenario, "brief"):
        pytest.skip("holds texts that each library words itself, or that chance made")
    if loses_defaults(scenario):
        pytest.skip("here workflow-level defaults also hold inside branches and stages")
    lines = (vectors / "journals" / f"{row['scenario']}.jsonl").read_bytes().splitlines()
    assert len(lines) == row["entries"]
    for point in row["points"]:
        await check_point(scenario, recorded["routing"], lines[: point["prefix"]], point)


async def check_point(
    scenario: Mapping[str, Any], routing: Any, lines: list[bytes], point: Mapping[str, Any]
) -> None:
    where = f"after {point['prefix']} entries"
    check_words("a point of the matrix", point, POINT_FIELDS)
    store = InMemoryStore()
    name = scenario["name"]
    store.append_now(name, [decode_entry(line) for line in lines])
    meta: dict[str, Any] = {
        "runId": name,
        "status": "running",
        "segments": 1,
        "workflowName": scenario["wf"]["name"],
    }
    if "budgetUsd" in scenario.get("run_opts", {}):
        meta["budgetUsd"] = scenario["run_opts"]["budgetUsd"]
    await store.save_meta(name, meta)
    tools = scenario_tools(scenario)
    workflow = ScenarioWorkflow(scenario, tools).build(scenario["wf"])
    counts = consumed_replies(scenario, point)
    engine, fake = scenario_engine(scenario, store, ScriptedAgents(scenario, counts), routing)
    async with engine:
        handle = engine.resume(name, workflow, args=scenario.get("args"))
        outcome = await handle.result()
        preview = await handle.preview()
    assert outcome.status == point["status"], where
    said = shape if uses(scenario, *CHANCE) else own_messages(scenario)
    assert said(outcome.value) == said(point.get("value")), where
    check_error(scenario, outcome.error, point.get("error"), where)
    for item in point["pending"]:
        check_words("a pending wait", item, {"key", "scope", "entryRef"})
    pending = [(item.key, item.scope) for item in outcome.pending]
    assert pending == [(item["key"], item["scope"]) for item in point["pending"]], where
    assert len(outcome.dropped) == point["dropped"], where
    calls = Counter((call.prompt, call.agent_type, call.label) for call in fake.calls)
    assert calls == Counter(
        (call["prompt"], call.get("agentType"), call.get("label")) for call in point["live_calls"]
    ), where
    expected = point["preview"]
    seen = {key: getattr(preview, key) for key in ("hits", "misses", "reruns", "skipped")}
    assert seen == {key: expected[key] for key in seen}, where
    assert list(preview.orphaned) == expected["orphaned"], where
    assert list(preview.invalid_resolutions) == expected["invalidResolutions"], where
    entries = await store.load(name)
    appended = [entry.to_wire() for entry in entries[len(lines) :]]
    assert Counter(map(summary, appended)) == Counter(map(recorded_summary, point["appended"])), where
    if not uses(scenario, "parallel", "pipeline"):
        assert [numbered(entry) for entry in appended] == point["appended"], where
        assert [item.entry_ref for item in outcome.pending] == [
            item["entryRef"] for item in point["pending"]
        ], where
    after = await store.load_meta(name)
    assert after is not None
    assert {key: after[key] for key in point["meta_after"]} == point["meta_after"], where


def check_error(
    scenario: Mapping[str, Any], error: Any, expected: Mapping[str, Any] | None, where: str
) -> None:
    """An error has the recorded code, and the recorded message where the scenario wrote it."""
    if expected is None:
        assert error is None, where
        return
    check_words("an error of the matrix", expected, {"code", "message", "retryable", "data"})
    found = error.to_wire()
    assert found["code"] == expected["code"], where
    if has_text(scenario, expected.get("message")) or has_text(scenario, found["message"]):
        assert found["message"] == expected["message"], where
    if "retryable" in expected:
        assert found["retryable"] == expected["retryable"], where
    facts = expected.get("data") or {}
    assert {name: (found.get("data") or {}).get(name) for name in facts} == facts, where


def consumed_replies(scenario: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, int]:
    """Positional replies of the fallback pattern that were used up before the crash."""
    counts = point.get("counters_before")
    if isinstance(counts, dict):
        return counts
    if isinstance(counts, int) and "*" in scenario["agents"]:
        return {"*": counts}
    lists = [pattern for pattern, replies in scenario["agents"].items() if len(replies) > 1]
    return dict.fromkeys(lists, counts) if isinstance(counts, int) else {}


def own_messages(scenario: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Read a value without the messages that a library worded."""

    def said(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: value[key] for key in value if key != "message" or has_text(scenario, value[key])}
            return {key: said(item) for key, item in kept.items()}
        return [said(item) for item in value] if isinstance(value, list) else value

    return said


def shape(value: Any) -> Any:
    """What kind of value stands where: chance made the values themselves."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "number" if type(value) in (int, float) else type(value).__name__


def summary(wire: Mapping[str, Any]) -> tuple[str, ...]:
    value = wire.get("value")
    decision = value.get("decisionType", "") if isinstance(value, dict) else ""
    return (
        wire["kind"],
        wire["status"],
        wire["scope"],
        str(wire["ordinal"]),
        decision if wire["kind"] == "decision" else "",
    )


def numbered(wire: Mapping[str, Any]) -> str:
    """An appended entry as the vectors write it."""
    kind, status, scope, ordinal, decision = summary(wire)
    text = f"{wire['seq']} {kind} {status} scope='{scope}' ord={ordinal}"
    text += f" ref={wire['ref']}" if "ref" in wire else ""
    return f"{text} {decision}" if decision else text


def recorded_summary(text: str) -> tuple[str, ...]:
    """Read ``"5 agent ok scope='' ord=0 ref=3"``."""
    _, kind, status, rest = text.split(" ", 3)
    scope = rest.split("scope='", 1)[1].split("'", 1)[0]
    words = rest.split("' ", 1)[1].split()
    ordinal = words[0].removeprefix("ord=")
    extra = [word for word in words[1:] if not word.startswith("ref=")]
    return (kind, status, scope, ordinal, extra[0] if extra else "")
