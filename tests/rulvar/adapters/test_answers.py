"""Answers beyond the vectors: pauses, odd streams, calls in pieces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg
from rulvar.errors import ConfigError


class Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def stream_of(events: list[Mapping[str, Any]]) -> httpx2.Response:
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(pieces))


async def answered(
    provider: Provider, *answers: list[Any], options: Any = None, **kinds: Any
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the events of an exchange over scripted answers, and the bodies that were sent."""
    sent: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return stream_of(answers[min(len(sent), len(answers)) - 1])

    adapter = provider.adapter(transport=httpx2.MockTransport(answer), **kinds)
    request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),), provider_options=options)
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


@pytest.mark.parametrize(("option", "made"), [({}, 6), ({"pauseTurnMaxContinuations": 0}, 1)])
async def test_an_answer_that_pauses_for_ever_is_broken_off_and_names_its_requests(
    option: dict[str, Any], made: int
) -> None:
    events, sent = await answered(ANTHROPIC, piece("pause_turn", "again "), options={"anthropic": option})
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["retryable"] is True
    assert events[-1]["error"]["data"] == {
        "kind": "transport",
        "wireRequests": {"count": made, "responseIds": ["m-again "] * made},
    }
    assert len(sent) == made


async def test_each_piece_of_an_answer_that_pauses_tells_its_own_usage() -> None:
    first, second = piece("pause_turn", "one "), piece("end_turn", "two")
    second[0]["message"]["usage"] = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3}
    events, _ = await answered(ANTHROPIC, first, second)
    told = [event["usage"] for event in events if event["type"] == "usage"]
    assert [usage["inputTokens"] for usage in told] == [10, 10]
    assert [usage["cacheReadTokens"] for usage in told] == [0, 3]
    assert events[-1]["usage"]["inputTokens"] == 20
    assert events[-1]["usage"]["cacheReadTokens"] == 3


async def test_an_answer_that_breaks_after_a_pause_names_the_requests_before() -> None:
    cut = piece("end_turn", "two")[:3]
    events, _ = await answered(ANTHROPIC, piece("pause_turn", "one "), cut)
    assert events[-1]["error"]["data"]["wireRequests"] == {"count": 1, "responseIds": ["m-one "]}
    alone, _ = await answered(ANTHROPIC, cut)
    assert "wireRequests" not in alone[-1]["error"]["data"]


@pytest.mark.parametrize("value", [-1, 1.5, "5", True, [], 2**53])
async def test_a_number_of_continuations_that_is_none_is_refused_before_anything_is_sent(value: Any) -> None:
    with pytest.raises(ConfigError, match="pauseTurnMaxContinuations"):
        await answered(
            ANTHROPIC, piece("end_turn", "x"), options={"anthropic": {"pauseTurnMaxContinuations": value}}
        )


async def test_counts_that_grow_during_the_answer_are_the_last_ones() -> None:
    events, _ = await answered(ANTHROPIC, piece("end_turn", "x", cache_read_input_tokens=100))
    assert events[-1]["usage"]["inputTokens"] == 110
    assert events[-1]["usage"]["cacheReadTokens"] == 100


async def test_a_count_in_the_middle_that_is_no_number_leaves_the_one_before() -> None:
    events, _ = await answered(ANTHROPIC, piece("end_turn", "x", output_tokens="x", input_tokens=True))  # type: ignore[arg-type]
    assert (events[-1]["usage"]["inputTokens"], events[-1]["usage"]["outputTokens"]) == (10, 1)


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


@pytest.mark.parametrize(
    "error",
    [{"code": "server_error", "message": "oh"}, {"code": 500, "message": "oh"}, "oh", {"message": "oh"}],
)
async def test_an_error_inside_a_stream_of_chunks_is_a_broken_stream(error: Any) -> None:
    events, _ = await answered(LOCAL, [{"choices": [{"delta": {"content": "par"}}]}, {"error": error}])
    assert events[-1]["error"] == {
        "code": "agent",
        "message": "oh",
        "retryable": True,
        "data": {"kind": "transport"},
    }


