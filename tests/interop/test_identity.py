"""Keys, schema hashes, toolset hashes and scopes are what the original computes."""

from typing import Any

import pytest

from rulvar.contracts.canonical import decode_json
from rulvar.errors import ConfigError, NonSerializableValueError
from rulvar.kernel import keys, scope
from rulvar.kernel.disposition import DISPOSITION_TABLE

BOTH = pytest.mark.parametrize("version", [1, 2])


@BOTH
def test_every_identity_has_the_recorded_key(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["identity"]:
        key = keys.content_key(decode_json(case["input_json"]), version)
        assert key == case.get("key"), case["name"]


@BOTH
def test_every_schema_has_the_recorded_hash(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["schemaHash"]:
        schema = decode_json(case["schema_json"])
        if "throws" in case:
            with pytest.raises(ConfigError):
                keys.schema_hash(schema)
        else:
            assert keys.schema_hash(schema) == case["hash"], case["name"]


@BOTH
def test_every_toolset_has_the_recorded_hash(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["toolsetHash"]:
        tools = decode_json(case["tools_json"])
        assert keys.toolset_hash(tools) == case["hash"], case["name"]
        assert [keys.tool_contract_hash(tool) for tool in tools] == case["contract_hashes"]


def test_args_and_outputs_have_the_recorded_hash(load_vectors: Any) -> None:
    for case in load_vectors("identity_v2.json")["miscHashes"]:
        value = decode_json(case["value_json"])
        if case["fn"] == "hashRunOutput":
            assert keys.hash_output(value) == case.get("result"), case["name"]
        elif "throws" in case:
            with pytest.raises(NonSerializableValueError):
                keys.hash_args(value)
        else:
            salt = case.get("options", {}).get("salt")
            assert keys.hash_args(value, salt) == case["result"], case["name"]


BUILD = {
    "parallelScope": scope.parallel_scope,
    "pipelineScope": scope.pipeline_scope,
    "workflowScope": scope.workflow_scope,
    "planNodeScope": scope.plan_node_scope,
}
SEGMENTS = {
    "parallel": lambda s: scope.ParallelScope(s["site"], s["branch"]),
    "pipeline": lambda s: scope.PipelineScope(s["stage"], s["item"]),
    "workflow": lambda s: scope.WorkflowScope(s["name"], s["ordinal"]),
    "agent": lambda s: scope.AgentScope(s["seq"]),
    "plan-node": lambda s: scope.PlanNodeScope(s["nodeId"]),
}


def test_scopes_are_built_and_parsed_as_recorded(load_vectors: Any) -> None:
    for case in load_vectors("identity_v2.json")["scopes"]:
        if case["fn"] in BUILD:
            assert BUILD[case["fn"]](*case["args"]) == case["result"]
        elif "throws" in case:
            with pytest.raises(ConfigError):
                scope.parse_scope(*case["args"])
        else:
            expected = tuple(SEGMENTS[s["kind"]](s) for s in case["result"])
            assert scope.parse_scope(*case["args"]) == expected


def test_the_hashes_of_nothing_are_the_documented_ones(load_vectors: Any) -> None:
    recorded = load_vectors("identity_v2.json")
    assert recorded["emptySchemaHash"] == keys.EMPTY_SCHEMA_HASH
    assert recorded["emptyToolsetHash"] == keys.EMPTY_TOOLSET_HASH


@pytest.mark.parametrize("version", [1, 2])
def test_every_status_has_the_recorded_disposition(load_vectors: Any, version: int) -> None:
    recorded = load_vectors(f"identity_v{version}.json")["dispositionTable"]
    assert {status: rule.value for status, rule in DISPOSITION_TABLE[version].items()} == recorded
