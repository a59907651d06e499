"""Hits and misses that are known before anything has run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.request_hash import request_hash

SAMPLE = Path(__file__).parents[2] / "e2e" / "editors" / "project"
FLOW = """from rulvar import Ctx, workflow

CLASSIFY = "Classify this ticket: It crashes."


@workflow(name="triage")
async def triage(ctx: Ctx, args: dict) -> dict:
    kind = await ctx.agent(CLASSIFY, label="classify")
    answer = await ctx.agent("Draft a short answer to a bug ticket", label="draft")
    free = await ctx.agent(f"Thank {args['name']}")
    return {"kind": kind, "answer": answer, "free": free}


@workflow(name="unseen")
async def unseen(ctx: Ctx, args: dict) -> str:
    return await ctx.agent("Nobody tests this")
"""


@pytest.fixture
def static(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "flow.py").write_text(FLOW)
    return root


def labels(client: Any, uri: str) -> dict[int, str]:
    return {hint["position"]["line"]: hint["label"] for hint in client.hints(uri)}


def come_to(client: Any, uri: str, expected: dict[int, str]) -> None:
    """Wait for the client to be told to ask again, and to be answered so."""
    while labels(client, uri) != expected:
        client.wait("workspace/inlayHint/refresh")


def test_static_calls_are_compared_with_the_cassettes_of_their_tests(lsp: Any, static: Path) -> None:
    client = lsp(static)
    client.initialize()
    uri = client.open("flow.py")
    # what depends on arguments, and a workflow that no test names, are left alone
    assert labels(client, uri) == {7: "will hit row 2", 8: "will miss"}
    assert not (static / ".rulvar_cache").exists()  # nothing has run


def test_a_forecast_explains_itself_and_leads_to_its_row(lsp: Any, static: Path) -> None:
    client = lsp(static)
    client.initialize()
    uri = client.open("flow.py")
    miss = client.request("textDocument/hover", client.at(uri, 8, 30))["contents"]["value"]
    assert "nothing has run" in miss and "row 3 of triage.jsonl" in miss
    assert '+ "Draft a short answer to a bug ticket"' in miss
    hit = client.hints(uri)[0]
    assert "row 2 of triage.jsonl" in client.request("inlayHint/resolve", hit)["tooltip"]["value"]
    [place] = client.request("textDocument/definition", client.at(uri, 7, 30))
    assert place["uri"].endswith("triage.jsonl") and place["range"]["start"]["line"] == 1


def test_a_forecast_follows_the_buffer_and_the_cassette(lsp: Any, static: Path) -> None:
    client = lsp(static)
    client.initialize()
    uri = client.open("flow.py")
    assert labels(client, uri)[8] == "will miss"
    client.change(uri, 2, FLOW.replace("Draft a short answer", "Draft an answer"))
    assert labels(client, uri)[8] == "will hit row 3"
    cassette = static / "cassettes" / "triage.jsonl"
    lines = cassette.read_text().splitlines(keepends=True)
    cassette.write_text("".join(lines[:2]))
    client.wait("workspace/inlayHint/refresh")
    assert labels(client, uri)[8] == "will miss"


def test_a_cassette_that_is_recorded_later_is_noticed_though_nobody_tells(lsp: Any, static: Path) -> None:
    cassette = static / "cassettes" / "triage.jsonl"
    kept = cassette.read_bytes()
    cassette.unlink()
    client = lsp(static)
    client.initialize()
    uri = client.open("flow.py")
    assert labels(client, uri) == {}
    for _ in range(2):
        cassette.write_bytes(kept)
        come_to(client, uri, {7: "will hit row 2", 8: "will miss"})
        cassette.unlink()
        come_to(client, uri, {})


def test_what_a_run_has_shown_counts_more_than_a_forecast(lsp: Any, static: Path) -> None:
    client = lsp(static)
    client.initialize(trusted=True, settings={"interpreter": sys.executable})
    uri = client.open("flow.py")
    assert labels(client, uri)[8] == "will miss"
    command = {"command": "rulvar.replayStrict", "arguments": [{"path": str(static / "test_flow.py")}]}
    client.request("workspace/executeCommand", command, timeout=60)
    assert {line: text.split()[0] for line, text in labels(client, uri).items()} == {7: "hit", 8: "miss"}
    client.change(uri, 2, FLOW.replace("Draft a short answer", "Draft an answer"))
    stale = labels(client, uri)[8]
    assert stale.startswith("stale: miss ") and stale.endswith(", will hit row 3")


def test_a_budget_or_a_schema_that_differs_makes_no_miss(lsp: Any, static: Path) -> None:
    cassette = static / "cassettes" / "triage.jsonl"
    lines = cassette.read_text().splitlines()
    row = json.loads(lines[1])
    row["request"]["maxOutputTokens"] = 512
    row["requestHash"] = request_hash(row["request"])
    cassette.write_text("\n".join([lines[0], json.dumps(row)]) + "\n")
    client = lsp(static)
    client.initialize()
    assert 7 not in labels(client, client.open("flow.py"))


def test_a_cassette_that_is_broken_or_no_tests_make_no_forecast(lsp: Any, static: Path) -> None:
    (static / "cassettes" / "triage.jsonl").write_text('{"v":1,"kind":"rulvar-vcr"')
    client = lsp(static)
    client.initialize()
    assert labels(client, client.open("flow.py")) == {}


def test_the_fixtures_own_cassettes_count(lsp: Any, static: Path) -> None:
    shutil.rmtree(static / "cassettes", ignore_errors=True)
    (static / "conftest.py").unlink()
    (static / "test_flow.py").write_text(
        "from flow import triage\nfrom rulvar import Engine\n\n\n"
        "async def test_it(cassette):\n"
        '    async with Engine(adapters=cassette.adapters(), routing={"loop": "fake:small"}) as engine:\n'
        "        await engine.run(triage, {}).result()\n"
    )
    folder = static / "cassettes" / "test_flow"
    folder.mkdir(parents=True)
    shutil.copy(SAMPLE / "cassettes" / "triage.jsonl", folder / "test_it.jsonl")
    client = lsp(static)
    client.initialize()
    assert labels(client, client.open("flow.py"))[7] == "will hit row 2"


def test_a_cassette_that_a_marker_names_counts(lsp: Any, static: Path) -> None:
    (static / "cassettes" / "triage.jsonl").rename(static / "cassettes" / "named.jsonl")
    (static / "conftest.py").unlink()
    (static / "test_flow.py").write_text(
        "import pytest\nfrom flow import triage\n\nROUTING = {'loop': 'fake:small'}\n\n\n"
        "@pytest.mark.rulvar_cassette('named')\nasync def test_it(cassette):\n    assert triage\n"
    )
    client = lsp(static)
    client.initialize()
    assert labels(client, client.open("flow.py"))[7] == "will hit row 2"
