"""Strict schemas: which ones a provider's strict mode takes, and what is wrong with the others.

In strict mode a provider constrains what the model may write. It takes closed objects only: no extra
members, and every property required. A property that may be left out becomes one that may be null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.schema import schema_contract
from rulvar.errors import SchemaError

__all__ = ["StrictIssue", "closed_schema", "is_strict_compatible", "strict_issues", "strict_schema"]

_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = ("items", "contains", "not", "if", "then", "else", "propertyNames", "additionalItems")


@dataclass(frozen=True, slots=True)
class StrictIssue:
    """One reason why a schema is refused: where (a JSON pointer), what, and the property when it is one."""

    pointer: str
    message: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


def is_strict_compatible(schema: Any) -> bool:
    """Whether every object of a canonical schema is closed: no extra members, every member required."""
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    is_object = schema.get("type") == "object" or "properties" in schema or "additionalProperties" in schema
    if is_object:
        names = set(properties) if isinstance(properties, Mapping) else set()
        required = schema.get("required")
        listed = required if isinstance(required, list) else ()
        if schema.get("additionalProperties") is not False:
            return False
        if not names <= {name for name in listed if isinstance(name, str)}:
            return False
    below: list[Any] = list(properties.values()) if isinstance(properties, Mapping) else []
    below.extend(schema[name] for name in ("items", "contains") if name in schema)
    for name in _LISTS:
        if isinstance(schema.get(name), list):
            below.extend(schema[name])
    return all(is_strict_compatible(item) for item in below)


def strict_issues(schema: Any) -> list[StrictIssue]:
    """Return why strict mode refuses a schema; nothing when it takes it.

    The rules hold at the root, which must be an object, and for every schema below it.
    """
    schema = _rooted(schema)
    if not isinstance(schema, Mapping) or not _is_object(schema):
        return [StrictIssue("", "the root must be an object")]
    return [issue for pointer, node in _nodes(schema, "") for issue in _node_issues(node, pointer)]


def _rooted(schema: Any) -> Any:
    """Return a schema whose root stands where it is, and not behind a reference to a definition."""
    ref = schema.get("$ref") if isinstance(schema, Mapping) else None
    if not isinstance(ref, str) or not ref.startswith("#/$defs/"):
        return schema
    target = schema.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
    if not isinstance(target, Mapping):
        return schema
    return {**target, **{name: value for name, value in schema.items() if name != "$ref"}}


def _node_issues(node: Mapping[str, Any], pointer: str) -> Iterator[StrictIssue]:
    if not _is_object(node):
        return
    properties = node.get("properties")
    names = list(properties) if isinstance(properties, Mapping) else []
    extra = node.get("additionalProperties", False)
    if extra is not False:
        yield StrictIssue(
            pointer,
            "an open object: set additionalProperties to false and name every property",
            _last(pointer),
        )
    if isinstance(node.get("patternProperties"), Mapping) and node["patternProperties"]:
        yield StrictIssue(
            pointer, "patternProperties make an open object: name every property", _last(pointer)
        )
    required = node.get("required", [])
    required = required if isinstance(required, (list, tuple)) else []
    for name in names:
        if name not in required:
            yield StrictIssue(
                f"{pointer}/properties/{_escaped(name)}",
                f"property {name!r} is optional: make it required and nullable",
                name,
            )
    for place, name in enumerate(required):
        if name not in names:
            yield StrictIssue(f"{pointer}/required", f"required names an unknown property {name!r}", name)
        elif name in required[:place]:
            yield StrictIssue(f"{pointer}/required", f"required names {name!r} twice", name)


def _is_object(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    named = kind == "object" or (isinstance(kind, (list, tuple)) and "object" in kind)
    return named or "properties" in node or "additionalProperties" in node


def _nodes(node: Any, pointer: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every schema of a schema with its JSON pointer, the outermost first."""
    pending = [(pointer, node)]
    while pending:
        where, here = pending.pop(0)
        if not isinstance(here, Mapping):
            continue
        yield where, here
        for keyword in _NAMED:
            named = here.get(keyword)
            if isinstance(named, Mapping):
                pending.extend((f"{where}/{keyword}/{_escaped(name)}", item) for name, item in named.items())
        for keyword in _LISTS:
            if isinstance(here.get(keyword), (list, tuple)):
                pending.extend((f"{where}/{keyword}/{at}", item) for at, item in enumerate(here[keyword]))
        pending.extend((f"{where}/{keyword}", here[keyword]) for keyword in _SINGLE if keyword in here)


