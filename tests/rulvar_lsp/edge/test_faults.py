"""Kinds of faults that language servers and their clients are known for, where no other file has them.

`tests/rulvar_lsp/test_fault_map.py` says which test stands for which kind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pygls.lsp.server import LanguageServer

from rulvar_lsp.edge.protocol import RulvarProtocol

Start = Callable[..., Any]
WF = """from datetime import datetime
from rulvar import workflow


@workflow(name="w")
async def w(ctx, args):
    now = datetime.now()
    return now
"""


@pytest.mark.parametrize(
    "place",
    [
        (2**40, 0, 2**40, 0),
        (0, 2**40, 0, 2**53),
        (-1, -5, -1, -5),
        (6, 4, 2**31, 2**31),
        (10**30, 0, 10**30, 0),
    ],
)
def test_a_change_at_a_place_that_does_not_exist_is_clamped(lsp: Start, place: Any) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF)
    client.change(uri, 2, (*place, "#"))
    client.diagnostics(uri, 2)
    client.change(uri, 3, WF)
    assert [d["code"] for d in client.diagnostics(uri, 3)] == ["RLV101"]


def test_numbers_that_the_protocol_does_not_know_are_passed_over(lsp: Start, pull_capabilities: Any) -> None:
    client = lsp()
    client.initialize(pull_capabilities)
    uri = client.open("a.py", WF)
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 99}]})
    client.notify("textDocument/didSave", {**client.doc(uri), "reason": 99})
    context = {"diagnostics": [], "triggerKind": 99, "only": ["no.such.kind"]}
    place = client.range(6, 10, 6, 10)
    assert (
        client.request("textDocument/codeAction", {**client.doc(uri), "range": place, "context": context})
        == []
    )
    position = {**client.at(uri, 6, 12), "workDoneToken": 2**70, "context": {"triggerKind": -3}}
    assert client.request("textDocument/hover", position) is not None


def test_a_file_that_is_renamed_takes_its_findings_along(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    client.initialize(push_capabilities)
    old, new = client.open("flow.py"), client.uri("renamed.py")
    assert client.diagnostics(old)
    (project.root / "flow.py").rename(project.root / "renamed.py")
    client.notify("textDocument/didClose", client.doc(old))
    client.open("renamed.py")
    client.notify(
        "workspace/didChangeWatchedFiles", {"changes": [{"uri": old, "type": 3}, {"uri": new, "type": 1}]}
    )
    assert {d["code"] for d in client.diagnostics(new)} == {"RLV101"}
    client.settle(1.5)
    assert client.diagnostics(old, None) == []


def test_nobody_need_read_what_the_server_says_on_standard_error() -> None:
    """More than a pipe holds is logged, and nothing is read of it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "rulvar_lsp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None and server.stderr is not None

    def send(message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]

    try:
        reader = threading.Thread(target=server.stdout.read, daemon=True)
        reader.start()
        send({"id": 1, "method": "initialize", "params": {"capabilities": {}}})
        send({"method": "initialized", "params": {}})
        for number in range(5000):
            send({"method": "textDocument/didChange", "params": number})
        send({"id": 2, "method": "shutdown"})
        send({"method": "exit"})
        assert server.wait(30) == 0
        reader.join()
    finally:
        server.kill()
        server.wait()
        for stream in (server.stdin, server.stdout, server.stderr):
            stream.close()


def test_each_folder_runs_its_tests_with_its_own_interpreter(
    lsp: Start, tmp_path: Path, push_capabilities: Any
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / "pyproject.toml").write_text("[project]\nname='x'\nversion='0'\n")
        (folder / "test_a.py").write_text("def test_a(): pass\n")
        python = folder / ".venv" / "bin" / "python"
        python.write_text("#!/bin/sh\necho I am of $(pwd)\nexit 3\n")
        python.chmod(0o755)
    client = lsp(tmp_path)
    client.request(
        "initialize",
        {
            "processId": None,
            "workspaceFolders": [{"uri": f.as_uri(), "name": f.name} for f in folders],
            "capabilities": push_capabilities,
            "initializationOptions": {"trusted": True, "settings": {"warmRunner": False}},
        },
    )
    client.notify("initialized")
    for folder in folders:
        argument = {"uri": (folder / "test_a.py").as_uri(), "test": "test_a"}
        result = client.request(
            "workspace/executeCommand", {"command": "rulvar.replayStrict", "arguments": [argument]}
        )
        assert f"I am of {folder}" in result["output"]


