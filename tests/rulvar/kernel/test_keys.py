"""Content keys of identities that are none: the field that is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key, project_identity, toolset_hash

AGENT = {
    "kind": "agent",
    "agentType": "",
    "modelSpec": {"kind": "model", "model": "fake:m"},
    "prompt": "p",
    "schemaHash": "s",
    "toolsetHash": "t",
    "isolation": "none",
}


@pytest.mark.parametrize(
    "field", ["agentType", "modelSpec", "prompt", "schemaHash", "toolsetHash", "isolation"]
)
def test_a_field_that_an_agent_lacks_is_named(field: str) -> None:
    with pytest.raises(ConfigError, match=rf"identity\.{field}"):
        content_key({name: item for name, item in AGENT.items() if name != field})


@pytest.mark.parametrize("wrong", [None, "x", ["kind"], 5])
def test_what_is_no_object_is_no_identity(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="identity: expected an object"):
        content_key(wrong)


def test_a_model_spec_is_an_object() -> None:
    with pytest.raises(ConfigError, match=r"identity\.modelSpec"):
        content_key({**AGENT, "modelSpec": "fake:m"})


@pytest.mark.parametrize(
    ("contract", "named"),
    [
        ("search", "expected an object"),
        ({"name": "a", "parameters": {}}, "description"),
        ({"name": 1, "description": "", "parameters": {}}, "name"),
    ],
)
def test_a_contract_that_is_none_is_refused_by_its_field(contract: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=f"tool contract: .*{named}"):
        toolset_hash([contract])


@pytest.mark.parametrize(
    "identity",
    [
        {"kind": "step", "key": "s", "deps": [], "more": 1},
        {"kind": "child", "workflow": "w", "args": None, "key": "k"},
        {"kind": "external", "key": "k", "prompt": "p"},
        {"kind": "rand", "subtype": "random", "key": None},
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_only_an_agent_has_fields_that_its_key_leaves_out(identity: Any, version: int) -> None:
    assert project_identity(identity, version) == identity


def test_an_agent_has_fields_that_its_key_leaves_out() -> None:
    assert content_key({**AGENT, "label": "l"}) == content_key(AGENT)


def test_an_effort_of_null_is_an_effort_in_version_2_only() -> None:
    of_null = {**AGENT, "modelSpec": {**AGENT["modelSpec"], "effort": None}}  # type: ignore[dict-item]
    assert content_key(of_null) != content_key(AGENT)
    assert content_key(of_null, 1) == content_key(AGENT, 1)


@pytest.mark.parametrize(
    "kind",
    [
        "decision", "plan.revision", "plan.decision", "ledger.op", "node.link", "termination.init",
        "termination.denied",
    ],
)  # fmt: skip
def test_what_version_1_did_not_know_has_no_key_in_it(kind: str) -> None:
    assert content_key({"kind": kind, "a": 1}, 1) is None
    assert content_key({"kind": kind, "a": 1}) is not None


def test_a_version_of_null_is_a_version_of_the_contract() -> None:
    contract = {"name": "a", "description": "", "parameters": {}}
    assert toolset_hash([contract]) != toolset_hash([{**contract, "version": None}])
