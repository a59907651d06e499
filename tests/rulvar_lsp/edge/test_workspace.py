"""The workspace as a whole: closed files, folders that come and go, settings and configuration that change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar_lsp.edge.session import Session

Start = Callable[..., Any]
PREVIOUS = "previousResultIds"


def reports(answer: Any) -> dict[str, list[str] | str]:
    """Codes by file name, or that a file is unchanged."""
    return {
        item["uri"].rpartition("/")[2]: [d["code"] for d in item["items"]]
        if item["kind"] == "full"
        else "unchanged"
        for item in answer["items"]
    }


def known(answer: Any) -> list[dict[str, str]]:
    return [{"uri": i["uri"], "value": i["resultId"]} for i in answer["items"] if i.get("resultId")]


@pytest.fixture
def pulling(lsp: Start, project: Any, pull_capabilities: Any) -> Any:
    """A pulling client that wants to know of closed files."""
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    offered = client.initialize(pull_capabilities)
    assert offered["capabilities"]["diagnosticProvider"]["workspaceDiagnostics"] is True
    return client


def test_closed_files_are_pulled_and_held_back_until_there_is_news(pulling: Any, project: Any) -> None:
    first = pulling.request("workspace/diagnostic", {PREVIOUS: []})
    assert reports(first) == {"flow.py": ["RLV101"]}
    assert pulling.messages("textDocument/publishDiagnostics") == []
    held = pulling.start("workspace/diagnostic", {PREVIOUS: known(first)})
    pulling.settle(1.5)
    project.write("more.py", (project.root / "flow.py").read_text())
    changed = {"changes": [{"uri": pulling.uri("more.py"), "type": 1}]}
    pulling.notify("workspace/didChangeWatchedFiles", changed)
    second = pulling.answer(held)["result"]
    assert reports(second) == {"flow.py": "unchanged", "more.py": ["RLV101"]}
    (project.root / "more.py").unlink()
    changed["changes"][0]["type"] = 3
    pulling.notify("workspace/didChangeWatchedFiles", changed)
    third = pulling.request("workspace/diagnostic", {PREVIOUS: known(first) + known(second)[-1:]})
    assert reports(third) == {"flow.py": "unchanged", "more.py": []}


def test_an_open_file_is_pulled_by_itself(pulling: Any, project: Any) -> None:
    first = pulling.request("workspace/diagnostic", {PREVIOUS: []})
    uri = pulling.open("flow.py")
    own = pulling.request("textDocument/diagnostic", pulling.doc(uri))
    assert [d["code"] for d in own["items"]] == ["RLV101"]
    held = pulling.start("workspace/diagnostic", {PREVIOUS: [{"uri": uri, "value": own["resultId"]}]})
    pulling.settle(1.5)
    pulling.notify("$/cancelRequest", {"id": held})
    assert pulling.answer(held)["error"]["code"] == -32800
    assert first["items"]


def test_where_it_is_off_the_request_is_held_and_ends_with_the_server(
    lsp: Start, project: Any, pull_capabilities: Any
) -> None:
    client = lsp(project.root)
    client.initialize(pull_capabilities)
    client.start("workspace/diagnostic", {PREVIOUS: []})
    client.settle(1.5)
    assert client.stop() == 0


def test_findings_of_a_file_that_was_deleted_or_whose_folder_has_left_are_taken_back(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    client.initialize(push_capabilities)
    other = project.write("other.py", (project.root / "flow.py").read_text())
    assert client.diagnostics(client.uri("flow.py"), None)
    changed = {"changes": [{"uri": other.as_uri(), "type": 1}]}
    client.notify("workspace/didChangeWatchedFiles", changed)
    assert client.diagnostics(other.as_uri(), None)
    client.seen.clear()
    other.unlink()
    client.notify("workspace/didChangeWatchedFiles", changed)
    assert client.diagnostics(other.as_uri(), None) == []
    client.seen.clear()
    left = {"added": [], "removed": [{"uri": project.root.as_uri(), "name": "p"}]}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": left})
    assert client.diagnostics(client.uri("flow.py"), None) == []


def test_a_folder_that_is_added_brings_its_configuration_and_settings(
    lsp: Start, project: Any, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "flow.py").write_text((project.root / "flow.py").read_text())
    client = lsp(project.root)
    client.initialize()
    uri = (second / "flow.py").as_uri()
    item = {"uri": uri, "languageId": "python", "version": 1, "text": (second / "flow.py").read_text()}
    client.notify("textDocument/didOpen", {"textDocument": item})
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101"]
    (second / "pyproject.toml").write_text('[tool.rulvar.lint]\nignore = ["RLV101"]\n')
    client.seen.clear()
    added = {"added": [{"uri": second.as_uri(), "name": "second"}], "removed": []}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": added})
    assert client.diagnostics(uri) == []
    assert {i.get("scopeUri") for i in client.wait("workspace/configuration")["items"]} >= {second.as_uri()}


def test_a_client_that_cannot_be_told_to_pull_again_is_pushed(
    lsp: Start, project: Any, pull_capabilities: Any
) -> None:
    capabilities = {**pull_capabilities, "workspace": {**pull_capabilities["workspace"], "diagnostics": {}}}
    client = lsp(project.root)
    offered = client.initialize(capabilities)["capabilities"]
    assert offered.get("diagnosticProvider") is None
    assert [d["code"] for d in client.diagnostics(client.open("flow.py"))] == ["RLV101"]


def test_every_state_of_the_configuration_is_survived(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101"]
    target = client.uri("pyproject.toml")
    for body in (
        b"[tool.rulvar.lint",
        b"[tool.rulvar.lint]\nignore = 5\n",
        b"\xff\xfe",
    ):
        (project.root / "pyproject.toml").write_bytes(body)
        client.seen.clear()
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": target, "type": 2}]})
        (fault,) = client.diagnostics(target, None)
        assert fault["message"], body
    (project.root / "pyproject.toml").unlink()
    client.seen.clear()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": target, "type": 3}]})
    client.wait("textDocument/publishDiagnostics", lambda p: p["uri"] == target and not p["diagnostics"])
    client.wait("textDocument/publishDiagnostics", lambda p: p["uri"] == uri and len(p["diagnostics"]) == 1)


def test_a_file_that_vanishes_while_it_is_open_is_looked_at_all_the_same(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    (project.root / "flow.py").unlink()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 3}]})
    time.sleep(0.3)
    client.change(uri, 2, (0, 0, 0, 0, "\n"))
    assert [d["code"] for d in client.diagnostics(uri, 2)] == ["RLV101"]


def test_a_text_that_is_too_large_says_that_it_is_not_looked_at(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("huge.py", "x = 1\n" * 1_000_000)
    (found,) = client.diagnostics(uri)
    assert (found["code"], found["severity"]) == ("too-large", 3)
    assert client.request("textDocument/hover", client.at(uri, 0, 0)) is None


def test_an_unsaved_text_moves_with_its_file_into_another_project(
    lsp: Start, tmp_path: Path, push_capabilities: Any
) -> None:
    """A folder that is added within a folder is the root of its files from then on."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "flow.py").write_text("x = 1\n")
    client = lsp(outer)
    client.initialize(push_capabilities)
    text = (
        "from datetime import datetime\nfrom rulvar import workflow\n\n\n"
        '@workflow(name="w")\nasync def w(ctx, args):\n    return datetime.now()\n'
    )
    item = {"uri": (inner / "flow.py").as_uri(), "languageId": "python", "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": item})
    assert [d["code"] for d in client.diagnostics(item["uri"])] == ["RLV101"]
    client.seen.clear()
    added = {"added": [{"uri": inner.as_uri(), "name": "inner"}], "removed": []}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": added})
    client.settle(1.0)
    assert [d["code"] for d in client.diagnostics(item["uri"])] == ["RLV101"]


def test_a_pipe_in_place_of_a_file_does_not_hold_the_server_up(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    (project.root / ".rulvar_cache" / "reports").mkdir(parents=True)
    for name in ("pipe.py", "test_pipe.py", "cassettes/pipe.jsonl", ".rulvar_cache/reports/pipe.json"):
        os.mkfifo(project.root / name)
    project.write("test_flow.py", "CASSETTE = 'pipe.jsonl'\nimport flow\n")
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    client.initialize(push_capabilities)
    piped = client.open("pipe.py", "x = 1\n")
    assert client.diagnostics(piped) == []
    uri = client.open("flow.py")
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101"]
    assert client.hints(uri) == []
    fault = client.diagnostics(client.uri(".rulvar_cache/reports/pipe.json"), None)
    assert "not a file" in fault[0]["message"]


def test_a_drive_of_another_system_is_no_folder_of_this_one(lsp: Start, project: Any) -> None:
    """The server's own working directory has a project, which a file without a place here does not belong to."""
    session = Session()
    assert session.root_of("c:/x/flow.py") == "c:/x"