def _escaped(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _last(pointer: str) -> str | None:
    name = pointer.rpartition("/properties/")[2] if "/properties/" in pointer else ""
    return name.replace("~1", "/").replace("~0", "~") or None


def closed_schema(schema: Any) -> Any:
    """Return a schema whose objects are closed where they say nothing of other members.

    What may be left out stays so: a schema that is not strict for another reason is not made strict.
    """
    return _with_closed_objects(_rooted(schema))


def _with_closed_objects(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    made: dict[str, Any] = dict(node)
    for keyword in _NAMED:
        if isinstance(made.get(keyword), Mapping):
            made[keyword] = {name: _with_closed_objects(item) for name, item in made[keyword].items()}
    for keyword in _LISTS:
        if isinstance(made.get(keyword), (list, tuple)):
            made[keyword] = [_with_closed_objects(item) for item in made[keyword]]
    for keyword in ("items", "contains"):
        if keyword in made:
            made[keyword] = _with_closed_objects(made[keyword])
    if _is_object(made) and "additionalProperties" not in made and not made.get("patternProperties"):
        made["additionalProperties"] = False
        made.setdefault("properties", {})
        made.setdefault("required", [])
    return made


def strict_schema(schema: Any) -> dict[str, Any]:
    """Return the strict form of a schema: every object closed, every property required.

    Args:
        schema: a JSON Schema, a pydantic model, a dataclass or a TypedDict.

    A property that was optional becomes nullable, and its default is left out: a model always writes
    it, ``null`` for "not given".

    Raises:
        SchemaError: an open object, which strict mode cannot express; the message has its JSON pointer.
    """
    contract = schema_contract(schema, "strict_schema")
    made = _closed(_rooted(contract.json), "")
    if not isinstance(made, dict):
        raise SchemaError("strict_schema: the schema is not an object")
    return made


def _closed(node: Any, pointer: str) -> Any:
    if not isinstance(node, Mapping):
        return node
    made: dict[str, Any] = {keyword: value for keyword, value in node.items() if keyword != "default"}
    for keyword in _NAMED:
        named = made.get(keyword)
        if isinstance(named, Mapping):
            made[keyword] = {
                name: _closed(item, f"{pointer}/{keyword}/{_escaped(name)}") for name, item in named.items()
            }
    for keyword in _LISTS:
        if isinstance(made.get(keyword), (list, tuple)):
            made[keyword] = [
                _closed(item, f"{pointer}/{keyword}/{at}") for at, item in enumerate(made[keyword])
            ]
    for keyword in _SINGLE:
        if keyword in made:
            made[keyword] = _closed(made[keyword], f"{pointer}/{keyword}")
    return _closed_object(made, pointer) if _is_object(made) else made


def _closed_object(made: dict[str, Any], pointer: str) -> dict[str, Any]:
    if made.get("additionalProperties", False) is not False or made.get("patternProperties"):
        raise SchemaError(
            f"strict_schema: {pointer or '/'} is an open object; strict mode needs its properties by name",
            data={"field": pointer or "/"},
        )
    properties = made.get("properties") or {}
    required = made.get("required") or []
    made["properties"] = {
        name: item if name in required else _nullable(item) for name, item in properties.items()
    }
    made["required"] = list(properties)
    made["additionalProperties"] = False
    return made


def _nullable(node: Any) -> Any:
    """Return a schema that also takes null."""
    if not isinstance(node, Mapping) or _takes_null(node):
        return node
    kind = node.get("type")
    if isinstance(kind, str) and "enum" not in node and "const" not in node:
        return {**node, "type": [kind, "null"]}
    if isinstance(node.get("anyOf"), list):
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    return {"anyOf": [dict(node), {"type": "null"}]}


def _takes_null(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    if kind == "null" or (isinstance(kind, (list, tuple)) and "null" in kind):
        return True
    return any(isinstance(item, Mapping) and _takes_null(item) for item in node.get("anyOf") or ())
