"""Cassettes in the editor: bad rows, secrets, doubles, unused rows; and the ways to and from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
VECTORS = Path(__file__).parents[2] / "interop" / "vectors" / "cassettes"


@pytest.fixture
def lines() -> list[str]:
    """A sound cassette: a header and rows."""
    return (VECTORS / "two-adapters.jsonl").read_text("utf-8").strip().split("\n")


def opened(client: Any, project: Any, lines: list[str], name: str = "cassettes/c.jsonl") -> str:
    project.write(name, "\n".join(lines) + "\n")
    uri = client.uri(name)
    item = {
        "uri": uri,
        "languageId": "jsonl",
        "version": 1,
        "text": "\n".join(lines) + "\n",
    }
    client.notify("textDocument/didOpen", {"textDocument": item})
    return uri


def found(client: Any, uri: str, version: int = 1) -> list[tuple[int, str, str]]:
    return [(d["range"]["start"]["line"], d["code"], d["message"]) for d in client.diagnostics(uri, version)]


def test_a_sound_cassette_has_no_findings(lsp: Start, project: Any, lines: list[str]) -> None:
    client = lsp(project.root)
    client.initialize()
    assert found(client, opened(client, project, lines)) == []


def test_every_bad_row_is_named_with_its_field(lsp: Start, project: Any, lines: list[str]) -> None:
    row = json.loads(lines[1])
    bad = [
        lines[0],
        json.dumps({**row, "model": 3}),
        lines[1][:-20],
        json.dumps({**row, "occurrence": 7, "events": row["events"][:-1]}),
        json.dumps([row]),
    ]
    client = lsp(project.root)
    client.initialize()
    seen = found(client, opened(client, project, bad))
    assert [(line, code) for line, code, _ in seen] == [
        (1, "cassette-row"),
        (2, "cassette-row"),
        (3, "cassette-row"),
        (4, "cassette-row"),
    ]
    assert seen[0][2].startswith("model: ")
    assert seen[1][2].startswith("not JSON: ")
    assert seen[2][2].startswith("events: expected exactly one terminal event")


def test_a_header_outside_the_window_and_a_double_row_are_found(
    lsp: Start, project: Any, lines: list[str]
) -> None:
    header = json.dumps({**json.loads(lines[0]), "hashVersion": 99})
    client = lsp(project.root)
    client.initialize()
    seen = found(client, opened(client, project, [header, lines[1], lines[1]]))
    assert [(line, code) for line, code, _ in seen] == [
        (0, "cassette-header"),
        (2, "cassette-duplicate"),
    ]
    assert "hashVersion 99 is outside the supported" in seen[0][2]
    assert "is recorded on line 2 too" in seen[1][2]


def test_a_credential_is_underlined_where_it_stands(lsp: Start, project: Any, lines: list[str]) -> None:
    secret = "sk-ant-" + "x1" * 20
    row = json.loads(lines[1])
    row["request"]["messages"][0]["parts"][0]["text"] = f"key {secret} here"
    line = json.dumps(row)
    client = lsp(project.root)
    client.initialize()
    uri = opened(client, project, [lines[0], line])
    (one,) = client.diagnostics(uri)
    assert one["code"] == "cassette-secret"
    start, end = one["range"]["start"]["character"], one["range"]["end"]["character"]
    assert secret in line[start:end]


def test_findings_follow_edits_of_the_cassette(lsp: Start, project: Any, lines: list[str]) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = opened(client, project, lines)
    assert found(client, uri) == []
    client.change(uri, 2, (1, 0, 1, 1, "<"))
    assert [code for _, code, _ in found(client, uri, 2)] == ["cassette-row"]
    client.change(uri, 3, (1, 0, 1, 1, "{"))
    assert found(client, uri, 3) == []


def test_other_jsonl_files_are_left_alone(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = opened(client, project, ['{"kind": "log"}', "nonsense"], "data.jsonl")
    client.settle(0.4)
    assert client.messages("textDocument/publishDiagnostics") == []
    assert client.request("textDocument/hover", client.at(uri, 1, 0)) is None


def test_rows_tell_which_tests_they_serve_and_which_are_left_over(
    lsp: Start, project: Any, lines: list[str]
) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = opened(client, project, lines[:3])
    use = {"path": "cassettes/c.jsonl", "rows": 2, "served": [2], "unused": [3]}
    call = project.call("hit", project.site(9), cassette="cassettes/c.jsonl", row=2)
    project.report(project.test(calls=[call], cassettes=[use]))
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: [d["code"] for d in p["diagnostics"]] == ["cassette-unused"],
    )
    lenses = client.request("textDocument/codeLens", client.doc(uri))
    assert [(x["range"]["start"]["line"], x["command"]["title"]) for x in lenses] == [
        (1, "served test_replay")
    ]
    assert lenses[0]["command"]["arguments"] == [{"path": str(project.root / "flow.py"), "line": 9}]
    params = {**client.at(uri, 1, 5), "context": {"includeDeclaration": False}}
    places = client.request("textDocument/references", params)
    assert [(p["uri"], p["range"]["start"]["line"]) for p in places] == [
        (client.uri("flow.py"), 8),
        (client.uri("test_flow.py"), 3),
    ]
    text = client.request("textDocument/hover", client.at(uri, 1, 5))["contents"]["value"]
    assert "flow.py:9" in text and "test_replay" in text


def test_a_string_that_names_a_cassette_leads_to_it(lsp: Start, project: Any) -> None:
    project.write(
        "test_flow.py",
        "TAPE = HERE / 'cassettes' / \"triage.jsonl\"\nOTHER = 'none.jsonl'\n",
    )
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")
    target = client.uri("cassettes/triage.jsonl")
    links = client.request("textDocument/documentLink", client.doc(uri))
    assert [(link["range"], link["target"]) for link in links] == [(client.range(0, 29, 0, 41), target)]
    place = client.request("textDocument/definition", client.at(uri, 0, 33))
    assert [p["uri"] for p in place] == [target]


def test_both_sides_of_a_miss_are_given_to_a_client_with_a_diff_view(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    sides = client.request("rulvar/nearest", {"uri": uri, "line": 10, "column": 10})
    assert sides == {
        "title": "row 3 (aabbcc) and miss 81b0d4",
        "recorded": "# messages[1].parts[0].text\nDraft a reply\n",
        "actual": "# messages[1].parts[0].text\nDraft an answer\n",
    }
    assert client.request("rulvar/nearest", {"uri": uri, "line": 8, "column": 30}) is None
