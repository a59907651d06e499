"""Content keys of identities that are none: the field that is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

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