@pytest.mark.parametrize(
    "text", ["{", " ", "{} {}", '{"a": NaN}', "{'a': 1}", '{"a": 1,}', "\u00a0{}", "undefined"]
)
@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_arguments_that_are_not_exactly_json_stay_the_text_that_they_are(
    provider: Provider, text: str
) -> None:
    script = json.dumps(provider.call("look", {"a": 1})).replace(json.dumps('{"a": 1}'), json.dumps(text))
    if provider is LOCAL:
        call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": text}}
        script = json.dumps(
            [{"choices": [{"delta": {"tool_calls": [call]}}]}, *provider.call("look", {})[-2:]]
        )
    events, _ = await answered(provider, json.loads(script))
    (end,) = [event for event in events if event["type"] == "tool-call-end"]
    assert end["args"] == {"__unparsed": text}


async def test_a_chunk_tells_no_tokens_of_reasoning() -> None:
    script = LOCAL.text("Hello.")
    script[-1]["usage"]["completion_tokens_details"] = {"reasoning_tokens": 3}
    events, _ = await answered(LOCAL, script)
    assert "reasoningTokens" not in events[-1]["usage"]


NO_USAGE = {
    "anthropic": [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "openai": [{"type": "response.completed", "response": {"id": "r", "output": []}}],
    "local": [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}],
}
ZERO = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0}


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_an_answer_without_a_usage_is_an_error_where_it_has_a_price_and_counts_nothing_where_not(
    provider: Provider,
) -> None:
    events, _ = await answered(provider, NO_USAGE[provider.name])
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["data"]["reason"] == "invalid_response"
    free = {"structured_output": "native", "context_window": 100_000, "pricing": None}
    events, _ = await answered(provider, NO_USAGE[provider.name], caps=free)
    assert events[-1]["finish"] == {"reason": "stop"}
    assert events[-1]["usage"] == ZERO
    assert [event["usage"] for event in events if event["type"] == "usage"] == [ZERO]


@pytest.mark.parametrize(
    ("details", "read", "written"),
    [
        ({}, 0, 0),
        ({"cached_tokens": 400}, 400, 0),
        ({"cached_tokens": 100, "cache_write_tokens": 200}, 100, 200),
        ({"cached_tokens": 800, "cache_write_tokens": 500}, 800, 200),
        ({"cache_write_tokens": 2500}, 0, 1000),
        ({"cached_tokens": -5, "cache_write_tokens": -7}, 0, 0),
        ({"cached_tokens": "many", "cache_write_tokens": None}, 0, 0),
        ("none", 0, 0),
    ],
)
@pytest.mark.parametrize("provider", [OPENAI, LOCAL], ids=["openai", "local"])
async def test_what_a_cache_holds_is_a_part_of_the_input_that_openai_counts(
    provider: Provider, details: Any, read: int, written: int
) -> None:
    script = provider.text("Hello.", 1000, 10)
    usage = script[-1]["response"]["usage"] if provider is OPENAI else script[-1]["usage"]
    usage["input_tokens_details" if provider is OPENAI else "prompt_tokens_details"] = details
    events, _ = await answered(provider, script)
    assert events[-1]["usage"] == {
        "inputTokens": 1000,
        "outputTokens": 10,
        "cacheReadTokens": read,
        "cacheWriteTokens": written,
    }


@pytest.mark.parametrize("given", [-3, 2.5])
@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_an_impossible_usage_is_an_error_and_what_is_possible_in_it_is_accounted(
    provider: Provider, given: float
) -> None:
    text = json.dumps(provider.text("Hello.", 1000, 123456)).replace("123456", str(given))
    events, _ = await answered(provider, json.loads(text))
    assert events[-1]["error"]["retryable"] is False
    assert events[-2]["usage"]["inputTokens"] == 1000
    assert events[-2]["usage"]["outputTokens"] == max(0, -(-given // 1))


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
def test_an_adapter_tells_how_it_reads_usages(provider: Provider) -> None:
    additive = provider is ANTHROPIC
    expected = "anthropic-cache-additive-v1" if additive else "openai-cache-subsets-v2"
    assert provider.adapter().usage_semantics == expected


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
