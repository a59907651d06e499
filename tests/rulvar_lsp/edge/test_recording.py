"""The record lens: offered where there is something to record, asked about, and carried out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TEST = """from rulvar import Engine, workflow
from rulvar.testing import FakeAdapter


@workflow(name="ask")
async def ask(ctx, args):
    return await ctx.agent("Say ok")


def live():
    return FakeAdapter.sequence(["ok"])


async def test_ask(
    cassette,
):
    async with Engine(adapters=cassette.adapters(live), routing={"loop": "fake:small"}) as engine:
        outcome = await engine.run(ask, {}).result()
    assert outcome.value == "ok"


def test_plain():  # no cassette
    pass
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text(
        "[project]\nname = 'x'\nversion = '0'\n[tool.pytest.ini_options]\nasyncio_mode = 'auto'\n"
    )
    (root / "test_ask.py").write_text(TEST)
    return root


def lenses(client: Any, uri: str) -> list[tuple[int, str]]:
    found = client.request("textDocument/codeLens", client.doc(uri))
    return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in found]


def record(client: Any, uri: str) -> dict[str, Any]:
    argument = {"uri": uri, "test": "test_ask"}
    command = {"command": "rulvar.record", "arguments": [argument]}
    result: dict[str, Any] = client.request("workspace/executeCommand", command, timeout=60)
    return result


def test_recording_is_offered_where_it_is_trusted_and_there_is_a_cassette(lsp: Any, recording: Path) -> None:
    client = lsp(recording)
    client.initialize()
    uri = client.open("test_ask.py")
    assert [title for _, title in lenses(client, uri)] == ["Run replay-strict"] * 2
    client.notify("rulvar/trust", {"trusted": True})
    client.wait("workspace/codeLens/refresh")
    assert [title for line, title in lenses(client, uri) if line == 13] == ["Run replay-strict", "Record"]
    assert [title for line, title in lenses(client, uri) if line == 21] == ["Run replay-strict"]


def test_recording_writes_the_cassette_and_shows_the_live_call(lsp: Any, recording: Path) -> None:
    client = lsp(recording)
    client.settings = {"interpreter": sys.executable}
    client.choice = "Record"
    client.initialize(trusted=True)
    uri = client.open("test_ask.py")
    result = record(client, uri)
    assert (result["status"], result["summary"]) == ("passed", "1 live")
    asked = client.wait("window/showMessageRequest")
    assert "live" in asked["message"] and [a["title"] for a in asked["actions"]] == ["Record", "Cancel"]
    assert (recording / "cassettes" / "test_ask" / "test_ask.jsonl").is_file()
    assert client.hints(uri)[0]["label"].startswith("live ")
    replayed = {"command": "rulvar.replayStrict", "arguments": [{"uri": uri, "test": "test_ask"}]}
    assert client.request("workspace/executeCommand", replayed, timeout=60)["summary"] == "1 hit"


@pytest.mark.parametrize("choice", ["Cancel", None])
def test_nothing_is_recorded_unless_the_user_agrees(lsp: Any, recording: Path, choice: str | None) -> None:
    client = lsp(recording)
    client.choice = choice
    client.initialize(trusted=True)
    assert record(client, client.open("test_ask.py"))["status"] == "cancelled"
    assert not (recording / "cassettes").exists()


def test_recording_is_refused_without_trust_and_without_a_test(lsp: Any, recording: Path) -> None:
    client = lsp(recording)
    client.choice = "Record"
    client.initialize()
    uri = client.open("test_ask.py")
    for argument in ({"uri": uri, "test": "test_ask"}, {"uri": uri}):
        client.error("workspace/executeCommand", {"command": "rulvar.record", "arguments": [argument]})
    assert not client.messages("window/showMessageRequest")
