"""Our own adapters and stores pass the suites that third parties run; broken ones do not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, Msg
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import Finish, FinishInfo, StreamError, TextDelta, ToolCallStart, WireError
from rulvar.contracts.usage import Usage
from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.memory import InMemoryStore
from rulvar.testing.conformance import AdapterConformance, StoreConformance, adapter_conformance
from rulvar.testing.conformance import adapter as adapter_cases
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay
from rulvar.testing.responders import fake_tool_calls, fake_wire_error


class TestFakeAdapter(AdapterConformance):
    def make_adapter(self) -> Adapter:
        return FakeAdapter({"refuse": fake_wire_error(code="agent", message="no"), "*": "ok"})

    def make_failing_request(self) -> ChatRequest:
        return ChatRequest(model="model", messages=(Msg.text("user", "refuse"),))

    def secrets(self) -> Iterator[str]:
        yield "sk-FAKEFAKEFAKE"


class TestFakeAdapterWithTools(AdapterConformance):
    def make_adapter(self) -> Adapter:
        return FakeAdapter({"*": fake_tool_calls({"name": "a"}, {"name": "b"})})


class TestReplayedAdapter(AdapterConformance):
    @pytest.fixture(autouse=True)
    def tape(self, tmp_path: Path) -> None:
        self.path = tmp_path / "tape.jsonl"

    def make_adapter(self) -> Adapter:
        asyncio.run(self.record_some())
        return replay(cassette=self.path)[0]

    async def record_some(self) -> None:
        with record(adapters=[FakeAdapter({"*": "ok"})], cassette=self.path) as recorded:
            for _ in range(4):
                async for _ in recorded[0].stream(self.make_request()):
                    pass


@pytest.mark.parametrize("case", adapter_conformance(FakeAdapter({"*": "ok"})))
def test_the_cases_can_be_parametrized(case: Any) -> None:
    case()


class TestInMemoryStore(StoreConformance):
    def make_store(self) -> InMemoryStore:
        return InMemoryStore()


class TestJsonlFileStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path

    def make_store(self) -> JsonlFileStore:
        return JsonlFileStore(self.path / "runs")

    def reopen(self, store: Any) -> JsonlFileStore:
        return JsonlFileStore(self.path / "runs")


class Broken:
    """An adapter that plays given events and ignores aborts."""

    def __init__(self, *events: Any, id: str = "broken", **fields: Any) -> None:
        self.id = id
        self.events = events
        self.fields = fields

    def caps(self, model: str) -> ModelCaps:
        return ModelCaps.from_wire({**FakeAdapter().caps(model).to_wire(), **self.fields})

    async def stream(self, request: Any, signal: Any = None) -> Any:
        for event in self.events:
            yield event


def done(**usage: int) -> Finish:
    counts = {"input_tokens": 1, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0, **usage}
    return Finish(finish=FinishInfo(reason="stop"), usage=Usage(**counts))


TEXT = TextDelta(text="x")


@pytest.mark.parametrize(
    ("case", "broken"),
    [
        (adapter_cases.the_id_is_a_name_without_a_colon, Broken(done(), id="a:b")),
        (adapter_cases.capabilities_are_complete, Broken(done(), contextWindow=0)),
        (adapter_cases.a_stream_ends_with_its_only_terminal_event, Broken(TEXT)),
        (adapter_cases.a_stream_ends_with_its_only_terminal_event, Broken(done(), done())),
        (adapter_cases.a_stream_ends_with_its_only_terminal_event, Broken(done(), TEXT)),
        (adapter_cases.events_are_of_the_vocabulary, Broken(ToolCallStart(id="", name="t"), done())),
        (adapter_cases.usage_keeps_its_rules, Broken(done(cache_read_tokens=9))),
        (adapter_cases.tool_calls_are_whole, Broken(ToolCallStart(id="1", name="t"), done())),
        (adapter_cases.an_abort_on_arrival_yields_nothing, Broken(TEXT, done())),
        (adapter_cases.an_abort_ends_the_stream_promptly, Broken(TEXT, done())),
        (adapter_cases.an_exchange_survives_recording_and_replay, Broken(TEXT)),
    ],
)
async def test_a_broken_adapter_fails_its_case(case: Any, broken: Any) -> None:
    with pytest.raises(AssertionError):
        await case(broken, ChatRequest(model="m", messages=()))


def test_a_secret_in_an_error_fails_the_suite() -> None:
    class Leaky(AdapterConformance):
        def make_adapter(self) -> Any:
            error = WireError(code="agent", message="bad key sk-FAKEFAKEFAKE", retryable=False)
            return Broken(StreamError(error=error))

        def make_failing_request(self) -> ChatRequest:
            return self.make_request()

        def secrets(self) -> Iterator[str]:
            yield "sk-FAKEFAKEFAKE"

    with pytest.raises(AssertionError, match="secret"):
        Leaky().test_a_failure_is_a_typed_event_without_secrets()


def test_a_store_that_takes_entries_behind_the_tail_fails_the_suite() -> None:
    class Careless(InMemoryStore):
        async def append(self, run_id: str, entries: Any) -> None:
            self._journals.setdefault(run_id, []).extend(entries)

    class Suite(StoreConformance):
        def make_store(self) -> Any:
            return Careless()

    with pytest.raises(AssertionError, match="behind seq 3"):
        Suite().test_an_append_behind_the_tail_is_refused_and_stores_nothing()
