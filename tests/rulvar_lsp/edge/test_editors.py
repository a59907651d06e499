"""The same session with the capabilities that real editors send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pygls.protocol import default_converter
from pytest_lsp import client_capabilities

Start = Callable[..., Any]
EDITORS = [
    "visual-studio-code",
    "neovim@0.11.0",
    "neovim@0.10.0",
    "neovim@0.7.0",
    "neovim@0.6.1",
    "emacs@29.1",
]
# Helix, written down by hand: utf-8 first, no code lens, no pull
HELIX: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-8", "utf-32", "utf-16"]},
    "textDocument": {
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix", "source"]}},
            "isPreferredSupport": True,
            "resolveSupport": {"properties": ["edit", "command"]},
        },
        "hover": {"contentFormat": ["markdown"]},
        "publishDiagnostics": {"tagSupport": {"valueSet": [1, 2]}, "versionSupport": True},
        "inlayHint": {"dynamicRegistration": False},
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "inlayHint": {"refreshSupport": False},
        "workspaceEdit": {"documentChanges": True},
    },
}


def capabilities(editor: str) -> dict[str, Any]:
    if editor == "helix":
        return HELIX
    raw: dict[str, Any] = default_converter().unstructure(client_capabilities(editor))
    return raw


@pytest.mark.parametrize("editor", [*EDITORS, "helix"])
def test_an_editor_gets_diagnostics_fixes_hints_and_an_orderly_end(
    lsp: Start, project: Any, editor: str
) -> None:
    project.report(project.test())
    client = lsp(project.root)
    caps = capabilities(editor)
    offered = client.initialize(caps)["capabilities"]
    encoding = offered["positionEncoding"]
    text = (
        (project.root / "flow.py")
        .read_text()
        .replace("    started = datetime.now()", '    started = ("😋é", datetime.now())')
    )
    project.write("flow.py", text)
    uri = client.open("flow.py", text)
    if "diagnosticProvider" in offered:
        found = client.request("textDocument/diagnostic", client.doc(uri))["items"]
    else:
        found = client.diagnostics(uri)
    assert {d["code"] for d in found} == {"RLV101", "replay-miss"}
    clock = next(d for d in found if d["code"] == "RLV101")
    assert clock["range"]["start"]["character"] == {"utf-8": 25, "utf-16": 22, "utf-32": 21}[encoding]
    actions = client.actions(uri, clock["range"])
    assert any(a.get("kind") == "quickfix" for a in actions)
    assert [h["label"] for h in client.hints(uri)] == ["hit 3f9ac2 #0", "miss 81b0d4"]
    hover = client.request("textDocument/hover", client.at(uri, 8, 30))
    assert "hit 3f9ac2" in hover["contents"]["value"]
    project.report(project.test(calls=[]))
    for _ in range(20):  # a client that watches files is trusted to tell; the server looks more rarely then
        client.settle(0.3)
        if client.hints(uri) == []:
            break
    assert client.hints(uri) == []
    assert client.messages("window/showMessage") == []
    assert client.stop() == 0
