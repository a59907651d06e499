"""Answers beyond the vectors: pauses, odd streams, calls in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg


class Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def stream_of(events: list[Mapping[str, Any]]) -> httpx2.Response:
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(pieces))


async def answered(provider: Provider, *answers: list[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the events of an exchange over scripted answers, and the bodies that were sent."""
    sent: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return stream_of(answers[min(len(sent), len(answers)) - 1])

    adapter = provider.adapter(transport=httpx2.MockTransport(answer))
    request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),))
    events = [event.to_wire() async for event in adapter.stream(request)]
    await adapter.aclose()
    return events, sent


ANTHROPIC, OPENAI, LOCAL = PROVIDERS


def piece(stop: str, text: str, **usage: int) -> list[dict[str, Any]]:
    return [
        {
            "type": "message_start",
            "message": {"id": f"m-{text}", "usage": {"input_tokens": 10, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5, **usage}},
        {"type": "message_stop"},
    ]


async def test_an_answer_that_pauses_is_continued_and_counts_every_piece() -> None:
    events, sent = await answered(ANTHROPIC, piece("pause_turn", "one "), piece("end_turn", "two"))
    assert "".join(event.get("text", "") for event in events) == "one two"
    assert sent[1]["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "one "}]}
    finish = events[-1]
    assert (finish["usage"]["inputTokens"], finish["usage"]["outputTokens"]) == (20, 10)
    assert finish["providerMetadata"]["anthropic"]["wireRequests"] == {
        "count": 2,
        "responseIds": ["m-one ", "m-two"],
    }
    assert sum(event["type"] == "finish" for event in events) == 1


async def test_an_answer_that_pauses_for_ever_is_given_up() -> None:
    events, sent = await answered(ANTHROPIC, piece("pause_turn", "again "))
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["retryable"] is False
    assert len(sent) == 6


async def test_counts_that_grow_during_the_answer_are_the_last_ones() -> None:
    events, _ = await answered(ANTHROPIC, piece("end_turn", "x", cache_read_input_tokens=100))
    assert events[-1]["usage"]["inputTokens"] == 110
    assert events[-1]["usage"]["cacheReadTokens"] == 100


async def test_a_refusal_says_what_the_provider_says_of_it() -> None:
    refused = piece("refusal", "no")
    refused[-2]["delta"]["stop_details"] = {
        "type": "refusal",
        "category": "bio",
        "explanation": None,
        "more": 1,
    }
    events, _ = await answered(ANTHROPIC, refused)
    assert events[-1]["finish"] == {
        "reason": "refusal",
        "refusal": {"provider": "anthropic", "stopDetails": {"type": "refusal", "category": "bio"}},
    }


async def test_arguments_that_are_no_json_are_kept_for_the_engine_to_refuse() -> None:
    for provider in PROVIDERS:
        script = json.dumps(provider.call("look", {"a": 7654})).replace("7654}", "")
        events, _ = await answered(provider, json.loads(script))
        ends = [event for event in events if event["type"] == "tool-call-end"]
        assert "__unparsed" in ends[0]["args"], provider.name


async def test_chunks_without_an_index_or_an_id_still_make_calls() -> None:
    chunks = [
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "a", "arguments": '{"x": 1}'}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ]
    events, _ = await answered(LOCAL, chunks)
    assert [event["type"] for event in events] == [
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "usage",
        "finish",
    ]
    assert events[2]["args"] == {"x": 1}


async def test_two_calls_in_chunks_stay_apart() -> None:
    def call(index: int, **fields: Any) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": [{"index": index, **fields}]}}]}

    chunks = [
        call(0, id="a", function={"name": "one", "arguments": ""}),
        call(1, id="b", function={"name": "two", "arguments": '{"n"'}),
        call(0, function={"arguments": '{"n": 0}'}),
        call(1, function={"arguments": ": 1}"}),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ]
    events, _ = await answered(LOCAL, chunks)
    assert [event["args"] for event in events if event["type"] == "tool-call-end"] == [{"n": 0}, {"n": 1}]


async def test_an_error_inside_a_stream_of_chunks_is_an_error() -> None:
    chunks = [
        {"choices": [{"delta": {"content": "par"}}]},
        {"error": {"code": "server_error", "message": "oh"}},
    ]
    events, _ = await answered(LOCAL, chunks)
    assert events[-1]["error"]["message"] == "oh"
    assert events[-1]["error"]["retryable"] is True


async def test_a_priced_endpoint_that_tells_no_usage_is_an_error_and_a_free_one_costs_nothing() -> None:
    chunks = [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}]
    events, _ = await answered(LOCAL, chunks)
    assert events[-1]["type"] == "error"


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_events_of_unknown_types_are_passed_over(provider: Provider) -> None:
    script = [{"type": "never.heard.of", "x": 1}, *provider.text("Hello."), {"type": "late"}]
    events, _ = await answered(provider, script)
    assert "".join(event.get("text", "") for event in events) == "Hello."
    assert events[-1]["type"] == "finish"


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_nothing_comes_after_the_end(provider: Provider) -> None:
    script = [*provider.text("Hello."), *provider.text("And again.")]
    if provider is LOCAL:
        script.insert(4, {"choices": []})
    events, _ = await answered(provider, script)
    terminals = [event for event in events if event["type"] in ("finish", "error")]
    assert terminals == [events[-1]]
