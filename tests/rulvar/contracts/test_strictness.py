"""Schemas in strict mode: what is refused and where, and how a schema is made strict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rulvar.contracts.strictness import closed_schema, is_strict_compatible, strict_issues, strict_schema
from rulvar.errors import SchemaError


class Item(BaseModel):
    name: str
    tags: list[str] = []


class Order(BaseModel):
    items: list[Item]
    note: str | None = None
    count: int = 3


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict, total=False):
    name: str


@pytest.mark.parametrize("shape", [Item, Order, Point, Named])
def test_a_strict_schema_is_taken_and_every_field_is_required(shape: Any) -> None:
    schema = strict_schema(shape)
    assert strict_issues(schema) == []
    assert is_strict_compatible(schema["$defs"]["Item"] if shape is Order else schema)
    assert "default" not in str(schema)
    validator = jsonschema_rs.validator_for(schema)
    for name in schema["properties"]:
        assert name in schema["required"]
    assert validator is not None


def test_what_was_optional_may_be_null_and_what_was_not_may_not() -> None:
    schema = strict_schema(Order)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"items": [{"name": "a", "tags": None}], "note": None, "count": None})
    assert not validator.is_valid({"items": None, "note": None, "count": None})
    assert not validator.is_valid({"items": [], "note": None})
    assert not validator.is_valid({"items": [], "note": None, "count": 1, "more": 2})


@pytest.mark.parametrize(
    "optional", [{"enum": ["a"]}, {"const": 1}, {"anyOf": [{"type": "string"}]}, {"$ref": "#/$defs/x"}]
)
def test_every_kind_of_optional_field_becomes_nullable(optional: Any) -> None:
    schema = strict_schema(
        {"type": "object", "properties": {"a": optional}, "$defs": {"x": {"type": "string"}}}
    )
    assert jsonschema_rs.validator_for(schema).is_valid({"a": None})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": True},
        {
            "type": "object",
            "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        {"type": "object", "patternProperties": {"^a": {}}},
    ],
)
def test_an_open_object_cannot_be_made_strict(schema: Any) -> None:
    with pytest.raises(SchemaError, match="open object"):
        strict_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        (True, "", "root"),
        ({"type": "array"}, "", "root"),
        ({"type": "object", "properties": {"a/b~c": {}}}, "/properties/a~1b~0c", "a/b~c"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}, "/required", "unknown property 'b'"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}, "/required", "twice"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"],
          "$defs": {"x": {"type": "object", "properties": {"y": {}}}}}, "/$defs/x/properties/y", "'y'"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"properties": {"z": {}}}]}},
          "required": ["a"]}, "/properties/a/anyOf/1/properties/z", "'z'"),
        ({"type": "object", "properties": {"a": {"prefixItems": [{"additionalProperties": {}}]}}, "required": ["a"]},
         "/properties/a/prefixItems/0", "open object"),
    ],
)  # fmt: skip
def test_an_issue_names_its_place(schema: Any, pointer: str, words: str) -> None:
    first = strict_issues(schema)[0]
    assert first.pointer == pointer
    assert words in first.message


def test_closing_a_schema_leaves_what_may_be_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    closed = closed_schema(schema)
    assert closed["additionalProperties"] is False
    assert closed["properties"]["a"] == {
        "type": "object", "additionalProperties": False, "properties": {}, "required": [],
    }  # fmt: skip
    assert closed["required"] == ["a"]
    assert closed_schema({"type": "object", "additionalProperties": True})["additionalProperties"] is True
    assert "additionalProperties" not in schema


LEAVES = st.sampled_from([{"type": "string"}, {"type": ["integer", "null"]}, {"enum": [1, "a"]}, {}])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(
            lambda names, kinds, required: {
                "type": "object",
                "properties": dict(zip(names, kinds, strict=False)),
                "required": [name for name, _ in zip(names, kinds, strict=False) if name in required],
            },
            st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3),
            st.lists(inner, max_size=3),
            st.sets(st.sampled_from(["a", "b", "c"])),
        )
        | st.builds(lambda item: {"type": "array", "items": item}, inner)
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_every_schema_of_named_properties_can_be_made_strict(schema: Any) -> None:
    whole = {"type": "object", "properties": {"root": schema}}
    strict = strict_schema(whole)
    assert strict_issues(strict) == []
    assert is_strict_compatible(strict)
    assert strict_schema(strict) == strict


def test_a_list_of_required_properties_may_hold_anything():
    assert is_strict_compatible({"required": [1, {}], "additionalProperties": False})
    assert not is_strict_compatible(
        {"properties": {"a": {}}, "required": [{"a": 1}], "additionalProperties": False}
    )
