"""Documents and requests as no editor should send them, and some do: everything is answered, nothing dies."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
WF = """from datetime import datetime
from rulvar import workflow


@workflow(name="w")
async def w(ctx, args):
    return datetime.now()
"""
URIS = (
    "git:/a/flow.py?ref",
    "vscode-notebook-cell:/a/b.ipynb#c1",
    "untitled:Untitled-1",
    "file:///C%3A/x/flow.py",
    "file:///c:/x/flow.py",
    "",
    "no uri",
    "file:",
    "file://",
    "file://server/share/flow.py",
    "FILE:///tmp/q.py",
    "file:///tmp/%00.py",
    "file:///tmp/a%20b(1)%23.py?x#y",
    "file:///tmp/%ff%fe.py",
    "http://host/y.py",
    "file:///" + "a" * 5000 + ".py",
)
REQUESTS = (
    "textDocument/hover",
    "textDocument/definition",
    "textDocument/references",
    "textDocument/inlayHint",
    "textDocument/codeLens",
    "textDocument/codeAction",
    "textDocument/documentLink",
    "textDocument/documentSymbol",
    "textDocument/diagnostic",
    "rulvar/tests",
    "rulvar/nearest",
    "rulvar/recordedBy",
)


def params(client: Any, uri: str) -> dict[str, Any]:
    """What any request about a document may hold."""
    return {
        **client.at(uri, 6, 12),
        "uri": uri,
        "line": 6,
        "column": 12,
        "range": client.range(0, 0, 9, 0),
        "context": {"diagnostics": [], "includeDeclaration": True},
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: Any, lsp_class: Any) -> Any:
    root = tmp_path_factory.mktemp("odd")
    client = lsp_class(root, root / "server.log")
    client.initialize()
    yield client
    assert "Traceback" not in client.log.read_text()
    client.kill()


@pytest.mark.parametrize("uri", URIS, ids=lambda uri: uri[:30] or "empty")
def test_every_request_about_any_uri_is_answered(shared: Any, uri: str) -> None:
    item = {"uri": uri, "languageId": "python", "version": 1, "text": WF}
    shared.notify("textDocument/didOpen", {"textDocument": item})
    for method in REQUESTS:
        shared.request(method, params(shared, uri))
    shared.change(uri, 2, (0, 0, 0, 0, "\n"))
    shared.notify("textDocument/didClose", shared.doc(uri))
    assert shared.request("textDocument/hover", shared.at(uri, 6, 12)) is None


@pytest.mark.parametrize(
    "method", [*REQUESTS, "inlayHint/resolve", "codeAction/resolve", "workspace/executeCommand"]
)
@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        [],
        "text",
        5,
        {"textDocument": 5},
        {"textDocument": {"uri": 5}},
        {"data": {"uri": 5}},
        {"command": 5},
    ],
    ids=json.dumps,
)
def test_every_request_with_any_params_is_answered(shared: Any, method: str, given: Any) -> None:
    key = f"{method} {given}"
    shared.send({"jsonrpc": "2.0", "id": key, "method": method, "params": given})
    answer = shared.answer(key)
    assert "result" in answer or answer["error"]["code"] in (-32602, -32600)


@pytest.mark.parametrize(
    "argument",
    [
        {"command": "rulvar.openFile", "arguments": [{"path": "/x\0"}]},
        {"command": "rulvar.showDiagram", "arguments": [{"uri": "file:///a.py", "machine": "../../x"}]},
        {"command": "rulvar.showResult", "arguments": [{"uri": "untitled:1"}]},
        {"command": "rulvar.replayStrict", "arguments": [["a"]]},
        {"command": "rulvar.replayStrict", "arguments": "text"},
        {"command": "rulvar.record", "arguments": [{"path": "relative", "test": "t"}]},
        {"command": "rulvar.cancelRun", "arguments": [None]},
        {"command": "no.such", "arguments": []},
    ],
    ids=lambda argument: argument["command"],
)
def test_every_command_with_any_argument_is_answered(shared: Any, argument: Any) -> None:
    answer = shared.answer(shared.start("workspace/executeCommand", argument))
    assert "result" in answer or answer["error"]["message"]


def test_notebooks_are_declined_cleanly(shared: Any) -> None:
    cell = "vscode-notebook-cell:/a/n.ipynb#W0"
    book = {"uri": "file:///a/n.ipynb", "notebookType": "jupyter-notebook", "version": 1, "cells": []}
    text = {"uri": cell, "languageId": "python", "version": 1, "text": WF}
    shared.notify("notebookDocument/didOpen", {"notebookDocument": book, "cellTextDocuments": [text]})
    shared.notify("textDocument/didOpen", {"textDocument": text})
    for _ in range(2):
        shared.notify("textDocument/didClose", shared.doc(cell))
        shared.notify(
            "notebookDocument/didClose", {"notebookDocument": {"uri": book["uri"]}, "cellTextDocuments": []}
        )
    shared.settle(0.3)
    assert not [
        m for m in shared.messages("textDocument/publishDiagnostics") if m["uri"] == cell and m["diagnostics"]
    ]


def test_documents_opened_twice_closed_twice_and_with_versions_that_go_back(shared: Any) -> None:
    uri = shared.open("twice.py", WF)
    shared.open("twice.py", WF + "\n", version=5)
    assert [d["code"] for d in shared.diagnostics(uri, 5)] == ["RLV101"]
    shared.change(uri, 3, WF + "#")
    shared.change(uri, 2, WF)
    assert [d["code"] for d in shared.diagnostics(uri, 2)] == ["RLV101"]
    for version in (None, -1):
        shared.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": WF}]},
        )
    shared.notify(
        "textDocument/didChange", {"textDocument": {"uri": uri, "version": 9}, "contentChanges": []}
    )
    assert [d["code"] for d in shared.diagnostics(uri, 9)] == ["RLV101"]
    for _ in range(2):
        shared.notify("textDocument/didClose", shared.doc(uri))
    shared.notify("textDocument/didSave", shared.doc(uri))
    assert shared.request("textDocument/hover", shared.at(uri, 6, 12)) is None


def test_a_cassette_that_is_rewritten_while_it_is_read_is_survived(lsp: Start, tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(Path(__file__).parents[2] / "e2e" / "editors" / "project", root)
    cassette = root / "cassettes" / "triage.jsonl"
    whole = cassette.read_bytes()
    client = lsp(root)
    client.initialize()
    uri, tape = client.open("static.py"), client.open("cassettes/triage.jsonl")
    stop = threading.Event()

    def rewrite() -> None:
        for number in range(10_000):
            if stop.is_set():
                break
            cassette.write_bytes(whole[: number * 37 % len(whole)])
            if number % 5 == 0:
                cassette.unlink()
            time.sleep(0.005)
        cassette.write_bytes(whole)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for line in range(60):
            for hint in client.hints(uri):
                client.request("inlayHint/resolve", hint)
            client.request("textDocument/hover", client.at(uri, 5, 30))
            client.request("textDocument/hover", client.at(tape, line % 3, 1))
            client.request("textDocument/documentLink", client.doc(uri))
    finally:
        stop.set()
        writer.join()
    end = time.monotonic() + 30  # a busy machine looks late
    while [h["label"] for h in client.hints(uri)] != ["will hit row 2", "will miss"]:
        assert time.monotonic() < end
        client.settle(0.2)
    assert "Traceback" not in client.log.read_text()


def test_two_servers_work_on_one_project(lsp: Start, project: Any) -> None:
    project.report(project.test())
    first, second = lsp(project.root), lsp(project.root)
    for client in (first, second):
        client.initialize()
        client.open("flow.py")
    for client in (first, second):
        assert len(client.hints(client.uri("flow.py"))) == 2
    first.seen.clear()
    second.seen.clear()
    project.report(project.test(calls=[]), name="later")
    for client in (first, second):
        client.wait("workspace/inlayHint/refresh")
        assert client.hints(client.uri("flow.py")) == []
