"""Rules for recorded cassettes: RLV501-RLV503 and RLV505."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rulvar_lint import Config, Diagnostic

Check = Callable[..., list[Diagnostic]]
PATH = "tests/cassettes/flow.jsonl"
HEADER = {
    "v": 1,
    "kind": "rulvar-vcr",
    "hashVersion": 2,
    "recordedAt": "2026-05-04T10:00:00.000Z",
}


def row(text: str = "ok", *, occurrence: int = 0, hash_: str = "aa", **more: Any) -> dict[str, Any]:
    events = [{"type": "text-delta", "text": text}, {"type": "finish"}]
    base = {
        "adapterId": "anthropic",
        "requestHash": hash_,
        "occurrence": occurrence,
        "model": "m",
        "request": {"messages": []},
        "caps": {},
        "events": events,
    }
    return {**base, **more}


def cassette(*rows: Any, header: Any = HEADER) -> str:
    return "".join(json.dumps(line) + "\n" for line in (header, *rows))


def found(check: Check, text: str, path: str = PATH) -> list[tuple[int, str]]:
    return [(item.line, item.code) for item in check({path: text})]


SECRETS = [
    "sk-ant-api03-Zx9Zx9Zx9Zx9Zx9Zx9Zx9Zx9",
    "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz9182736450ABCDEFG",
    "AKIAIOSFODNN7QRSTUVW",
    "AKIAIOSFODNN7EXAMPLE",
    "sk_live_abcdefghijklmnopqrstuvwx",
    "Bearer 1234567890abcdef1234567890abcdef",
    "x-api-key: 9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "xoxb-123456789012-abcdefGHIJKL",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqb2UifQ.c2lnbmF0dXJlMTIz",
    "Bearer A1b2C3d4E5f6G7h8I9j0",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "sk-abcdefghijklmnopqrstuvwxyzabcdef",
    "xapp-1-A0123-456-abcdef0123456789",
    "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
]
HARMLESS = [
    "[REDACTED]",
    "Bearer [REDACTED]",
    "desk-booking and task-list are skills",
    "a risk-based ask-me-anything",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-your-key-here",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "550e8400-e29b-41d4-a716-446655440000",
    "the bearer of this letter",
    "Authorization is required",
    "token budget: 4000 tokens",
    "AKIAXXXXXXXXXXXXXXXX",
    "x-api-key: your-key-goes-here-1234",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_a_row_is_reported_with_its_field(secret: str, check: Check) -> None:
    text = cassette(row(), row(f"use {secret} now", occurrence=1))
    items = check({PATH: text})
    assert [(item.line, item.code) for item in items] == [(3, "RLV501")]
    assert secret.split()[-1] not in items[0].message
    line = text.splitlines()[2]
    assert line[items[0].column - 1 : items[0].end_column - 1] in line


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_is_not_reported(text: str, check: Check) -> None:
    assert found(check, cassette(row(text))) == []


@pytest.mark.parametrize(
    "header",
    [
        {**HEADER, "kind": "vcr"},
        {key: value for key, value in HEADER.items() if key != "kind"},
        {key: value for key, value in HEADER.items() if key != "v"},
        {key: value for key, value in HEADER.items() if key != "hashVersion"},
        {key: value for key, value in HEADER.items() if key != "recordedAt"},
        [1, 2],
        "text",
        None,
    ],
)
def test_a_header_that_lacks_a_field_is_reported(header: Any, check: Check) -> None:
    assert found(check, cassette(row(), header=header)) == [(1, "RLV502")]


@pytest.mark.parametrize("text", ["", "\n", "not json\n", "{\n", "\x00\n"])
def test_an_empty_or_broken_first_line_is_no_header(text: str, check: Check) -> None:
    assert found(check, text) == [(1, "RLV502")]


@pytest.mark.parametrize(
    ("version", "expected"), [(2, []), (1, []), (0, [(1, "RLV503")]), (3, [(1, "RLV503")])]
)
def test_the_hash_version_must_be_the_current_or_the_last_one(
    version: int, expected: list[tuple[int, str]], check: Check
) -> None:
    assert found(check, cassette(row(), header={**HEADER, "hashVersion": version})) == expected


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "text-delta", "text": "x"}],
        [{"type": "finish"}, {"type": "finish"}],
        [{"type": "finish"}, {"type": "error"}],
        "none",
    ],
)
def test_a_row_needs_exactly_one_terminal_event(events: Any, check: Check) -> None:
    assert found(check, cassette(row(), row(occurrence=1, events=events))) == [(3, "RLV505")]


def test_an_occurrence_is_numbered_once_per_adapter_and_hash(check: Check) -> None:
    rows = [row(), row(), row(hash_="bb"), row(adapterId="openai"), row(occurrence=7)]
    assert found(check, cassette(*rows)) == [(3, "RLV505")]


@pytest.mark.parametrize("line", ["{", "[]", "null", "12"])
def test_a_line_that_is_no_row_is_reported(line: str, check: Check) -> None:
    assert found(check, cassette(row()) + line + "\n") == [(3, "RLV505")]


def test_files_outside_the_cassette_globs_are_left_alone(check: Check) -> None:
    bad = cassette(row(SECRETS[0]))
    assert found(check, bad, "data/flow.jsonl") == []
    assert found(check, bad, "deep/tests/cassettes/x/flow.jsonl") == [(2, "RLV501")]
    assert found(check, bad, "data/flow.cassette.jsonl") == [(2, "RLV501")]


def test_the_configuration_says_which_files_are_cassettes(check: Check) -> None:
    config = Config(cassettes=("recorded/*.jsonl",))
    bad = cassette(row(SECRETS[0]))
    assert [d.code for d in check({"recorded/a.jsonl": bad, PATH: bad}, config)] == ["RLV501"]


def test_a_long_cassette_is_checked_in_one_go(check: Check) -> None:
    rows = [row("word " * 200, hash_=str(number)) for number in range(2000)]
    assert found(check, cassette(*rows, row(SECRETS[3], hash_="last"))) == [(2002, "RLV501")]
