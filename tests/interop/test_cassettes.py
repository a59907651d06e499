"""Recorded cassettes serve exactly what the original serves from them."""

import json
from pathlib import Path
from typing import Any

import pytest
from scenario_language import check_words

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.ports.provider import served_by
from rulvar.contracts.request_hash import request_hash
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.cassette import CassetteRow, read_cassette
from rulvar.testing.recorder import record
from rulvar.testing.replayer import ReplayAdapters, replay

CASE_FIELDS = {"file", "scenario", "adapters", "serve", "rows", "occurrences", "unknownModelCaps"}
CASE_FIELDS |= {"storedRequest", "storedHash", "engine"}
ADAPTER_FIELDS = {"id", "provider", "usageSemantics", "caps"}
CALL_FIELDS = {"adapter", "request_json", "requestHash", "note", "events", "error"}
MISS_FIELDS = {"class", "requestHash", "recordedOccurrences", "names", "adapter"}


@pytest.fixture(scope="module")
def expected(vectors: Path) -> list[dict[str, Any]]:
    path = vectors / "cassettes" / "expect.json"
    if not path.exists():
        pytest.skip("cassettes/expect.json is not in this set of vectors")
    cassettes: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cassettes"]
    return cassettes


def test_every_field_of_a_case_is_one_that_is_compared(expected: list[dict[str, Any]]) -> None:
    for case in expected:
        check_words("a cassette", case, CASE_FIELDS)
        check_words("what an unknown model is", case["unknownModelCaps"], {"class", "names", "adapter"})
        for adapter in case["adapters"]:
            check_words("an adapter", adapter, ADAPTER_FIELDS)
        for call in case["serve"]:
            check_words("a call", call, CALL_FIELDS)
            assert ("events" in call) != ("error" in call), case["file"]
            check_words("a miss", call.get("error", {}), MISS_FIELDS)


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
            rows = read_cassette(vectors / "cassettes" / case["file"]).rows
            assert {row.model for row in rows if row.adapter_id == adapter.id} == set(recorded["caps"])
            for model, caps in recorded["caps"].items():
                assert adapter.caps(model).to_wire() == caps
            with pytest.raises(ConfigError) as refused:
                adapter.caps("a model that nobody recorded")
            unknown = case["unknownModelCaps"]
            assert type(refused.value).__name__ == unknown["class"]
            first = [unknown["adapter"]] if adapter is adapters[0] else []
            assert [name for name in (*unknown["names"], *first) if name not in str(refused.value)] == []


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
                assert type(miss.value).__name__ == error["class"]
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


def is_masked(case: dict[str, Any], row: CassetteRow) -> bool:
    """Whether a stored request is not the one that was hashed: something in it was redacted."""
    asked = [decode_json(c["request_json"]) for c in case["serve"] if c["requestHash"] == row.request_hash]
    return "[REDACTED]" in str(row.request) or bool(asked and row.request not in asked)


async def test_stored_requests_that_hold_no_secret_hash_to_their_rows(
    expected: list[dict[str, Any]], vectors: Path
) -> None:
    for case in expected:
        for row in read_cassette(vectors / "cassettes" / case["file"]).rows:
            if is_masked(case, row) and "storedRequest" in case:
                continue
            assert request_hash(row.request) == row.request_hash, case["file"]


class Playing:
    """A live adapter that declares and says what was recorded."""

    def __init__(self, rows: list[CassetteRow]) -> None:
        self.id = rows[0].adapter_id
        if rows[0].provider is not None:
            self.provider = rows[0].provider
        if rows[0].usage_semantics is not None:
            self.usage_semantics = rows[0].usage_semantics
        self.rows = rows
        self.next = iter(rows)

    def caps(self, model: str) -> ModelCaps:
        return next(row.caps for row in self.rows if row.model == model)

    async def stream(self, request: Any, signal: Any = None) -> Any:
        for event in next(self.next).events:
            yield event


async def test_recording_the_same_exchanges_writes_the_same_rows(
    expected: list[dict[str, Any]], vectors: Path, tmp_path: Path, is_own_set: bool
) -> None:
    compared = 0
    for case in expected:
        source = vectors / "cassettes" / case["file"]
        rows = list(read_cassette(source).rows)
        numbers = [row.occurrence for row in rows]
        if None in numbers or not _are_counted_from_zero(rows) or _holds_masks(rows):
            continue
        tape = tmp_path / case["file"]
        by_adapter = {row.adapter_id: [r for r in rows if r.adapter_id == row.adapter_id] for row in rows}
        with record(adapters=[Playing(own) for own in by_adapter.values()], cassette=tape) as adapters:
            for row in rows:
                adapter = next(a for a in adapters if a.id == row.adapter_id)
                [_ async for _ in adapter.stream(row.request)]
        ours = [line for line in tape.read_bytes().split(b"\n")[1:] if line]
        theirs = [line.strip() for line in source.read_bytes().split(b"\n")[1:] if line.strip()]
        for mine, original in zip(ours, theirs, strict=True):
            assert mine.partition(b',"caps":')[0] == original.partition(b',"caps":')[0], case["file"]
            assert decode_json(mine) == decode_json(original), case["file"]
        compared += 1
    assert compared >= 15 or not is_own_set


def _holds_masks(rows: list[CassetteRow]) -> bool:
    """Whether a request does not hash to its row, or an event is masked: recording it again is another exchange."""
    return any(
        request_hash(row.request) != row.request_hash or "[REDACTED]" in str(row.request) for row in rows
    )


def _are_counted_from_zero(rows: list[CassetteRow]) -> bool:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.adapter_id, row.request_hash)
        if row.occurrence != counts.get(key, 0):
            return False
        counts[key] = counts.get(key, 0) + 1
    return True