def test_a_module_of_the_workspace_does_not_stand_in_for_one_of_the_servers(tmp_path: Path) -> None:
    for name in ("json", "random", "asyncio", "msgspec", "libcst", "rulvar_lint"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)\n")
    command = Path(sys.executable).with_name("rulvar-lsp")
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
    done = subprocess.run(
        [command],
        input=b"Content-Length: %d\r\n\r\n" % len(body) + body,
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 1 and b'"serverInfo"' in done.stdout, done.stderr


@pytest.mark.parametrize("interpreter", ["/no/such/python", "/bin/false", sys.executable])
def test_every_progress_bar_that_is_opened_is_closed(lsp: Start, project: Any, interpreter: str) -> None:
    project.plug()
    client = lsp(project.root)
    client.initialize(trusted=True, settings={"interpreter": interpreter, "warmRunner": False})
    argument = {"uri": client.open("test_flow.py"), "test": "test_replay"}
    params = {"command": "rulvar.replayStrict", "arguments": [argument], "workDoneToken": "mine"}
    client.request("workspace/executeCommand", params, timeout=30)
    client.request("workspace/executeCommand", {**params, "workDoneToken": None}, timeout=30)
    kinds = [(m["token"], m["value"]["kind"]) for m in client.messages("$/progress")]
    assert {token for token, _ in kinds} >= {"mine"} and len({token for token, _ in kinds}) == 2
    for token in {token for token, _ in kinds}:
        own = [kind for other, kind in kinds if other == token]
        assert (own[0], own[-1], own.count("end")) == ("begin", "end", 1)
    assert client.request("rulvar/held")["bars"] == 0


def test_an_action_that_comes_back_without_its_data_is_given_back(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    client.diagnostics(client.open("flow.py"))
    action = {"title": "Fix all rulvar findings", "kind": "source.fixAll.rulvar"}
    assert client.request("codeAction/resolve", action) == action
    assert client.request("codeAction/resolve", {**action, "data": {"uri": None}}) == {
        **action,
        "data": {"uri": None},
    }


def test_an_error_of_a_handler_tells_the_client_nothing_of_this_machine() -> None:
    protocol: Any = LanguageServer("x", "1", protocol_cls=RulvarProtocol).protocol
    sent: list[Any] = []
    protocol.state = "initialized"
    protocol.write = sent.append

    def fail(params: object) -> None:
        raise RuntimeError(__file__)

    protocol.handlers["rulvar/tests"] = fail
    protocol.receive({"id": 1, "method": "rulvar/tests", "params": {}})
    assert sent[0]["error"] == {"code": -32603, "message": "rulvar/tests: internal error (RuntimeError)"}


@pytest.mark.parametrize(
    ("head", "encoding"), [("# -*- coding: latin-1 -*-\n", "latin-1"), ("\ufeff", "utf-8"), ("", "utf-8")]
)
def test_a_closed_file_is_read_by_its_own_encoding_and_with_its_own_line_breaks(
    lsp: Start, project: Any, push_capabilities: Any, head: str, encoding: str
) -> None:
    body = WF.replace("    now = datetime.now()", '    x = "é\x0c"; now = datetime.now()')
    (project.root / "flow.py").write_bytes((head + body).replace("\n", "\r\n").encode(encoding))
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    client.initialize(push_capabilities)
    found = client.diagnostics(client.uri("flow.py"), None)
    line = 6 + head.count("\n")
    assert [(d["code"], d["range"]["start"]) for d in found] == [("RLV101", {"line": line, "character": 20})]


def test_the_end_of_input_ends_a_server_that_is_at_work(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF * 4000)
    client.start("textDocument/hover", client.at(uri, 6, 12))
    time.sleep(0.2)
    client.process.stdin.close()
    assert client.process.wait(10) == 1


def test_a_notebook_whose_cells_are_moved_pasted_and_deleted_bothers_nobody(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    cells = [f"vscode-notebook-cell:Untitled-1.ipynb#C{n}" for n in range(3)]
    for cell in cells:
        item = {"uri": cell, "languageId": "python", "version": 1, "text": WF}
        client.notify("textDocument/didOpen", {"textDocument": item})
    book = {
        "notebookDocument": {"uri": "untitled:Untitled-1.ipynb", "version": 2},
        "change": {"cells": {"structure": {}}},
    }
    for _ in range(2):
        client.notify("notebookDocument/didChange", book)
        client.notify("textDocument/didClose", client.doc(cells[1]))
        client.change(cells[1], 2, (0, 0, 0, 0, "#"))
    again = {"uri": cells[1], "languageId": "python", "version": 1, "text": ""}
    client.notify("textDocument/didOpen", {"textDocument": again})
    assert client.request("textDocument/hover", client.at(cells[0], 6, 12)) is None
    assert client.messages("window/showMessage") == []
    assert not any(m["diagnostics"] for m in client.messages("textDocument/publishDiagnostics"))


def test_settings_that_change_are_asked_for_again(lsp: Start, project: Any, push_capabilities: Any) -> None:
    client = lsp(project.root)
    client.initialize(push_capabilities)
    uri = client.open("flow.py")
    assert client.diagnostics(uri)
    client.settings = {"diagnostics": False}
    client.seen.clear()
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert client.diagnostics(uri) == []


def test_the_server_takes_no_time_when_nothing_happens(lsp: Start, project: Any) -> None:
    """A server that spins after its work is done is the most complained about."""
    client = lsp(project.root)
    client.initialize()
    client.diagnostics(client.open("flow.py"))
    client.settle(2.0)

    def ticks() -> int:
        stat = Path(f"/proc/{client.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(stat[11]) + int(stat[12])

    before = ticks()
    client.settle(2.0)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") < 0.5
