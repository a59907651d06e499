"""The engine does what the original did: outcome, values, entries per scope, strict replay."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from scenario_facts import chance_in_identities, has_text, holds_own_texts, loses_defaults, uses
from scenario_language import (
    ScenarioWorkflow,
    ScriptedAgents,
    budget_defaults,
    check_words,
    profiles_of,
    scenario_engine,
    scenario_tools,
)
from scenario_segments import SegmentRun, run_segments

from rulvar.contracts.entries import JournalEntry, decode_entry
from rulvar.contracts.outcome import CostReport
from rulvar.contracts.ports.observer import SegmentRecord
from rulvar.engine.ambient import install_observer, uninstall_observer
from rulvar.errors import JournalMissError
from rulvar.kernel.keys import hash_output
from rulvar.stores import InMemoryStore, JsonlFileStore
from rulvar.stores.bundle import Bundle
from rulvar.testing.journal_replay import replay_run
from rulvar.testing.minimize.minimization import minimize_with
from rulvar.testing.shake.examination import Examination, Examiner
from rulvar.testing.shake.segments import recorded_segment

OUTCOME_FIELDS = {"status", "value", "error", "pending", "dropped", "usage", "cost", "envelope", "preview"}
OUTCOME_FIELDS |= {"resolved_after"}
STRICT_FIELDS = {"status", "value", "error", "pending", "dropped", "usage", "cost_totalUsd", "preview"}
STRICT_FIELDS |= {"live_calls", "journal_unchanged"}
NOT_HERE = ("basis", "orchestrator")
"""Parts of a cost report that say how the original came by it, and what its orchestrator spent."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        other = metafunc.config.getoption("--interop-dir")
        directory = Path(other) if other else Path(__file__).parent / "vectors"
        path = directory / "journals" / "scenarios.json"
        scenarios = json.loads(path.read_text("utf-8"))["scenarios"] if path.exists() else []
        metafunc.parametrize("scenario", scenarios, ids=[item["name"] for item in scenarios])


@pytest.fixture
def routing(load_vectors: Any) -> Any:
    return load_vectors("journals/scenarios.json")["routing"]


def error_json(scenario: Mapping[str, Any], error: Any, expected: Mapping[str, Any]) -> Any:
    """An error with what the vector has of it: texts that no scenario wrote are ours to word."""
    if error is None:
        return None
    wire = dict(error.to_wire() if hasattr(error, "to_wire") else error)
    if "data" in expected:
        wire["data"] = {name: (wire.get("data") or {}).get(name) for name in expected["data"]}
    else:
        wire.pop("data", None)
    return without_volatile(scenario, wire)


def without_volatile(scenario: Mapping[str, Any], value: Any) -> Any:
    """Messages that no scenario wrote are ours to word, and seqs depend on how branches interleave."""
    return without(
        value, lambda key, item: key == "entryRef" or (key == "message" and not has_text(scenario, item))
    )


def without(value: Any, leaves_out: Callable[[str, Any], bool]) -> Any:
    """A JSON value without some of its fields."""
    if isinstance(value, dict):
        return {key: without(item, leaves_out) for key, item in value.items() if not leaves_out(key, item)}
    return [without(item, leaves_out) for item in value] if isinstance(value, list) else value


def assert_same_value(scenario: Mapping[str, Any], ours: Any, theirs: Any) -> None:
    """A value is the recorded one; texts that were left out of the workflow may have stayed in what it returned."""
    texts = ("message", "entryRef")
    assert without(ours, lambda key, _: key in texts) == without(theirs, lambda key, _: key in texts)
    told, recorded = dict(messages_in(ours)), dict(messages_in(theirs))
    for path in told.keys() & recorded.keys():
        if has_text(scenario, recorded[path]):
            assert told[path] == recorded[path]


def messages_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the messages in a JSON value with their places."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key == "message":
            yield (*path, key), item
        yield from messages_in(item, (*path, key))


def like_recorded(value: Any, drawn: Mapping[Any, Any]) -> Any:
    """A value with what our run drew by chance told as what the recorded run drew."""
    if isinstance(value, dict):
        return {key: like_recorded(item, drawn) for key, item in value.items()}
    if isinstance(value, list):
        return [like_recorded(item, drawn) for item in value]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value in drawn:
        return drawn[value]
    if isinstance(value, str):
        for ours, theirs in drawn.items():
            value = value.replace(str(ours), str(theirs))
    return value


