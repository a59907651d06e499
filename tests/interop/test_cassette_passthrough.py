"""Passthrough and live adapters behind a cassette behave as the original's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scenario_language import check_words

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.stream import ChatEvent, Finish, FinishInfo, TextDelta
from rulvar.contracts.usage import ZERO_USAGE
from rulvar.errors import ConfigError, VcrMissError
from rulvar.testing.replayer import ReplayAdapter, replay

LIVE_CAPS = ModelCaps(
    structured_output="native",
    supports_temperature=True,
    supports_parallel_tools=True,
    reasoning_efforts=("low",),
    context_window=77,
    max_output_tokens=100,
)


CASE_FIELDS = {"group", "name", "cassette", "onMiss", "live", "error", "result"}


class Live:
    """A live adapter that answers LIVE; it has only the declarations of its vector."""

    def __init__(self, declared: dict[str, str]) -> None:
        self.id = declared["id"]
        if "provider" in declared:
            self.provider = declared["provider"]
        if "usageSemantics" in declared:
            self.usage_semantics = declared["usageSemantics"]

    def caps(self, model: str) -> ModelCaps:
        return LIVE_CAPS

    async def stream(
        self, request: ChatRequest, signal: asyncio.Event | None = None
    ) -> AsyncIterator[ChatEvent]:
        yield TextDelta(text="LIVE")
        yield Finish(finish=FinishInfo(reason="stop"), usage=ZERO_USAGE)


def missing_in(error: Exception, expected: dict[str, Any]) -> list[str]:
    """What an error fails to be or to name."""
    check_words("an error", expected, {"class", "names", "adapter", "recordedOccurrences"})
    wrong = [] if type(error).__name__ == expected["class"] else [expected["class"]]
    return wrong + [name for name in (*expected["names"], expected["adapter"]) if name not in str(error)]


async def served(adapter: ReplayAdapter) -> Any:
    try:
        events = [event async for event in adapter.stream(ChatRequest(model="m", messages=()))]
    except VcrMissError as miss:
        return miss
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def window(adapter: ReplayAdapter, model: str) -> Any:
    try:
        return adapter.caps(model).context_window
    except ConfigError as error:
        return error


async def test_every_case_is_served_as_recorded(load_vectors: Any, tmp_path: Path) -> None:
    for case in load_vectors("cassette_passthrough.json")["cases"]:
        check_words("a case of passthrough", case, CASE_FIELDS)
        path = tmp_path / "tape.jsonl"
        path.write_text(case["cassette"], "utf-8")
        live = [Live(declared) for declared in case["live"]]
        try:
            adapters = replay(cassette=path, on_miss=case["onMiss"], adapters=live)
        except ConfigError as error:
            assert missing_in(error, case["error"]) == [], case["name"]
            continue
        assert "error" not in case, case["name"]
        assert [adapter.id for adapter in adapters] == [result["id"] for result in case["result"]]
        for adapter, result in zip(adapters, case["result"], strict=True):
            assert adapter.provider == result.get("provider")
            assert adapter.usage_semantics == result.get("usageSemantics")
            for model in ("m", "other"):
                expected, found = result[f"contextWindow_{model}"], window(adapter, model)
                if isinstance(expected, dict):
                    assert missing_in(found, expected) == [], case["name"]
                else:
                    assert found == expected, case["name"]
            for expected in result["served"]:
                found = await served(adapter)
                if isinstance(expected, dict):
                    assert found.recorded_occurrences == (expected["recordedOccurrences"] or 0)
                    assert missing_in(found, expected) == [], case["name"]
                else:
                    assert found == expected, case["name"]
