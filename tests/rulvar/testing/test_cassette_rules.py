"""A cassette with several faults is refused for the first of them, in one fixed order."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.stream import ChatEvent
from rulvar.errors import ConfigError
from rulvar.testing.cassette import parse_cassette
from rulvar.testing.cassette_rules import LAST_OCCURRENCE, check_appendable, check_replayable
from rulvar.testing.replayer import replay

HEADER = {"v": 1, "kind": "rulvar-vcr", "hashVersion": 2, "recordedAt": "2026-05-06T07:08:09Z"}
CAPS: dict[str, Any] = {
    "structuredOutput": "prompt", "supportsTemperature": False, "supportsParallelTools": True,
    "reasoningEfforts": [], "contextWindow": 4096, "maxOutputTokens": 512,
}  # fmt: skip
USAGE = {"inputTokens": 4, "outputTokens": 2, "cacheReadTokens": 0, "cacheWriteTokens": 0}


def row(adapter: str, digest: str, **fields: Any) -> dict[str, Any]:
    events = [{"type": "finish", "finish": {"reason": "stop"}, "usage": USAGE}]
    made = {"adapterId": adapter, "requestHash": digest, "model": "slow", "request": {}, "caps": CAPS}
    return {**made, "events": events, **fields}


def wider(**fields: Any) -> dict[str, Any]:
    return {"caps": {**CAPS, "contextWindow": 8192}, **fields}


def written(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in (HEADER, *rows)).encode()


def refusal(check: Any, *rows: dict[str, Any], **options: Any) -> str:
    tape = parse_cassette("tape.jsonl", written(*rows))
    with pytest.raises(ConfigError) as caught:
        check(tape, **options)
    return str(caught.value)


class Live:
    id = "north"
    provider = "other"

    def caps(self, model: str) -> ModelCaps:
        raise AssertionError

    def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[ChatEvent]:
        raise AssertionError


def test_adapters_are_checked_one_after_the_other_each_in_every_respect() -> None:
    said = refusal(
        check_replayable,
        row("north", "h1", provider="p"),
        row("south", "h1"),
        row("south", "h2", **wider()),
        row("north", "h2", provider="q"),
    )
    assert '"north": provider is "p" at line 2 and "q" at line 5' in said


def test_the_capabilities_of_an_adapter_are_compared_before_what_it_declares() -> None:
    rows = (row("north", "h1", usageSemantics="s"), row("north", "h2", provider="p", **wider()))
    assert "caps of model" in refusal(check_replayable, *rows)
    assert "provider is absent" in refusal(check_replayable, rows[0], row("north", "h2", provider="p"))


def test_rows_are_compared_request_by_request_in_the_order_of_serving() -> None:
    said = refusal(
        check_replayable,
        row("north", "h1", model="quick"),
        row("north", "h2"),
        row("north", "h3", **wider()),
        row("north", "h1", model="quick", **wider()),
    )
    assert '"quick" differ between line 2 and line 5' in said
    numbered = [row("north", "h1", provider=name, occurrence=n) for name, n in (("c", 2), ("b", 1), ("a", 0))]
    assert '"a" at line 4 and "b" at line 3' in refusal(check_replayable, *numbered)


def test_the_live_adapter_is_compared_before_the_next_recorded_one(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    tape.write_bytes(written(row("north", "h1"), row("south", "h1"), row("south", "h2", provider="p")))
    with pytest.raises(
        ConfigError, match=re.escape('"north": provider is absent in the cassette and "other"')
    ):
        replay(cassette=tape, on_miss="passthrough", adapters=[Live()])
    with pytest.raises(ConfigError, match='"south": provider is absent at line 3'):
        replay(cassette=tape, on_miss="throw", adapters=[Live()])


def test_the_lowest_number_that_stands_twice_is_named() -> None:
    rows = [row("north", "h1", occurrence=number) for number in (7, 3, 7, 3)]
    assert "occurrence 3 stands twice (lines 3 and 5)" in refusal(check_replayable, *rows)


def test_the_first_adapter_of_the_file_that_has_no_number_left_is_named() -> None:
    said = refusal(
        check_appendable,
        row("north", "h1", occurrence=0),
        row("south", "h1", occurrence=LAST_OCCURRENCE),
        row("north", "h2", occurrence=LAST_OCCURRENCE),
    )
    assert 'adapter "north"' in said


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"requestHash": "", "model": ""}, "requestHash"),
        ({"adapterId": 1, "requestHash": 1}, "adapterId"),
        ({"model": 1, "provider": None}, "model"),
        ({"events": [{"type": "finish", "finish": {"reason": "stop"}, "providerMetadata": [], "usage": {}}]},
         "events[0].providerMetadata"),
        ({"events": [{"type": "finish", "finish": {}, "providerMetadata": []}]}, "events[0].finish.reason"),
    ],
)  # fmt: skip
def test_of_several_wrong_fields_the_first_in_the_order_of_checks_is_named(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cassette("tape.jsonl", written(row("north", "h1", **fields)))
    assert caught.value.data == {"cassette": "tape.jsonl", "line": 2, "field": named}