def draws(ours: list[JournalEntry], theirs: list[JournalEntry]) -> dict[Any, Any]:
    """Return what our run drew, and what the recorded one drew in that place."""

    def drawn(entries: list[JournalEntry]) -> dict[Any, Any]:
        return {(e.scope, e.key, e.ordinal): e.value["value"] for e in entries if e.kind == "rand"}

    recorded = drawn(theirs)
    return {value: recorded[place] for place, value in drawn(ours).items() if place in recorded}


async def test_a_live_run_ends_as_recorded(scenario: Mapping[str, Any], routing: Any, vectors: Path) -> None:
    store = InMemoryStore()
    ran = await run_segments(scenario, routing, store)
    drawn = draws(await store.load(scenario["name"]), load_journal(vectors, scenario))
    for segment, ours in zip(scenario["segments"], ran, strict=True):
        expected = segment["outcome"]
        check_words("a recorded outcome", expected, OUTCOME_FIELDS)
        check_end(scenario, ours, expected, drawn)
        check_envelope(scenario, ours, expected)
        if not loses_defaults(scenario):  # here the workflow's model also serves its branches
            check_cost(ours.outcome.cost, expected["cost"])
        assert ours.events[-1]["envelope"]["costBasis"] == expected["cost"]["basis"]
        assert len(ours.calls) == segment["live_calls"]
    if "adapter_calls" in scenario and not chance_in_identities(scenario):
        calls = [call for ours in ran for call in ours.calls]
        told = scenario["adapter_calls"]
        if holds_own_texts(scenario):
            calls = [
                ours if theirs["prompt"] else {**ours, "prompt": ""}
                for ours, theirs in zip(calls, told, strict=True)
            ]
        assert sorted(calls, key=json.dumps) == sorted(told, key=json.dumps)


def check_end(
    scenario: Mapping[str, Any], ours: SegmentRun, expected: Mapping[str, Any], drawn: Mapping[Any, Any]
) -> None:
    outcome = ours.outcome
    assert outcome.status == expected["status"]
    assert_same_value(scenario, like_recorded(outcome.value, drawn), expected.get("value"))
    if "error" in expected:
        found = error_json(scenario, outcome.error, expected["error"])
        assert found == without_volatile(scenario, expected["error"])
    else:
        assert outcome.error is None
    assert sorted(map(pending_key, [item.to_wire() for item in outcome.pending])) == sorted(
        map(pending_key, expected["pending"])
    )
    dropped = [without_volatile(scenario, item.to_wire()) for item in outcome.dropped]
    assert dropped == without_volatile(scenario, expected["dropped"])
    if not holds_own_texts(scenario) and not chance_in_identities(scenario):  # texts have other lengths
        assert outcome.usage.to_wire() == expected["usage"]
    if "preview" in expected:
        assert preview_json(ours.preview) == expected["preview"]
    for answered, told in zip(ours.resolved, expected.get("resolved_after", ()), strict=True):
        assert answered["applied"] == told["result"].get("applied", False)


def pending_key(pending: Mapping[str, Any]) -> str:
    return json.dumps({key: item for key, item in pending.items() if key != "entryRef"}, sort_keys=True)


def check_envelope(scenario: Mapping[str, Any], ours: SegmentRun, expected: Mapping[str, Any]) -> None:
    told = expected.get("envelope")
    if told is None:
        return
    (ended,) = [event for event in ours.events if event["type"] == "run:end"]
    dropped = {"usage"} if holds_own_texts(scenario) or chance_in_identities(scenario) else set()
    dropped |= {"costByModel"} if loses_defaults(scenario) else set()
    found = {key: item for key, item in ended["envelope"].items() if key not in dropped}
    if "error" in told:
        found["error"] = error_json(scenario, found.get("error"), told["error"])
    told = {key: item for key, item in told.items() if key not in dropped}
    assert found == {**without_volatile(scenario, told)}


def check_cost(cost: CostReport, expected: Mapping[str, Any]) -> None:
    found = {
        "totalUsd": cost.total_usd,
        "grossUsd": cost.gross_usd,
        "wireRequests": cost.wire_requests,
        "abandoned": {"usd": cost.abandoned_usd, "unpriced": []},
        "byModel": dict(cost.by_model),
        "byPhase": dict(cost.by_phase),
        "byAgentType": dict(cost.by_agent_type),
        "byRole": dict(cost.by_role),
        "byScope": dict(cost.by_scope),
        "unpriced": list(cost.unpriced),
        **({"usageApprox": True} if cost.usage_approx else {}),
    }
    assert found == {key: item for key, item in expected.items() if key not in NOT_HERE}


