"""The canonical form of a JSON Schema: what of it takes part in a hash."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar.contracts.schema import canonical_schema
from rulvar.errors import SchemaError
from rulvar.kernel.keys import schema_hash

WHOLE = {"type": "integer", "title": "A whole number"}


@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
def test_references_are_inlined_and_what_they_point_into_is_dropped(keyword: str) -> None:
    schema = {keyword: {"n": WHOLE, "unused": {}}, "items": {"$ref": f"#/{keyword}/n"}}
    assert canonical_schema(schema) == {"items": {"type": "integer"}}
    assert schema_hash(schema) == schema_hash({"items": {"type": "integer"}})


def test_a_property_may_be_named_like_a_keyword_that_is_dropped() -> None:
    schema = {"properties": {"definitions": {"type": "string"}, "$defs": WHOLE}}
    assert canonical_schema(schema) == {
        "properties": {"definitions": {"type": "string"}, "$defs": {"type": "integer"}}
    }


def test_what_stands_beside_a_reference_comes_before_it() -> None:
    node = {"$ref": "#/definitions/n", "allOf": [{"minimum": 2}, {"maximum": 9}], "title": "gone"}
    schema = {"definitions": {"n": WHOLE}, "not": node}
    assert canonical_schema(schema) == {
        "not": {"allOf": [{"minimum": 2}, {"maximum": 9}, {"type": "integer"}]}
    }


def test_the_first_of_two_anchors_of_one_name_is_meant() -> None:
    schema = {
        "$defs": {"a": {"items": {"$anchor": "here", "minimum": 1}}, "b": {"$anchor": "here", "minimum": 2}},
        "contains": {"$ref": "#here"},
    }
    assert canonical_schema(schema) == {"contains": {"minimum": 1}}


def test_a_list_where_schemas_are_named_is_read_by_index() -> None:
    assert canonical_schema({"properties": [WHOLE, None, 3]}) == {
        "properties": {"0": {"type": "integer"}, "1": None, "2": 3}
    }
    assert canonical_schema({"items": [WHOLE]}) == {"items": {"0": WHOLE}}


@pytest.mark.parametrize("keyword", ["additionalItems", "dependencies", "$recursiveRef", "x-extra"])
def test_a_keyword_that_holds_no_schema_in_this_draft_is_kept_as_it_is(keyword: str) -> None:
    assert canonical_schema({keyword: WHOLE}) == {keyword: WHOLE}


@pytest.mark.parametrize(
    ("token", "found"), [("0", {"type": "null"}), ("01", {"minimum": 4}), ("", {"type": "null"})]
)
def test_a_pointer_into_a_list_takes_a_number(token: str, found: Any) -> None:
    schema = {"anyOf": [{"type": "null"}, {"minimum": 4}], "not": {"$ref": f"#/anyOf/{token}"}}
    assert canonical_schema(schema)["not"] == found


@pytest.mark.parametrize(
    "ref",
    [
        "#/$defs/text", "#/$defs/number", "#/$defs/nothing", "#/$defs/a%20b", "#/anyOf/2", "#/anyOf/-1",
        "#/anyOf/\u00b2", "#/anyOf/x", "other.json#/$defs/ok", "", "ok",
    ],
)  # fmt: skip
def test_a_reference_to_what_is_no_schema_of_this_document_is_refused(ref: str) -> None:
    defs = {"text": "abc", "number": 5, "nothing": None, "a b": {}, "ok": {}}
    with pytest.raises(SchemaError):
        canonical_schema({"$defs": defs, "anyOf": [{}, True], "items": {"$ref": ref}})
