"""The protocol, against a real server: what a library or a client gets wrong must not hurt us."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from rulvar_lsp.edge.server import RulvarServer
from rulvar_lsp.edge.transport import Inbox, MessageReader

Start = Callable[..., Any]
WF = """from datetime import datetime
from rulvar import workflow


@workflow(name="w")
async def w(ctx, args):
    now = datetime.now()
    return now
"""


def test_a_request_before_initialize_is_refused_as_not_initialized(lsp: Start) -> None:
    client = lsp()
    assert client.error("textDocument/hover", client.at("file:///x.py", 0, 0))["code"] == -32002
    assert "capabilities" in client.initialize()


def test_a_second_initialize_is_refused(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    assert client.error("initialize", {"capabilities": {}})["code"] == -32600


def test_a_request_after_shutdown_is_refused_and_exit_ends_with_zero(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    client.request("shutdown")
    assert client.error("textDocument/hover", client.at("file:///x.py", 0, 0))["code"] == -32600
    client.notify("exit")
    assert client.process.wait(30) == 0


def test_exit_without_shutdown_ends_with_one(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    client.notify("exit")
    assert client.process.wait(30) == 1


def test_the_end_of_input_ends_the_server(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    client.process.stdin.close()
    assert client.process.wait(30) == 1


def test_an_unknown_method_is_answered_and_an_unknown_notification_is_ignored(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    assert client.error("rulvar/no-such-thing", {})["code"] == -32601
    client.notify("rulvar/no-such-thing", {})
    client.notify("$/anything", {})
    assert client.request("textDocument/codeLens", client.doc("file:///x.py")) is None


@pytest.mark.parametrize("body", [b"{bad}", b"[]", b"3", b'"\xff"', b"[" * 100_000])
def test_a_body_that_is_no_message_is_answered_and_the_next_is_read(lsp: Start, body: bytes) -> None:
    client = lsp()
    client.initialize()
    client.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert client.answer(None)["error"]["code"] == -32700
    assert client.request("textDocument/hover", client.at("file:///x.py", 0, 0)) is None


@pytest.mark.parametrize("msg_id", [None, 1.5, True, {}, []])
def test_a_request_with_a_bad_id_is_answered(lsp: Start, msg_id: Any) -> None:
    client = lsp()
    client.initialize()
    client.send({"jsonrpc": "2.0", "id": msg_id, "method": "shutdown"})
    assert client.answer(None)["error"]["code"] == -32600


def test_header_names_count_in_any_case(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    body = b'{"jsonrpc":"2.0","id":77,"method":"shutdown"}'
    client.raw(
        b"content-type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: %d\r\n\r\n" % len(body)
        + body
    )
    assert client.answer(77)["result"] is None


def test_params_that_make_no_sense_are_refused_not_left_unanswered(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    error = client.error("textDocument/hover", {"textDocument": {"uri": 3}, "position": "x"})
    assert error["code"] == -32602
    assert "textDocument/hover" in error["message"]
    assert client.messages("window/showMessage") == []


def test_huge_positions_are_clamped(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF)
    client.diagnostics(uri)
    for line, character in ((0, 2**40), (2**40, 0), (2**31 - 1, 2**31 - 1)):
        client.request("textDocument/hover", client.at(uri, line, character))
        place = client.range(line, character, line, character)
        assert isinstance(client.actions(uri, place), list)


def test_another_tools_diagnostic_in_a_code_action_request_does_not_matter(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF)
    client.diagnostics(uri)
    foreign = {"range": client.range(0, 0, 0, 1), "message": "x", "tags": [-1], "severity": 99}
    actions = client.request(
        "textDocument/codeAction",
        {
            **client.doc(uri),
            "range": client.range(6, 10, 6, 10),
            "context": {"diagnostics": [foreign]},
        },
    )
    assert [a["kind"] for a in actions][:1] == ["quickfix"]
    assert client.messages("window/showMessage") == []


def test_a_nested_jsonrpc_key_is_data_like_any_other(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    message = {"jsonrpc": "2.0", "id": 1, "method": "x"}
    error = client.error(
        "workspace/executeCommand", {"command": "rulvar.replayStrict", "arguments": [message]}
    )
    assert error["code"] == -32602
    client.notify("workspace/didChangeConfiguration", {"settings": {"rulvar": message}})
    assert client.error("workspace/executeCommand", {"command": "x"})["code"] == -32602


def test_a_change_of_a_document_that_is_not_open_bothers_nobody(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    client.change("file:///never/opened.py", 2, "x = 1")
    client.notify("textDocument/didClose", client.doc("file:///never/opened.py"))
    assert client.request("textDocument/hover", client.at("file:///never/opened.py", 0, 0)) is None
    assert client.messages("window/showMessage") == []


def test_a_reversed_range_is_read_the_right_way_round(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF)
    client.diagnostics(uri)
    client.change(uri, 2, (6, 24, 6, 10, "1"))
    assert client.diagnostics(uri, 2) == []


def test_configuration_may_be_null_everywhere(lsp: Start, push_capabilities: Any) -> None:
    client = lsp()
    client.settings = None
    client.initialize(push_capabilities)
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.send({"jsonrpc": "2.0", "method": "workspace/didChangeConfiguration"})
    uri = client.open("a.py", WF)
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101"]


def test_a_wrong_setting_is_named_and_the_others_count(lsp: Start, push_capabilities: Any) -> None:
    client = lsp()
    client.settings = {"diagnostics": False, "pytestArgs": "-x"}
    client.initialize(push_capabilities)
    said = client.wait("window/logMessage", lambda p: "rulvar.pytestArgs" in p["message"])
    assert "expected a list of strings, got str" in said["message"]
    uri = client.open("a.py", WF)
    assert client.diagnostics(uri) == []


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        None,
        [],
        {"general": {"positionEncodings": ["utf-7", 3]}},
        {"textDocument": None, "workspace": 3, "window": {"workDoneProgress": "yes"}},
    ],
)
def test_capabilities_of_any_shape_are_survived(lsp: Start, capabilities: Any) -> None:
    client = lsp()
    result = client.request("initialize", {"capabilities": capabilities, "processId": None})
    assert result["capabilities"]["positionEncoding"] == "utf-16"
    client.notify("initialized")
    uri = client.open("a.py", WF)
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101"]


@pytest.mark.parametrize(
    ("offered", "chosen", "column"),
    [
        (["utf-8", "utf-16"], "utf-8", 20),
        (["utf-32", "utf-16"], "utf-32", 16),
        (["utf-16"], "utf-16", 17),
        (None, "utf-16", 17),
    ],
)
def test_an_emoji_before_the_finding_counts_in_the_clients_units(
    lsp: Start, offered: list[str] | None, chosen: str, column: int
) -> None:
    client = lsp()
    general = {"general": {"positionEncodings": offered}} if offered else {}
    result = client.initialize(general)
    assert result["capabilities"]["positionEncoding"] == chosen
    text = WF.replace("    now = datetime.now()", '    "😋é"; now = datetime.now()')
    uri = client.open("a.py", text)
    found = client.diagnostics(uri)[0]["range"]
    assert found["start"] == {"line": 6, "character": column}
    # the same columns mean the same text when they come back as an edit
    client.change(uri, 2, (6, found["start"]["character"], 6, found["end"]["character"], "datetime.today()"))
    again = client.diagnostics(uri, 2)
    assert [d["range"]["start"] for d in again] == [found["start"]]


def test_a_form_feed_is_no_line_break(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    text = WF.replace("    now", "\x0c    x = '\x0b\x1c\u2028\x85'\n    now")
    uri = client.open("a.py", text)
    client.change(uri, 2, (7, 10, 7, 24, "datetime.today()"))
    assert [d["range"]["start"]["line"] for d in client.diagnostics(uri, 2)] == [7]


def test_an_insertion_past_the_end_of_a_line_lands_at_its_end(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF.replace("datetime.now()", "args"))
    client.change(uri, 2, (6, 99, 6, 99, "; b = datetime.now()"))
    columns = [d["range"]["start"]["character"] for d in client.diagnostics(uri, 2)]
    assert columns == [20]


def test_a_file_that_does_not_parse_says_so_and_heals(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF + "def broken(:\n")
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV001"]
    client.change(uri, 2, WF)
    assert [d["code"] for d in client.diagnostics(uri, 2)] == ["RLV101"]


def test_a_line_of_100_000_characters_is_looked_at_like_any_other(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    filler = "é" * 100_000
    uri = client.open("a.py", WF.replace("    now", f'    x = "{filler}"; now'))
    found = client.diagnostics(uri)
    assert [d["range"]["start"]["character"] for d in found] == [100_000 + 18]
    client.change(uri, 2, (6, 100_000 + 18, 6, 100_000 + 32, "None"))
    assert client.diagnostics(uri, 2) == []


def test_text_with_lone_surrogates_is_survived(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF + 'x = "\ud83d"\n')
    client.diagnostics(uri)
    client.change(uri, 2, WF)
    assert [d["code"] for d in client.diagnostics(uri, 2)] == ["RLV101"]


def test_queued_requests_that_were_cancelled_are_not_worked_on() -> None:
    protocol, sent = _offline(
        *({"id": n, "method": "textDocument/hover", "params": {}} for n in range(10)),
        *({"method": "$/cancelRequest", "params": {"id": n}} for n in range(10)),
    )
    protocol.handlers["textDocument/hover"] = lambda params: pytest.fail("worked on")
    protocol.drain()
    assert [(m["id"], m["error"]["code"]) for m in sent()] == [(n, -32800) for n in range(10)]
    assert not protocol.inbox.is_cancelled(3)


def test_a_request_for_a_text_that_is_gone_is_refused() -> None:
    uri = "file:///a.py"
    document = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}
    change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": ""}]}
    protocol, sent = _offline(
        {"id": 1, "method": "textDocument/hover", "params": document},
        {"method": "textDocument/didChange", "params": change},
        {"id": 2, "method": "textDocument/hover", "params": document},
    )
    protocol.handlers["textDocument/hover"] = lambda params: None
    protocol.drain()
    assert [m.get("error", {}).get("code") for m in sent()] == [-32801, None]


def test_a_running_request_can_be_cancelled(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    uri = client.open("a.py", WF * 200)
    ids = [client.start("textDocument/hover", client.at(uri, 6, 12)) for _ in range(5)]
    for msg_id in ids:
        client.notify("$/cancelRequest", {"id": msg_id})
    codes = {client.answer(i).get("error", {}).get("code") for i in ids}
    assert codes <= {-32800, None}
    assert client.request("textDocument/hover", client.at(uri, 6, 12)) is not None


def test_stray_prints_do_not_reach_the_client() -> None:
    code = (
        "from rulvar_lsp.edge.transport import claim_stdout\n"
        "import os\n"
        "out = claim_stdout()\n"
        "print('stray'); os.write(1, b'stray too')\n"
        "out.write(b'protocol'); out.flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"protocol"
    assert b"stray" in done.stderr


def test_a_flood_on_standard_error_does_not_block(lsp: Start) -> None:
    client = lsp()
    client.initialize()
    for number in range(300):  # each is logged
        client.send({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": number})
    assert client.request("textDocument/hover", client.at("file:///x.py", 0, 0)) is None


def test_the_server_leaves_when_its_client_is_gone_though_the_pipe_stays_open(lsp: Start) -> None:
    client = lsp()
    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        client.request("initialize", {"processId": parent.pid, "capabilities": {}})
        client.notify("initialized")
        client.settle(0.3)
    finally:
        parent.kill()
        parent.wait()
    started = time.monotonic()
    assert client.process.wait(8) == 1
    assert time.monotonic() - started < 6


def _framed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def _offline(*messages: dict[str, Any]) -> tuple[Any, Callable[[], list[dict[str, Any]]]]:
    """A protocol whose messages have all arrived before the first is handled."""
    server = RulvarServer("0")
    protocol = server.protocol
    protocol.state = "initialized"
    protocol.on_exit = lambda code: None
    inbox = Inbox(io.BytesIO(b"".join(map(_framed, messages))), lambda: None)
    out = io.BytesIO()
    protocol.connect(inbox, out)
    inbox.start()
    while not inbox.closed:
        time.sleep(0.001)

    def sent() -> list[dict[str, Any]]:
        stream = io.BytesIO(out.getvalue())
        return [m for m in iter(MessageReader(stream).next, None) if isinstance(m, dict)]

    return protocol, sent


def test_commands_are_not_offered_to_a_client_that_registers_them_itself(lsp: Start) -> None:
    client = lsp()
    offered = client.initialize(ownsCommands=True)["capabilities"]
    assert "executeCommandProvider" not in offered
    assert client.error("workspace/executeCommand", {"command": "x"})["code"] == -32602


def test_a_flood_of_changed_files_is_handled_once(lsp: Start, pull_capabilities: Any) -> None:
    client = lsp()
    client.initialize(pull_capabilities)
    client.open("a.py", WF)
    changes = [{"uri": client.uri(f"m{n}.py"), "type": 2} for n in range(1000)]
    for start in range(0, 1000, 50):
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes[start : start + 50]})
    client.settle(1.5)
    assert 1 <= len(client.messages("workspace/diagnostic/refresh")) <= 3
    assert client.request("textDocument/hover", client.at(client.uri("a.py"), 6, 12)) is not None


def test_nothing_is_asked_of_a_client_that_can_do_nothing(lsp: Start, project: Any) -> None:
    project.plug()
    project.report(project.test())
    client = lsp(project.root)
    client.initialize({}, trusted=True, settings={"interpreter": sys.executable})
    uri = client.open("test_flow.py")
    argument = {"uri": uri, "test": "test_replay"}
    params = {"command": "rulvar.replayStrict", "arguments": [argument]}
    assert client.request("workspace/executeCommand", params, timeout=30)["status"] == "passed"
    client.settle(0.5)
    asked = {m["method"] for m in client.seen if "id" in m}
    assert asked == set()
    assert client.messages("$/progress") == []


def test_a_client_that_answers_nothing_does_not_hold_the_server_up(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.silent = {"workspace/configuration", "client/registerCapability", "workspace/codeLens/refresh"}
    client.initialize(push_capabilities)
    uri = client.open("flow.py")
    assert {d["code"] for d in client.diagnostics(uri)} == {"RLV101", "replay-miss"}
    assert client.stop() == 0
