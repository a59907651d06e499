"""Recorded cassettes serve exactly what the original serves from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import served_by
from rulvar.contracts.request_hash import request_hash
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.cassette import read_cassette
from rulvar.testing.replayer import ReplayAdapters, replay


@pytest.fixture(scope="module")
def expected(vectors: Path) -> list[dict[str, Any]]:
    path = vectors / "cassettes" / "expect.json"
    if not path.exists():
        pytest.skip("cassettes/expect.json is not in this set of vectors")
    cassettes: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cassettes"]
    return cassettes


def open_tape(vectors: Path, case: dict[str, Any]) -> ReplayAdapters:
    return replay(cassette=vectors / "cassettes" / case["file"])


def test_every_cassette_has_the_recorded_rows(expected: list[dict[str, Any]], vectors: Path) -> None:
    for case in expected:
        cassette = read_cassette(vectors / "cassettes" / case["file"])
        assert len(cassette.rows) == case["rows"], case["file"]
        assert [row.occurrence for row in cassette.rows] == case["occurrences"], case["file"]
        if "storedRequest" in case:
            assert cassette.rows[0].request == case["storedRequest"]
        if "storedHash" in case:
            assert cassette.rows[0].request_hash == case["storedHash"]


def test_every_adapter_declares_what_was_recorded(expected: list[dict[str, Any]], vectors: Path) -> None:
    for case in expected:
        adapters = open_tape(vectors, case)
        assert [adapter.id for adapter in adapters] == [a["id"] for a in case["adapters"]], case["file"]
        for adapter, recorded in zip(adapters, case["adapters"], strict=True):
            assert adapter.provider == recorded.get("provider")
            assert adapter.usage_semantics == recorded.get("usageSemantics")
            for model, caps in recorded["caps"].items():
                assert adapter.caps(model).to_wire() == caps
            with pytest.raises(ConfigError, match="caps"):
                adapter.caps("a model that nobody recorded")


async def serve(adapters: ReplayAdapters, call: dict[str, Any]) -> list[Any]:
    adapter = next(a for a in adapters if a.id == call["adapter"])
    request = ChatRequest.from_wire(decode_json(call["request_json"]))
    return [event.to_wire() async for event in adapter.stream(request)]


async def pairs(adapters: ReplayAdapters, call: dict[str, Any]) -> list[tuple[Any, Any]]:
    return list(zip(await serve(adapters, call), call["events"], strict=True))


def without_text(event: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """An event without its error text, where the vectors leave that out."""
    if event["type"] == "error" and "message" not in like["error"]:
        return {**event, "error": {k: v for k, v in event["error"].items() if k != "message"}}
    return event


async def test_every_call_is_served_what_was_recorded(expected: list[dict[str, Any]], vectors: Path) -> None:
    for case in expected:
        adapters = open_tape(vectors, case)
        for call in case["serve"]:
            if "error" in call:
                with pytest.raises(VcrMissError) as miss:
                    await serve(adapters, call)
                error = call["error"]
                assert miss.value.request_hash == error["requestHash"]
                assert miss.value.recorded_occurrences == (error.get("recordedOccurrences") or 0)
                assert miss.value.adapter_id == error["adapter"]
                for name in (*error["names"], error["adapter"], error["requestHash"]):
                    assert name in str(miss.value), case["file"]
            else:
                events = [without_text(event, like) for event, like in await pairs(adapters, call)]
                assert events == call["events"], case["file"]


async def test_requests_may_be_plain_json_objects(expected: list[dict[str, Any]], vectors: Path) -> None:
    for case in expected:
        adapters = open_tape(vectors, case)
        for call in case["serve"]:
            request: Any = decode_json(call["request_json"])
            assert request_hash(request) == call["requestHash"]
            adapter = next(a for a in adapters if a.id == call["adapter"])
            served = served_by(adapter.stream(request))
            assert served.how == ("hit" if "events" in call else served.how)
            assert (served.how in ("miss", "exhausted")) == ("error" in call)


async def test_stored_requests_that_hold_no_secret_hash_to_their_rows(
    expected: list[dict[str, Any]], vectors: Path
) -> None:
    for case in expected:
        if case["file"].startswith("redaction"):
            continue
        for row in read_cassette(vectors / "cassettes" / case["file"]).rows:
            assert request_hash(row.request) == row.request_hash, case["file"]
