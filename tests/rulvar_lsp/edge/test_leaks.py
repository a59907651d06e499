"""Requests, cancellations and changes in any order: all is answered, nothing old is shown, nothing is left behind."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
FILES = ("flow.py", "test_flow.py", "cassettes/triage.jsonl", "other/flow.py")
ASKED = (
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
PIECES = ("#", "\n", "😋", "    ", '"""', "(", "x = 1\n", "\r\n", "datetime.now()")
OF_THE_PROCESS = {"objects", "files", "tasks", "threads", "projects", "tests"}


class Storm:
    """Does what an editor may do, in an order that nobody would choose."""

    def __init__(self, client: Any, project: Any, seed: int) -> None:
        self.client, self.project, self.dice = client, project, random.Random(seed)
        self.versions: dict[str, int] = {}
        self.asked: list[tuple[int, str, str, int]] = []  # id, method, uri, version when it was sent
        self.hints: list[dict[str, Any]] = []

    def blow(self, times: int) -> None:
        deeds = (self.open, self.change, self.change, self.close, self.ask, self.ask, self.ask, self.cancel)
        rare = (self.tell, self.write, self.save, self.resolve, self.explain, self.configure)
        for _ in range(times):
            self.dice.choice(deeds if self.dice.random() < 0.85 else rare)()
            if self.dice.random() < 0.05:  # else all of it is read before the first look begins
                time.sleep(0.02)

    def any_uri(self) -> str:
        return self.client.uri(self.dice.choice(FILES))

    def open(self) -> None:
        name = self.dice.choice(FILES)
        uri = self.client.uri(name)
        self.versions[uri] = self.versions.get(uri, 0) + 1
        self.client.open(name, version=self.versions[uri])

    def change(self) -> None:
        uri = self.any_uri()
        self.versions[uri] = self.versions.get(uri, 0) + 1
        line, column = self.dice.randrange(16), self.dice.randrange(40)
        edit = (line, column, line + self.dice.randrange(2), column, self.dice.choice(PIECES))
        self.client.change(uri, self.versions[uri], *[edit] * self.dice.randint(1, 3))

    def close(self) -> None:
        self.client.notify("textDocument/didClose", self.client.doc(self.any_uri()))

    def ask(self) -> None:
        uri, method = self.any_uri(), self.dice.choice(ASKED)
        line = self.dice.randrange(16)
        params = {
            **self.client.at(uri, line, 12),
            "uri": uri,
            "line": line,
            "column": 12,
            "range": self.client.range(0, 0, 20, 0),
            "context": {"diagnostics": [], "includeDeclaration": True},
        }
        self.asked.append((self.client.start(method, params), method, uri, self.versions.get(uri, 0)))

    def cancel(self) -> None:
        if self.asked:
            self.client.notify("$/cancelRequest", {"id": self.dice.choice(self.asked[-5:])[0]})

    def tell(self) -> None:
        changes = [{"uri": self.any_uri(), "type": self.dice.randint(1, 3)} for _ in range(5)]
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def write(self) -> None:
        self.project.report(self.project.test(), name=self.dice.choice("ab"))

    def save(self) -> None:
        self.client.notify("textDocument/didSave", self.client.doc(self.any_uri()))

    def resolve(self) -> None:
        if self.hints:
            msg_id = self.client.start("inlayHint/resolve", self.dice.choice(self.hints))
            self.asked.append((msg_id, "inlayHint/resolve", "", 0))

    def explain(self) -> None:
        argument = {"uri": self.any_uri(), "line": 9, "column": 22}
        params = {"command": "rulvar.explainMiss", "arguments": [argument]}
        self.asked.append((self.client.start("workspace/executeCommand", params), "explain", "", 0))

    def configure(self) -> None:
        self.client.notify("workspace/didChangeConfiguration", {"settings": None})

    def take_answers(self) -> None:
        """Every request has one answer, and what it says is of no older text than the client had sent."""
        for msg_id, method, _, version in self.asked:
            answer = self.client.answer(msg_id, timeout=60)
            if "error" in answer:
                assert answer["error"]["code"] in (-32800, -32801, -32802), (method, answer)
            elif method == "textDocument/inlayHint":
                self.hints = answer["result"] or self.hints
                assert all(hint["data"]["version"] >= version for hint in answer["result"] or ())
        self.asked.clear()

    def close_all(self) -> None:
        for name in FILES:
            self.client.notify("textDocument/didClose", self.client.doc(self.client.uri(name)))
        self.take_answers()