def preview_json(preview: Any) -> dict[str, Any]:
    return {
        "hits": preview.hits,
        "misses": preview.misses,
        "skipped": preview.skipped,
        "reruns": preview.reruns,
        "orphaned": list(preview.orphaned),
        "invalidResolutions": list(preview.invalid_resolutions),
    }


def load_journal(vectors: Path, scenario: Mapping[str, Any]) -> list[JournalEntry]:
    path = vectors / "journals" / f"{scenario['name']}.jsonl"
    if not path.exists():
        assert path.name not in scenario.get("files", ()), f"{path.name} is not in this set of vectors"
        return []
    return [decode_entry(line) for line in path.read_bytes().splitlines() if line]


def per_scope(scenario: Mapping[str, Any], entries: list[JournalEntry]) -> dict[str, list[Any]]:
    """Entries by scope, with refs as positions, and without times, ids and chance."""
    keyless = chance_in_identities(scenario)
    wires = [entry.to_wire() for entry in entries]
    scopes: dict[str, list[Any]] = defaultdict(list)
    names: dict[str, str] = {}
    for wire in wires:  # the scope of an agent's own entries carries a seq
        if wire["kind"] == "agent" and "ref" not in wire:
            names[f"agent:{wire['seq']}"] = f"agent:{len(scopes[wire['scope']])}"
        scopes[wire["scope"]].append(wire)
    places = {w["seq"]: (w["scope"], n) for ws in scopes.values() for n, w in enumerate(ws)}
    return {
        "/".join(names.get(part, part) for part in scope.split("/")): [
            normal(scenario, wire, places, keyless) for wire in ws
        ]
        for scope, ws in scopes.items()
    }


def normal(
    scenario: Mapping[str, Any], wire: Mapping[str, Any], places: Mapping[int, Any], keyless: bool
) -> dict[str, Any]:
    """One entry without what each run makes anew; ``keyless`` where chance is part of identities and lengths."""
    seen = {k: v for k, v in wire.items() if k not in ("seq", "scope", "spanId", "startedAt", "endedAt")}
    if "ref" in seen:
        seen["ref"] = places[seen["ref"]][1]
    if seen["key"].startswith("pc:"):
        seen["key"] = "pc:" + str(places[int(seen["key"].split(":")[1])][1]) + ":" + seen["key"].split(":")[2]
    for name in ("transcriptRef", "checkpointRef"):
        if name in seen:
            seen[name] = True
    value = seen.get("value")
    if isinstance(value, dict):
        seen["value"] = value = dict(value)
        if seen["kind"] == "rand":
            value["value"] = None
        if "agentRef" in value:
            value["agentRef"] = places[value["agentRef"]][1]
        if value.get("decisionType") == "spawn-admission":
            seen["value"] = value = without_lineage(value)
        if "outputHash" in value:  # of a value whose messages may be left out
            value["outputHash"] = True
    if "resolution" in seen:
        seen["resolution"] = {**seen["resolution"], "target": places[seen["resolution"]["target"]][1]}
    if seen["kind"] == "step" and seen.get("value") is None:
        seen.pop("value", None)  # Python has one None where JavaScript has null and undefined
    if keyless and not wire["key"].startswith("pc:"):
        seen.pop("key")
    for name in ("usage", "usageByModel", "providerCalls", "value") if keyless else ():
        seen.pop(name, None)
    return dict(without_volatile(scenario, seen))


def without_lineage(value: Any) -> Any:
    """An admission without the ids and signatures that each run mints."""
    if not isinstance(value, dict):
        return value
    minted = ("logicalTaskId", "nodeId", "approachSig", "approachSigCoarse")
    return {key: without_lineage(item) for key, item in value.items() if key not in minted}


async def test_a_live_run_writes_the_recorded_entries(
    scenario: Mapping[str, Any], routing: Any, vectors: Path
) -> None:
    if holds_own_texts(scenario):
        pytest.skip("holds texts that each library words itself")
    if loses_defaults(scenario):
        pytest.skip("here workflow-level defaults also hold inside branches and stages")
    store = InMemoryStore()
    await run_segments(scenario, routing, store)
    ours = per_scope(scenario, await store.load(scenario["name"]))
    theirs = per_scope(scenario, load_journal(vectors, scenario))
    assert ours == theirs


