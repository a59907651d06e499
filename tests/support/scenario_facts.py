"""What a scenario is, read off its text: the vectors of another set have other names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CHANCE = ("now", "random", "uuid")
BLOCKS = ("body", "try", "catch", "then", "else")


def scenario_named(recorded: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a scenario of a set of vectors.

    Raises:
        AssertionError: the set has none of that name.
    """
    for item in recorded["scenarios"]:
        if item["name"] == name:
            found: Mapping[str, Any] = item
            return found
    raise AssertionError(f"journals/scenarios.json of this set of vectors has no scenario {name!r}")


def every_op(definition: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the operations of a workflow, those of its blocks and children too."""
    yield from _ops(definition["body"])


def _ops(body: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for op in body:
        yield op
        for name in BLOCKS:
            if isinstance(op.get(name), list):
                yield from _ops(op[name])
        for name in ("parallel", "stages"):
            for block in op.get(name, ()):
                yield from _ops(block)
        if isinstance(op.get("workflow"), Mapping):
            yield from every_op(op["workflow"])


def uses(scenario: Mapping[str, Any], *names: str) -> bool:
    """Whether one of the scenario's workflows has an operation of one of these names."""
    return any(name in op for op in every_op(scenario["wf"]) for name in names)


def holds_own_texts(scenario: Mapping[str, Any]) -> bool:
    """Whether a prompt of the recorded run held text that each library words itself: it is left empty."""
    empty = any(op.get("agent") == "" for op in every_op(scenario["wf"]))
    return not empty and any(call["prompt"] == "" for call in scenario.get("adapter_calls", ()))


def chance_in_identities(scenario: Mapping[str, Any]) -> bool:
    """Whether what a shim draws goes into a prompt, an argument or a key: identities then differ."""
    drawn = {op["as"] for op in every_op(scenario["wf"]) if "as" in op and any(n in op for n in CHANCE)}
    texts = (
        json.dumps(
            {key: op[key] for key in ("agent", "step", "deps", "value", "args", "awaitExternal") if key in op}
        )
        for op in every_op(scenario["wf"])
    )
    return any(f"{{{{{name}" in text for text in texts for name in drawn)


def loses_defaults(scenario: Mapping[str, Any]) -> bool:
    """Whether a workflow's own defaults do not reach its branches and stages, in the original only."""
    definitions = [scenario["wf"]]
    definitions += [
        op["workflow"] for op in every_op(scenario["wf"]) if isinstance(op.get("workflow"), Mapping)
    ]
    return any(
        any(name in definition for name in ("model", "effort", "routing"))
        and any(name in op for op in every_op(definition) for name in ("parallel", "pipeline"))
        for definition in definitions
    )


def has_text(scenario: Mapping[str, Any], text: Any) -> bool:
    """Whether a message is the scenario's own, and not one that a library words."""
    return isinstance(text, str) and text != "" and json.dumps(text)[1:-1] in scenario_text(scenario)


def scenario_text(scenario: Mapping[str, Any]) -> str:
    """Return the texts that the scenario's author wrote."""
    return json.dumps([scenario["wf"], scenario["agents"], scenario.get("tools")])
