"""A scenario that says what nothing here reads fails by name, and never passes in silence."""

from __future__ import annotations

from typing import Any

import pytest
from scenario_facts import chance_in_identities, has_text, holds_own_texts, loses_defaults, uses
from scenario_language import UnknownWord, check_scenario, op_name, profiles_of


def scenario(body: list[Any], **more: Any) -> dict[str, Any]:
    definition = {"name": "w", "body": body, **more.pop("wf", {})}
    return {"name": "s", "agents": {"*": [{"text": "x"}]}, "segments": [], "wf": definition, **more}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (scenario([{"teleport": 1}]), "teleport"),
        (scenario([{"agent": "p", "opts": {"temperature": 1}}]), "temperature"),
        (scenario([{"agent": "p", "opts": {"limits": {"maxDreams": 1}}}]), "maxDreams"),
        (scenario([{"step": "s", "value": 1, "timeout": 3}]), "timeout"),
        (scenario([{"try": [{"parallel": [[{"teleport": 1}]]}], "catch": []}]), "teleport"),
        (scenario([{"workflow": {"name": "kid", "body": [{"teleport": 1}]}}]), "teleport"),
        (scenario([{"awaitExternal": "k", "opts": {"deadline": 1}}]), "deadline"),
        (scenario([], wf={"retries": 1}), "retries"),
        (scenario([], run_opts={"speed": 1}), "speed"),
        (scenario([], budgetDefaults={"maxLuck": 1}), "maxLuck"),
        (scenario([], caps={"vision": True}), "vision"),
        (scenario([], agents={"*": [{"song": 1}]}), "song"),
        (scenario([], tools={"t": {"description": "d", "parameters": {}, "color": 1}}), "color"),
        (scenario([], segments=[{"kind": "replay"}]), "replay"),
        (scenario([], segments=[{"kind": "run", "wait_ms": 1}]), "wait_ms"),
        (scenario([], weather="fine"), "weather"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_word_that_nobody_reads_is_refused(given: Any, word: str) -> None:
    with pytest.raises(UnknownWord, match=repr(word) if "teleport" not in word else word):
        check_scenario(given)


def test_a_profile_option_that_nobody_reads_is_refused() -> None:
    with pytest.raises(UnknownWord, match="'mood'"):
        profiles_of({"p": {"mood": 1}}, {})


def test_an_operation_is_known_by_its_word_and_not_by_its_place() -> None:
    assert op_name({"as": "x", "deps": [], "step": "s"}) == "step"


def test_what_a_scenario_is_is_read_off_its_text() -> None:
    drawn = [{"uuid": True, "as": "u"}]
    assert not chance_in_identities(scenario([*drawn, {"return": "{{u}}"}]))
    assert chance_in_identities(scenario([*drawn, {"phase": "p", "body": [{"agent": "about {{u}}"}]}]))
    blank = [{"prompt": "p"}, {"prompt": ""}]
    assert holds_own_texts(scenario([{"agent": "p"}], adapter_calls=blank))
    assert not holds_own_texts(scenario([{"agent": ""}], adapter_calls=blank))
    assert loses_defaults(scenario([{"parallel": []}], wf={"model": "fake:m"}))
    assert not loses_defaults(scenario([{"parallel": []}]))
    assert uses(scenario([{"repeat": 2, "body": [{"brief": {}}]}]), "brief")
    assert has_text(scenario([{"throw": 'it "broke"'}]), 'it "broke"')
    assert not has_text(scenario([{"throw": "it broke"}]), "another text")
