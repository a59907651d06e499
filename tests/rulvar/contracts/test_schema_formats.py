"""Formats of texts: which are held, how strictly, and where they are only said."""

from __future__ import annotations

import datetime
from typing import Annotated

import msgspec
import pydantic
import pytest

from rulvar.contracts.schema import SchemaContract, schema_contract
from rulvar.contracts.schema_formats import FORMATS

DATE_TIME = {"type": "string", "format": "date-time"}

TEXTS: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2024-02-29", "0000-02-29"], ["2023-02-29", "1900-02-29", "2024-13-01", "2024-1-1", "2024-01-01\n"]),
    "time": (["12:00:00", "12:00:00.5+05:30", "23:59:60Z"], ["12:00", "24:00:00", "12:59:60"]),
    "date-time": (
        ["2024-01-01T12:00:00Z", "2024-01-01 12:00:00.25-08:00", "2024-01-01t12:00:00z"],
        ["2024-01-01T12:00:00", "2024-01-01", "2024-13-40T99:00:00Z", "2024-01-01_12:00:00Z"],
    ),
    "duration": (["P1Y2M3DT4H5M6S", "P2W", "PT0.5S", "PT1,5H"], ["P", "PT", "P1DT", "P1.5DT1S", "1D", "P1W1D"]),
    "email": (["a.b+c@example.com", "a@localhost"], ["a", "a@", "@b", "a..b@c", "a@b@c", '"a"@b', "a@-b.c", "a@b."]),
    "hostname": (["example.com", "a.", "A-1"], ["-a", "a-", "a..b", "", "a_b", "a" * 64]),
    "ipv4": (["127.0.0.1", "01.002.3.4"], ["256.0.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.\u0664"]),
    "ipv6": (
        ["::", "::1", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4"],
        [":::", "1::2::3", "1:2:3", "fe80::1%eth0", "::ffff:01.2.3.4", "1.2.3.4::", "12345::", ""],
    ),
    "uri": (
        ["https://example.com/a?b#c", "mailto:a@example.com", "http://u@[::1]:80/", "urn:x:y", "x:/"],
        ["example.com", "/a", "x:", "x:?q", "http://a b", "http://%zz", "http://[::1", "http://a#b#c", "http://\u00e9"],
    ),
    "uri-reference": (["", "../a", "?q", "#f", "//[::1]/a", 'a"b', "https://example.com"], ["a b", "%", "[::1]", "<a>"]),
    "uri-template": (["https://a/{b}/{?c*,d:3}", "plain"], ["{", "{}", "{a b}", "{a:0}", "%4", "<a>"]),
    "url": (
        ["https://example.com", "ftp://u:p@example.com:8080/a?b", "http://8.8.8.8", "http://\u4f8b.\u6d4b\u8bd5/"],
        ["example.com", "http://localhost", "http://127.0.0.1", "http://10.0.0.1/", "http://a--b.com", "http://a.com?b"],
    ),
    "uuid": (
        ["123e4567-e89b-12d3-a456-426614174000", "urn:uuid:123E4567-E89B-12D3-A456-426614174000"],
        ["123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}", "nope"],
    ),
    "regex": (["^a+$", "(?<n>a)\\k<n>", "\\p{L}"], ["(", "a\\Z", "(?P<n>a)", "[z-a]"]),
    "json-pointer": (["", "/a/0", "/a~0~1"], ["a", "/~", "/~2"]),
    "json-pointer-uri-fragment": (["#", "#/a%20b"], ["", "/a", "#/%2", "#/\u00e9"]),
    "relative-json-pointer": (["0", "1#", "10/a"], ["", "01", "#", "-1", "1/~"]),
}  # fmt: skip


def test_every_format_of_the_table_has_texts_here() -> None:
    assert {*TEXTS} == {*FORMATS, "regex"}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, (fit, _) in TEXTS.items() for text in fit])
def test_a_text_of_a_format_fits(name: str, text: str) -> None:
    assert SchemaContract({"format": name}).issues(text) == []


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (_, not_) in TEXTS.items() for text in not_]
)
def test_a_text_that_is_not_of_its_format_is_refused_by_name(name: str, text: str) -> None:
    (issue,) = SchemaContract({"format": name}).issues(text)
    assert issue.message.endswith(f'is not a "{name}"')


def test_an_issue_tells_the_path_of_the_text_and_shows_it_only_where_it_may() -> None:
    schema = {"properties": {"guests": {"items": {"properties": {"mail": {"format": "email"}}}}}}
    value = {"guests": [{"mail": "a@example.com"}, {"mail": "private"}]}
    contract = SchemaContract(schema)
    (issue,) = contract.issues(value)
    assert issue.path == ("guests", 1, "mail")
    assert "private" in issue.message
    (masked,) = contract.issues(value, hides_values=True)
    assert (masked.path, masked.message) == (issue.path, 'the value is not a "email"')


@pytest.mark.parametrize(
    "name", ["idn-email", "idn-hostname", "iri", "iri-reference", "color", "binary", "x-own"]
)
def test_a_format_that_nobody_asserts_refuses_nothing(name: str) -> None:
    assert SchemaContract({"format": name}).issues("( \u0001") == []


def test_a_format_is_for_texts_only() -> None:
    assert SchemaContract({"format": "email"}).issues([5, None]) == []


@pytest.mark.parametrize("draft", ["draft-04/schema#", "draft-07/schema#"])
def test_an_older_draft_is_held_to_the_same_formats(draft: str) -> None:
    contract = SchemaContract({"$schema": f"http://json-schema.org/{draft}", "format": "duration"})
    assert contract.issues("soon")


def test_a_type_says_itself_which_texts_it_takes() -> None:
    class Meeting(pydantic.BaseModel):
        at: datetime.datetime

    naive = {"at": "2024-01-01T12:00:00"}
    contract = schema_contract(Meeting)
    assert contract.json["properties"]["at"]["format"] == "date-time"
    assert contract.issues(naive) == []
    assert contract.issues({"at": "soon"})
    assert (
        schema_contract(Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})]).issues("no")
        == []
    )
    assert schema_contract({"properties": {"at": DATE_TIME}}).issues(naive)


def test_a_recorded_schema_can_be_read_without_holding_its_formats() -> None:
    assert schema_contract(DATE_TIME, asserts_formats=False).issues("soon") == []