async def test_a_live_run_leaves_the_recorded_meta_row(
    scenario: Mapping[str, Any], routing: Any, vectors: Path
) -> None:
    path = vectors / "journals" / f"{scenario['name']}.meta.json"
    if not path.exists():
        pytest.skip("the meta row is not in this set of vectors")
    store = InMemoryStore()
    await run_segments(scenario, routing, store)
    ours, theirs = await store.load_meta(scenario["name"]), json.loads(path.read_text("utf-8"))
    assert ours is not None
    for made in ("updatedAt", "genesis", "workflowHash"):
        assert type(ours.pop(made)) is type(theirs.pop(made))
    assert ours == theirs


async def test_the_hash_of_an_output_is_that_of_the_value(scenario: Mapping[str, Any], routing: Any) -> None:
    store = InMemoryStore()
    ran = await run_segments(scenario, routing, store)
    entries = await store.load(scenario["name"])
    settled = [
        e.value for e in entries if e.kind == "decision" and e.value.get("decisionType") == "run_settle"
    ]
    hashes = [value.get("outputHash") for value in settled]
    ended = [ours.outcome for ours in ran]
    told = [hash_output(outcome.value) if outcome.status == "ok" else None for outcome in ended]
    assert hashes == (told if entries else [])


async def test_the_recorded_journal_replays_strictly(
    scenario: Mapping[str, Any], routing: Any, vectors: Path
) -> None:
    expected = scenario.get("strict_replay")
    journal = load_journal(vectors, scenario)
    if expected is None:
        pytest.skip("it was not replayed")
    check_words("a recorded strict replay", expected, STRICT_FIELDS)
    if uses(scenario, "brief") or loses_defaults(scenario):
        pytest.skip("the prompt of brief is ours, and workflow-level defaults hold inside branches here")
    tools = scenario_tools(scenario)
    workflow = ScenarioWorkflow(scenario, tools).build(scenario["wf"])
    fake = scenario_engine(scenario, InMemoryStore(), ScriptedAgents(scenario), routing)[1]
    assert expected.get("journal_unchanged", True)  # a strict replay of ours has no journal to write to
    misses = expected["preview"]["misses"] + expected["preview"]["reruns"]
    replay = replay_run(
        workflow,
        scenario.get("args"),
        journal=journal,
        profiles=profiles_of(scenario.get("profiles"), tools),
        routing=routing,
        adapters=[fake],
        budget_defaults=budget_defaults(scenario) or None,
    )
    if misses:  # a workflow cannot swallow a miss here
        try:
            stood = (await replay).outcome
        except JournalMissError as missed:
            facts = {name: missed.data.get(name) for name in ("scope", "kind", "miss")}
            told = list(
                misses_in([expected[name] for name in ("error", "value", "dropped") if name in expected])
            )
            assert misses > 1 or not told or facts in told  # the first of several was swallowed
        else:  # a call that stands at an open wait is no miss here: the replay waits there too
            assert stood.status == "suspended"
            assert stood.pending
        assert len(fake.calls) == expected.get("live_calls", 0)
        return
    result = await replay
    assert result.outcome.status == expected["status"]
    assert_same_value(scenario, result.outcome.value, expected.get("value"))
    assert [item.to_wire() for item in result.outcome.pending] == expected["pending"]
    assert preview_json(result.preview) == expected["preview"]
    dropped = [without_volatile(scenario, item.to_wire()) for item in result.outcome.dropped]
    assert dropped == without_volatile(scenario, expected["dropped"])
    assert result.outcome.cost.total_usd == expected["cost_totalUsd"]
    if "error" in expected:
        found = error_json(scenario, result.outcome.error, expected["error"])
        assert found == without_volatile(scenario, expected["error"])
    else:
        assert result.outcome.error is None
    assert result.outcome.usage.to_wire() == expected["usage"]
    assert len(fake.calls) == expected.get("live_calls", 0)


