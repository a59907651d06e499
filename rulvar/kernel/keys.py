"""Content keys: what a journaled call is found by.

A key is the SHA-256 of the RFC 8785 canonical JSON of the call's identity. Version 1 knows no
effort on a plain model and cannot express decision kinds; version 2 is current.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rulvar.contracts.canonical import canonical_json, hash_canonical, sha256_hex
from rulvar.contracts.messages import ToolContract
from rulvar.contracts.schema import canonical_schema
from rulvar.errors import ConfigError, NonSerializableValueError

__all__ = [
    "CURRENT_HASH_VERSION",
    "EMPTY_SCHEMA_HASH",
    "EMPTY_TOOLSET_HASH",
    "SUPPORTED_HASH_VERSIONS",
    "content_key",
    "hash_args",
    "hash_output",
    "schema_hash",
    "tool_contract_hash",
    "toolset_hash",
]

CURRENT_HASH_VERSION = 2
SUPPORTED_HASH_VERSIONS = (CURRENT_HASH_VERSION - 1, CURRENT_HASH_VERSION)

_INCOMPARABLE_IN_V1 = frozenset(
    {"decision", "plan.decision", "ledger.op", "termination.init", "termination.denied"}
)


def content_key(identity: Mapping[str, Any], hash_version: int = CURRENT_HASH_VERSION) -> str | None:
    """Return the content key of an identity, as lowercase hex.

    Args:
        identity: the plain JSON object with its ``kind``.
        hash_version: 1 or 2. None is returned for a kind that version 1 cannot express.

    Raises:
        ConfigError: an unknown version, or an identity that misses a field of its kind.
        NonSerializableValueError: a value that JSON cannot hold.
    """
    projected = project_identity(identity, hash_version)
    return None if projected is None else sha256_hex(canonical_json(projected))


def project_identity(identity: Mapping[str, Any], hash_version: int) -> dict[str, Any] | None:
    """Return the part of an identity that a version's key covers, or None when it has no key."""
    if hash_version not in SUPPORTED_HASH_VERSIONS:
        raise ConfigError(f"hashVersion {hash_version} is not one of {SUPPORTED_HASH_VERSIONS}")
    if not isinstance(identity, Mapping):
        raise ConfigError(f"identity: expected an object, got {type(identity).__name__}")
    kind = identity.get("kind")
    if not isinstance(kind, str):
        raise ConfigError("identity.kind: expected a string")
    if hash_version == 1 and kind in _INCOMPARABLE_IN_V1:
        return None
    project = _PROJECTIONS.get(kind)
    try:
        return dict(identity) if project is None else project(identity, hash_version)
    except KeyError as missing:
        raise ConfigError(f"identity.{missing.args[0]}: missing, and an {kind} has one") from None


def schema_hash(schema: Any) -> str:
    """Return the hash of a JSON Schema after canonicalization; no schema hashes ``true``."""
    return EMPTY_SCHEMA_HASH if schema is None else hash_canonical(canonical_schema(schema))


def tool_contract_hash(contract: ToolContract | Mapping[str, Any]) -> str:
    """Return the hash of one tool contract: name, description, canonical parameters, version."""
    return hash_canonical(_hashed_contract(contract))


def toolset_hash(contracts: Iterable[ToolContract | Mapping[str, Any]]) -> str:
    """Return the hash of a set of tools: the contract's identity parts, sorted by name."""
    hashed = [_hashed_contract(contract) for contract in contracts]
    hashed.sort(key=lambda contract: contract["name"].encode("utf-16-be", "surrogatepass"))
    return hash_canonical(hashed)


def hash_args(args: Any, salt: str | None = None) -> str:
    """Return the hash that binds a run to its arguments; a salt makes it an HMAC-SHA256."""
    data = canonical_json(args)
    if salt is None:
        return sha256_hex(data)
    return hmac.new(salt.encode("utf-8", "surrogatepass"), data, "sha256").hexdigest()


def hash_output(value: Any) -> str | None:
    """Return the hash of a run's output, or None for a value that canonical JSON cannot hold."""
    try:
        return hash_canonical(value)
    except NonSerializableValueError:
        return None


def _hashed_contract(contract: ToolContract | Mapping[str, Any]) -> dict[str, Any]:
    wire = contract.to_wire() if isinstance(contract, ToolContract) else contract
    if not isinstance(wire, Mapping):
        raise ConfigError(f"tool contract: expected an object, got {type(wire).__name__}")
    try:
        hashed = {
            "name": wire["name"],
            "description": wire["description"],
            "parameters": canonical_schema(wire["parameters"]),
        }
    except KeyError as missing:
        raise ConfigError(f"tool contract: {missing.args[0]} is missing") from None
    if not isinstance(hashed["name"], str):
        raise ConfigError(f"tool contract: name: expected a string, got {type(hashed['name']).__name__}")
    if wire.get("version") is not None:
        hashed["version"] = wire["version"]
    return hashed


def _project_agent(identity: Mapping[str, Any], hash_version: int) -> dict[str, Any]:
    spec = identity["modelSpec"]
    if not isinstance(spec, Mapping):
        raise ConfigError(f"identity.modelSpec: expected an object, got {type(spec).__name__}")
    if spec.get("kind") == "ladder":
        projected: dict[str, Any] = {"ladder": spec["ladder"]}
    else:
        projected = {"model": spec["model"]}
        if hash_version > 1 and spec.get("effort") is not None:
            projected["effort"] = spec["effort"]
    return {
        "kind": "agent",
        "agentType": identity["agentType"],
        "modelSpec": projected,
        "prompt": identity["prompt"],
        "schemaHash": identity["schemaHash"],
        "toolsetHash": identity["toolsetHash"],
        "isolation": identity["isolation"],
    }


def _picks(*names: str) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    def pick(identity: Mapping[str, Any], _: int) -> dict[str, Any]:
        return {name: identity[name] for name in names if name in identity}

    return pick


_PROJECTIONS: Mapping[str, Callable[[Mapping[str, Any], int], dict[str, Any]]] = {
    "agent": _project_agent,
    "step": _picks("kind", "key", "deps"),
    "child": _picks("kind", "workflow", "args", "key"),
    "external": _picks("kind", "key"),
    "approval": _picks("kind", "toolName", "input"),
    "rand": _picks("kind", "subtype", "key"),
}

EMPTY_SCHEMA_HASH = hash_canonical(True)
EMPTY_TOOLSET_HASH = hash_canonical([])
