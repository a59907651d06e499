"""The canonical form of schemas: what is inlined, dropped, kept as it is and refused."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.schema import canonical_schema
from rulvar.errors import SchemaError

INTEGER = {"type": "integer"}


def test_definitions_are_dropped_once_they_are_inlined() -> None:
    schema = {"definitions": {"n": {"type": "integer", "title": "N"}}, "items": {"$ref": "#/definitions/n"}}
    assert canonical_schema(schema) == {"items": INTEGER}


def test_what_a_reference_points_at_stands_behind_the_conjuncts_beside_it() -> None:
    schema = {"$defs": {"n": INTEGER}, "$ref": "#/$defs/n", "minimum": 3, "allOf": [{"maximum": 9}]}
    assert canonical_schema(schema) == {"minimum": 3, "allOf": [{"maximum": 9}, INTEGER]}


@pytest.mark.parametrize("keyword", ["additionalItems", "dependencies", "$recursiveRef", "x-own"])
def test_the_value_of_another_keyword_is_kept_as_it_is(keyword: str) -> None:
    schema = {keyword: {"title": "kept"}, "type": "array"}
    assert canonical_schema(schema) == schema


@pytest.mark.parametrize("keyword", ["properties", "patternProperties", "dependentSchemas"])
def test_an_array_of_schemas_that_should_have_names_has_its_indices_for_names(keyword: str) -> None:
    assert canonical_schema({keyword: [{"title": "gone"}, True]}) == {keyword: {"0": {}, "1": True}}


@pytest.mark.parametrize("keyword", ["items", "not"])
def test_an_array_in_the_place_of_a_schema_is_one_with_keywords_that_nobody_knows(keyword: str) -> None:
    assert canonical_schema({keyword: [{"title": "kept"}, True]}) == {
        keyword: {"0": {"title": "kept"}, "1": True}
    }


def test_of_two_anchors_of_one_name_the_first_one_counts() -> None:
    anchors = [{"$anchor": "a", "const": 1}, {"$anchor": "a", "const": 2}]
    assert canonical_schema({"$defs": {"x": anchors[0], "y": anchors[1]}, "not": {"$ref": "#a"}}) == {
        "not": {"const": 1}
    }
    assert canonical_schema({"anyOf": anchors, "not": {"$ref": "#a"}})["not"] == {"const": 1}


def test_a_pointer_is_read_as_it_is_written() -> None:
    schema = {"$defs": {"a%20b": INTEGER}, "not": {"$ref": "#/$defs/a%20b"}}
    assert canonical_schema(schema) == {"not": INTEGER}


@pytest.mark.parametrize("target", ["abc", 5, None, 1.5])
def test_a_reference_to_what_is_no_schema_is_refused(target: Any) -> None:
    with pytest.raises(SchemaError, match=r"#/\$defs/n points at .*, which is no schema"):
        canonical_schema({"$defs": {"n": target}, "items": {"$ref": "#/$defs/n"}})


@pytest.mark.parametrize(("token", "index"), [("0", 0), ("01", 1), ("", 0)])
def test_a_pointer_into_an_array_takes_a_number(token: str, index: int) -> None:
    schema = {"anyOf": [{"type": "null"}, INTEGER], "not": {"$ref": f"#/anyOf/{token}"}}
    assert canonical_schema(schema)["not"] == schema["anyOf"][index]


@pytest.mark.parametrize("token", ["2", "-1", "\u00b2", "x", "9" * 5000])
def test_a_pointer_past_the_end_of_an_array_is_refused(token: str) -> None:
    with pytest.raises(SchemaError, match="points at nothing"):
        canonical_schema({"anyOf": [{}, {}], "not": {"$ref": f"#/anyOf/{token}"}})


@pytest.mark.parametrize("wrong", [None, "string", 5, 1.5])
def test_what_is_neither_an_object_nor_a_boolean_is_no_schema(wrong: Any) -> None:
    with pytest.raises(SchemaError, match="expected an object or a boolean"):
        canonical_schema(wrong)