async def test_a_recorded_journal_replays_alike_in_every_form_and_is_not_written_to(
    scenario: Mapping[str, Any], routing: Any, vectors: Path, tmp_path: Path
) -> None:
    folder, name = tmp_path / "journals", scenario["name"]
    shutil.copytree(vectors / "journals", folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    tools = scenario_tools(scenario)
    workflow = ScenarioWorkflow(scenario, tools).build(scenario["wf"])

    async def end(journal: Any) -> Any:
        fake = scenario_engine(scenario, InMemoryStore(), ScriptedAgents(scenario), routing)[1]
        options: Any = {"routing": routing, "budget_defaults": budget_defaults(scenario) or None}
        options["profiles"] = profiles_of(scenario.get("profiles"), tools)
        try:
            ended = await replay_run(
                workflow, scenario.get("args"), journal=journal, adapters=[fake], **options
            )
        except JournalMissError as miss:
            return {name: miss.data.get(name) for name in ("scope", "kind", "miss")}
        return ended.outcome.status, ended.outcome.value, ended.outcome.cost.total_usd, ended.preview

    expected = await end(load_journal(vectors, scenario))
    store = JsonlFileStore(folder)
    assert await end((store, name)) == expected
    if (folder / f"{name}.jsonl").exists():
        assert await end(folder / f"{name}.jsonl") == expected
    engine, fake = scenario_engine(scenario, store, ScriptedAgents(scenario), routing)
    async with engine:
        handle = engine.resume(name, workflow, args=scenario.get("args"), dry_run=True)
        outcome = await handle.result()
        if isinstance(expected, dict):
            assert outcome.error is not None
            assert outcome.error.code == JournalMissError.code
        else:
            found = (outcome.status, outcome.value, outcome.cost.total_usd, await handle.preview())
            assert found == expected
    assert fake.calls == []
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def misses_in(value: Any) -> Iterator[Any]:
    """Yield the facts of every miss that the original told, also of those that a workflow swallowed."""
    if isinstance(value, dict) and value.get("code") == "journal_miss" and "data" in value:
        yield value["data"]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from misses_in(item)


@pytest.mark.parametrize("blank", [False, True], ids=["whole", "blank"])
async def test_a_minimized_journal_comes_to_the_same_end(
    scenario: Mapping[str, Any], routing: Any, vectors: Path, blank: bool
) -> None:
    workflow = ScenarioWorkflow(scenario, scenario_tools(scenario)).build(scenario["wf"])
    journal = load_journal(vectors, scenario)
    engine, _ = scenario_engine(scenario, InMemoryStore(), ScriptedAgents(scenario), routing)
    options: Any = {
        "profiles": profiles_of(scenario.get("profiles"), scenario_tools(scenario)),
        "routing": routing,
        "budget_defaults": budget_defaults(scenario) or None,
    }

    async def ended(entries: Any) -> tuple[Any, ...]:
        fake = scenario_engine(scenario, InMemoryStore(), ScriptedAgents(scenario), routing)[1]
        try:
            replayed = await replay_run(
                workflow, scenario.get("args"), journal=entries, adapters=[fake], **options
            )
        except JournalMissError as miss:
            return ("missed", None if blank else str(miss))
        outcome = replayed.outcome
        code = None if outcome.error is None else outcome.error.code
        return (outcome.status, code, len(outcome.pending), None if blank else outcome.value)

    run = Bundle(scenario["name"], {}, journal)
    small = minimize_with(engine, workflow, run, scenario.get("args"), blank=blank)
    assert await ended(small.run.entries) == await ended(journal)
    assert len(small.run.entries) <= len(journal)
    again = minimize_with(engine, workflow, small.run, scenario.get("args"), blank=blank)
    assert len(again.run.entries) == len(small.run.entries)  # nothing is left to drop


class Shaking:
    """An observer that shakes every segment in the conditions of one process."""

    wants_sites = True
    wants_segments = True

    def __init__(self) -> None:
        self.found: list[Examination] = []

    def engine_created(self, adapters: Any) -> None: ...
    def call_finished(self, record: Any) -> None: ...
    def run_settled(self, record: Any) -> None: ...
    def determinism_warning(self, file: str, line: int, code: str, message: str) -> None: ...

    def segment_ended(self, record: SegmentRecord) -> None:
        examiner = Examiner(1)
        self.found.append(examiner.examine(record.engine, record.workflow, recorded_segment(record)))


async def test_shaking_a_scenario_moves_nothing(scenario: Mapping[str, Any], routing: Any) -> None:
    shaking = Shaking()
    install_observer(shaking)
    try:
        await run_segments(scenario, routing, InMemoryStore())
    finally:
        uninstall_observer(shaking)
    assert [(found.moves, found.left_out) for found in shaking.found] == [([], None)] * len(shaking.found)
    assert shaking.found
