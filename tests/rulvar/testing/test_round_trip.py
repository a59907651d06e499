"""Whatever an adapter says comes back from its cassette, and the file stays readable by the rules."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, Msg, TextPart, ToolCallPart, ToolResultPart
from rulvar.contracts.redaction import Redactor
from rulvar.contracts.request_hash import request_hash
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    FinishInfo,
    PartialUsage,
    ReasoningDelta,
    Refusal,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
    WireError,
)
from rulvar.contracts.usage import Usage
from rulvar.testing.cassette import read_cassette
from rulvar.testing.cassette_shape import check_row
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.recorder import record
from rulvar.testing.replayer import replay

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
NAME = TEXT.filter(bool)
COUNT = st.integers(0, 2**40)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=2)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    read, write = draw(COUNT), draw(COUNT)
    hour = draw(st.integers(0, write))
    split = draw(st.booleans())
    return Usage(
        input_tokens=read + write + draw(COUNT),
        output_tokens=draw(COUNT),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=draw(st.none() | COUNT),
        cache_write5m_tokens=write - hour if split else None,
        cache_write1h_tokens=hour if split else None,
    )


DELTAS = st.one_of(
    st.builds(lambda text: TextDelta(text=text), TEXT),
    st.builds(lambda text: ReasoningDelta(text=text), TEXT),
    st.builds(lambda id, name: ToolCallStart(id=id, name=name), NAME, NAME),
    st.builds(lambda id, text: ToolCallDelta(id=id, args_text_delta=text), NAME, TEXT),
    st.builds(lambda id, args: ToolCallEnd(id=id, args=args), NAME, JSON),
    st.builds(lambda count: UsageUpdate(usage=PartialUsage(input_tokens=count)), st.none() | COUNT),
)
FINISHES = st.one_of(
    st.sampled_from(["stop", "tool-calls", "max-tokens", "context-window-exceeded"]).map(
        lambda reason: FinishInfo(reason=reason)  # type: ignore[arg-type]
    ),
    st.builds(lambda provider: FinishInfo(reason="refusal", refusal=Refusal(provider=provider)), TEXT),
)
TERMINALS = st.one_of(
    st.builds(
        lambda f, u, m: Finish(finish=f, usage=u, provider_metadata=m), FINISHES, usages(), st.none() | OBJECT
    ),
    st.builds(
        lambda code, text, retryable, data: StreamError(
            error=WireError(code=code, message=text, retryable=retryable, data=data)
        ),
        NAME,
        TEXT,
        st.booleans(),
        st.none() | OBJECT,
    ),
)
STREAMS = st.builds(lambda deltas, terminal: [*deltas, terminal], st.lists(DELTAS, max_size=5), TERMINALS)
REQUESTS = st.builds(
    lambda text, args, result, options: ChatRequest(
        model="m",
        messages=(
            Msg(role="user", parts=(TextPart(text=text),)),
            Msg(role="assistant", parts=(ToolCallPart(id="1", name="t", args=args),)),
            Msg(role="tool", parts=(ToolResultPart(id="1", name="t", result=result),)),
        ),
        provider_options=options,
    ),
    TEXT,
    JSON,
    JSON,
    st.none() | st.dictionaries(TEXT, OBJECT, max_size=2),
)


class Playing:
    """A live adapter that plays the streams in order."""

    id = "playing"

    def __init__(self, streams: list[list[ChatEvent]]) -> None:
        self.streams = iter(streams)

    def caps(self, model: str) -> ModelCaps:
        return FakeAdapter().caps(model)

    async def stream(self, request: Any, signal: Any = None) -> Any:
        for event in next(self.streams):
            yield event


async def drain(stream: Any) -> list[ChatEvent]:
    return [event async for event in stream]


def masked(events: list[ChatEvent]) -> list[Any]:
    """Events as the cassette may hold them."""
    redacted: list[Any] = Redactor().redact_events([event.to_wire() for event in events]).value
    return redacted


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(st.lists(st.tuples(REQUESTS, STREAMS), min_size=1, max_size=4))
def test_what_is_recorded_is_replayed_to_the_same_requests(exchanges: list[tuple[ChatRequest, Any]]) -> None:
    async def law(path: Path) -> None:
        with record(adapters=[Playing([events for _, events in exchanges])], cassette=path) as recorded:
            for request, _ in exchanges:
                await drain(recorded[0].stream(request))
            assert recorded.left_out == ()
        [replayed] = replay(cassette=path)
        for request, events in exchanges:
            served = [event.to_wire() for event in await drain(replayed.stream(request))]
            assert served == masked(events)
        cassette = read_cassette(path)
        for row, (request, _) in zip(cassette.rows, exchanges, strict=True):
            check_row(row.wire)
            assert row.request_hash == request_hash(request)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(law(Path(folder) / "tape.jsonl"))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(REQUESTS, st.permutations(range(5)))
def test_concurrent_calls_replay_to_their_callers_in_any_order_of_completion(
    request_: ChatRequest, order: list[int]
) -> None:
    streams: list[list[ChatEvent]] = [
        [TextDelta(text=str(number)), *FINISHED] for number in range(len(order))
    ]

    async def law(path: Path) -> None:
        with record(adapters=[Playing(streams)], cassette=path) as recorded:
            calls = [recorded[0].stream(request_) for _ in order]
            for call in calls:
                await anext(call)  # started in the order of the calls
            for number in order:
                await drain(calls[number])
        [replayed] = replay(cassette=path)
        again = [replayed.stream(request_) for _ in order]
        texts = [(await drain(call))[0].to_wire()["text"] for call in reversed(again)]
        assert texts == [str(number) for number in reversed(range(len(order)))]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(law(Path(folder) / "tape.jsonl"))


FINISHED = [
    Finish(
        finish=FinishInfo(reason="stop"),
        usage=Usage(input_tokens=1, output_tokens=1, cache_read_tokens=0, cache_write_tokens=0),
    )
]
