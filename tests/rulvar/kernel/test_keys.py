"""Content keys of identities that are none: the field that is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.canonical import hash_canonical
from rulvar.errors import ConfigError
from rulvar.kernel.keys import content_key, toolset_hash

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
        {"kind": "step", "key": "fetch", "deps": [], "region": "eu"},
        {"kind": "external", "key": "gate", "note": None},
        {"kind": "approval", "toolName": "rm", "input": {}, "risk": "high"},
        {"kind": "rand", "subtype": "now", "zone": "utc"},
        {"kind": "child", "workflow": "w", "args": 1, "more": [2]},
    ],
)
def test_every_field_of_an_identity_that_is_no_agent_is_part_of_its_key(identity: dict[str, Any]) -> None:
    *_, extra = identity
    fewer = {name: item for name, item in identity.items() if name != extra}
    for version in (1, 2):
        assert content_key(identity, version) == hash_canonical(identity)
        assert content_key(identity, version) != content_key(fewer, version)


@pytest.mark.parametrize("kind", ["decision", "plan.decision", "plan.revision", "node.link", "ledger.op"])
def test_a_kind_that_version_1_cannot_express_has_no_key_there(kind: str) -> None:
    identity = {"kind": kind, "target": 4}
    assert content_key(identity, 1) is None
    assert content_key(identity, 2) == hash_canonical(identity)


def test_null_is_a_value_and_not_an_absent_field() -> None:
    tool = {"name": "t", "description": "d", "parameters": {}}
    assert toolset_hash([{**tool, "version": None}]) == hash_canonical([{**tool, "version": None}])
    assert toolset_hash([tool]) == hash_canonical([tool])
    spec = {"kind": "model", "model": "fake:m", "effort": None}
    assert content_key({**AGENT, "modelSpec": spec}) != content_key(AGENT)
    assert content_key({**AGENT, "modelSpec": spec}, 1) == content_key(AGENT, 1)