@pytest.fixture(params=["pushed", "pulled"])
def client(
    request: Any, lsp: Start, project: Any, push_capabilities: Any, pull_capabilities: Any
) -> Iterator[Any]:
    project.write("cassettes/triage.jsonl", '{"cassetteVersion":1}\n{"adapterId":"fake"}\n')
    project.write("other/flow.py", (project.root / "flow.py").read_text())
    project.report(project.test())
    client = lsp(project.root)
    client.initialize(push_capabilities if request.param == "pushed" else pull_capabilities)
    yield client
    assert "Traceback" not in client.log.read_text()


def held(client: Any) -> dict[str, int]:
    """What the server holds once it has come to rest."""
    end = time.monotonic() + 20
    while True:
        found: dict[str, int] = client.request("rulvar/held", timeout=60)
        if found["work"] == found["asked"] == found["requests"] == 0 or time.monotonic() > end:
            return found
        client.settle(0.3)


def memory(client: Any) -> float:
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_after_any_storm_nothing_is_left_of_the_documents(client: Any, project: Any) -> None:
    before = {}
    for seed in range(8):
        storm = Storm(client, project, seed)
        storm.blow(150)
        storm.close_all()
        client.seen.clear()
        after = held(client)
        left = {name: count for name, count in after.items() if count and name not in OF_THE_PROCESS}
        assert left == {}
        if seed == 3:
            before = {**after, "memory": memory(client)}
    for name in ("files", "tasks", "threads", "projects", "tests"):
        assert after[name] <= before[name], (name, before, after)
    assert after["objects"] <= before["objects"] + 500, (before, after)
    assert memory(client) <= before["memory"] + 4


def test_what_was_found_last_is_what_is_shown(client: Any, project: Any) -> None:
    """After a storm the open document has the findings of a fresh one, and versions were never pushed backwards."""
    storm = Storm(client, project, 99)
    uri = client.uri("flow.py")
    for _ in range(6):
        storm.blow(60)
        version = storm.versions[uri] = storm.versions.get(uri, 0) + 1
        client.open("flow.py", version=version)
        storm.take_answers()
        if "diagnosticProvider" in client.offered:
            found = client.request("textDocument/diagnostic", client.doc(uri))["items"]
        else:
            found = client.diagnostics(uri, version)
        assert "RLV101" in {one["code"] for one in found}
    pushed = [
        m["version"]
        for m in client.messages("textDocument/publishDiagnostics")
        if m["uri"] == uri and "version" in m
    ]
    assert pushed == sorted(pushed)


def test_a_late_request_for_an_old_text_does_not_take_the_new_ones_findings_away(client: Any) -> None:
    uri = client.open("flow.py")
    for version in range(2, 30):
        ids = [client.start("textDocument/hover", client.at(uri, 8, 30)) for _ in range(3)]
        client.change(uri, version, (0, 0, 0, 0, "#\n"))
        ids.append(client.start("textDocument/hover", client.at(uri, 8, 30)))
    if "diagnosticProvider" not in client.offered:
        assert "RLV101" in {one["code"] for one in client.diagnostics(uri, 29)}
    for msg_id in ids:
        answer = client.answer(msg_id)
        assert "result" in answer or answer["error"]["code"] == -32801, json.dumps(answer)


def test_projects_that_nobody_looks_at_are_forgotten(lsp: Start, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    client = lsp(tmp_path / "empty")
    client.initialize()
    for number in range(12):
        folder = tmp_path / f"project{number}"
        folder.mkdir()
        (folder / "pyproject.toml").write_text("[project]\nname='x'\nversion='0'\n")
        (folder / "flow.py").write_text("x = 1\n")
        uri = (folder / "flow.py").as_uri()
        item = {"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"}
        client.notify("textDocument/didOpen", {"textDocument": item})
        assert client.diagnostics(uri) == []
        client.notify("textDocument/didClose", client.doc(uri))
    assert held(client)["projects"] <= 5


def test_what_is_typed_does_not_wait_for_other_open_files(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    text = (project.root / "flow.py").read_text()
    for number in range(30):
        client.open(f"other{number}.py", text * 60)
    uri = client.open("flow.py")
    client.diagnostics(uri)
    for version in range(2, 6):
        client.change(uri, version, (0, 0, 0, 0, "\n"))
        client.diagnostics(uri, version)
        client.settle(0.5)  # now the others are looked at again
    client.change(uri, 6, (0, 0, 0, 0, "\n"))
    client.request(
        "rulvar/tests", client.doc(uri)
    )  # what was pushed before this answer was so before the change
    client.seen.clear()
    client.diagnostics(uri, 6)
    assert pushed(client).index(uri) <= 2
    end = time.monotonic() + 10
    while len(set(pushed(client))) < 31 and time.monotonic() < end:
        client.settle(0.2)
    assert len(set(pushed(client))) == 31  # and the others have their turn


def pushed(client: Any) -> list[str]:
    """The files whose findings were pushed, in order."""
    return [m["uri"] for m in client.messages("textDocument/publishDiagnostics")]
