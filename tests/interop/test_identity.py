"""Keys, schema hashes, toolset hashes and scopes are what the original computes."""

from collections.abc import Mapping
from typing import Any

import pytest
from scenario_language import check_words

from rulvar.contracts.canonical import canonical_json, decode_json
from rulvar.contracts.schema import canonical_schema
from rulvar.errors import ConfigError, NonSerializableValueError
from rulvar.kernel import keys, scope
from rulvar.kernel.disposition import DISPOSITION_TABLE

BOTH = pytest.mark.parametrize("version", [1, 2])
FILE_FIELDS = {"upstream", "what", "hashVersion", "dispositionTable", "foldDefaults", "emptySchemaHash"}
FILE_FIELDS |= {"emptyToolsetHash", "identity", "schemaHash", "toolsetHash", "scopes", "miscHashes"}
CASE_FIELDS = {
    "identity": {"group", "name", "input_json", "canonical", "key", "result"},
    "schemaHash": {"group", "name", "schema_json", "canonical", "hash", "throws"},
    "toolsetHash": {"group", "name", "tools_json", "hash", "contract_hashes"},
    "scopes": {"group", "name", "fn", "args", "result", "throws"},
    "miscHashes": {"group", "name", "fn", "value_json", "options", "result", "throws"},
}
THROWN = {"ConfigError", "TypeError", "Error"}
"""What the original throws; here a schema or a scope is refused with one class, ``ConfigError``."""
FOLD_DEFAULTS = {"effort": "medium", "memoizeOutcome": False, "budgetAccount": "root"}
"""What the original's folds take for a field that an entry of this version leaves out."""


def check_thrown(case: Mapping[str, Any]) -> None:
    assert case["throws"] in THROWN, case
    assert "hash" not in case, case
    assert "result" not in case, case


@BOTH
def test_every_field_of_the_file_is_one_that_is_compared(load_vectors: Any, version: int) -> None:
    recorded = load_vectors(f"identity_v{version}.json")
    check_words("a file of identities", recorded, FILE_FIELDS)
    for group, fields in CASE_FIELDS.items():
        for case in recorded.get(group, ()):
            check_words(f"a case of {group}", case, fields)
    assert recorded["hashVersion"] == version
    assert recorded["foldDefaults"] == FOLD_DEFAULTS


@BOTH
def test_every_identity_has_the_recorded_key(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["identity"]:
        identity = decode_json(case["input_json"])
        key = keys.content_key(identity, version)
        if "key" in case:
            assert key == case["key"], case["name"]
            assert "result" not in case, case["name"]
        else:
            assert (key, case["result"]) == (None, "incomparable"), case["name"]
        if "canonical" in case:
            canonical = canonical_json(keys.project_identity(identity, version))
            assert canonical.decode("utf-8", "surrogatepass") == case["canonical"], case["name"]


@BOTH
def test_every_schema_has_the_recorded_hash(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["schemaHash"]:
        schema = decode_json(case["schema_json"])
        if "throws" in case:
            check_thrown(case)
            with pytest.raises(ConfigError):
                keys.schema_hash(schema)
        else:
            assert keys.schema_hash(schema) == case["hash"], case["name"]
            if "canonical" in case:
                canonical = canonical_json(canonical_schema(schema))
                assert canonical.decode("utf-8", "surrogatepass") == case["canonical"], case["name"]


@BOTH
def test_every_toolset_has_the_recorded_hash(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json")["toolsetHash"]:
        tools = decode_json(case["tools_json"])
        assert keys.toolset_hash(tools) == case["hash"], case["name"]
        assert [keys.tool_contract_hash(tool) for tool in tools] == case["contract_hashes"]


@BOTH
def test_args_and_outputs_have_the_recorded_hash(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json").get("miscHashes", ()):
        value = decode_json(case["value_json"])
        if case["fn"] == "hashRunOutput":
            assert keys.hash_output(value) == case.get("result"), case["name"]
            continue
        assert case["fn"] == "hashRunArgs", case
        check_words("the options of a hash", case.get("options", {}), {"salt"})
        if "throws" in case:
            check_thrown(case)
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


@BOTH
def test_scopes_are_built_and_parsed_as_recorded(load_vectors: Any, version: int) -> None:
    for case in load_vectors(f"identity_v{version}.json").get("scopes", ()):
        if case["fn"] in BUILD:
            assert BUILD[case["fn"]](*case["args"]) == case["result"]
            continue
        assert case["fn"] == "parseScopePath", case
        if "throws" in case:
            check_thrown(case)
            with pytest.raises(ConfigError):
                scope.parse_scope(*case["args"])
        else:
            expected = tuple(SEGMENTS[s["kind"]](s) for s in case["result"])
            assert scope.parse_scope(*case["args"]) == expected


@BOTH
def test_the_hashes_of_nothing_are_the_documented_ones(load_vectors: Any, version: int) -> None:
    recorded = load_vectors(f"identity_v{version}.json")
    assert recorded["emptySchemaHash"] == keys.EMPTY_SCHEMA_HASH
    assert recorded["emptyToolsetHash"] == keys.EMPTY_TOOLSET_HASH


@BOTH
def test_every_status_has_the_recorded_disposition(load_vectors: Any, version: int) -> None:
    recorded = load_vectors(f"identity_v{version}.json")["dispositionTable"]
    assert {status: rule.value for status, rule in DISPOSITION_TABLE[version].items()} == recorded
