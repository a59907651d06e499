"""Endpoints that speak a dialect in their own way: calls without numbers, ids that come again, pieces out of place."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx2
import pytest
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg
from rulvar.adapters.compatible import openai_compatible
from rulvar.adapters.openai import OpenAIAdapter
from rulvar.contracts.redaction import default_redact
from rulvar.contracts.stream import StreamError
from rulvar.errors import ConfigError

ANTHROPIC, OPENAI, LOCAL = PROVIDERS
USAGE = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
TOLD = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


def pieces(*calls: Any) -> list[Any]:
    return [*({"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls), TOLD, USAGE]


def stream(events: list[Any]) -> httpx2.Response:
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


async def answered(provider: Provider, *answers: httpx2.Response) -> list[list[dict[str, Any]]]:
    """Return the events of one exchange for each answer, all over one adapter."""
    rest = list(answers)
    adapter = provider.adapter(transport=httpx2.MockTransport(lambda request: rest.pop(0)))
    request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),))
    told = [[event.to_wire() async for event in adapter.stream(request)] for _ in answers]
    await adapter.aclose()
    return told


def calls_of(events: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    names = {event["id"]: event["name"] for event in events if event["type"] == "tool-call-start"}
    return [(names[event["id"]], event["args"]) for event in events if event["type"] == "tool-call-end"]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(
            pieces(
                {"index": None, "id": "a", "function": {"name": "one", "arguments": '{"n": 0}'}},
                {"index": None, "id": "b", "function": {"name": "two", "arguments": '{"n": 1}'}},
            ),
            id="no numbers",
        ),
        pytest.param(
            pieces(
                {"function": {"name": "one", "arguments": '{"n":'}},
                {"function": {"arguments": " 0}"}},
                {"function": {"name": "two", "arguments": '{"n": 1}'}},
            ),
            id="no numbers and no ids",
        ),
        pytest.param(
            pieces(
                {"id": "a", "function": {"name": "one", "arguments": '{"n":'}},
                {"id": "b", "function": {"name": "two", "arguments": '{"n":'}},
                {"id": "a", "function": {"name": "one", "arguments": " 0}"}},
                {"id": "b", "function": {"arguments": " 1}"}},
            ),
            id="pieces that name their call",
        ),
        pytest.param(
            pieces(
                {"index": 0, "id": "a", "function": {"name": "one", "arguments": '{"n": 0}'}},
                {"index": 0, "id": "b", "function": {"name": "two", "arguments": '{"n":'}},
                {"index": 0, "function": {"arguments": " 1}"}},
            ),
            id="every number is 0",
        ),
        pytest.param(
            pieces(
                {"index": 0, "id": "same", "function": {"name": "one", "arguments": '{"n": 0}'}},
                {"index": 1, "id": "same", "function": {"name": "two", "arguments": '{"n": 1}'}},
            ),
            id="one id for two calls",
        ),
        pytest.param(
            pieces(
                {"index": 0, "id": "a", "function": {"arguments": ""}},
                {"index": 0, "function": {"name": "one"}},
                {"index": 0, "function": {"arguments": '{"n": 0}'}},
                {"index": 1, "id": "b", "function": {"arguments": '{"n": 1}'}},
                {"index": 1, "function": {"name": "two"}},
            ),
            id="names that come late",
        ),
    ],
)
async def test_calls_stay_apart_however_an_endpoint_numbers_them(told: list[Any]) -> None:
    (events,) = await answered(LOCAL, stream(told))
    assert events[-1]["type"] == "finish"
    assert calls_of(events) == [("one", {"n": 0}), ("two", {"n": 1})]


@pytest.mark.parametrize("ids", [("a", "b"), ("", ""), (None, None), ("same", "same")])
async def test_calls_of_an_answer_in_one_piece_stay_apart(ids: tuple[Any, Any]) -> None:
    calls = [
        {"id": theirs, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for theirs, name in zip(ids, ("one", "two"), strict=True)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    whole = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": USAGE["usage"],
    }
    (events,) = await answered(LOCAL, httpx2.Response(200, json=whole))
    assert calls_of(events) == [("one", {}), ("two", {})]


async def test_a_call_that_is_never_named_is_a_broken_stream() -> None:
    (events,) = await answered(
        LOCAL, stream(pieces({"index": 0, "id": "a", "function": {"arguments": "{}"}}))
    )
    assert [event["type"] for event in events] == ["error"]
    assert events[0]["error"]["retryable"] is True


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_an_id_that_comes_in_every_answer_stands_for_another_call_each_time(provider: Provider) -> None:
    answers = [stream(provider.call("look", {"n": number}, call_id="call_0")) for number in range(3)]
    told = await answered(provider, *answers)
    ids = [event["id"] for events in told for event in events if event["type"] == "tool-call-start"]
    assert len(set(ids)) == 3


async def test_an_answer_that_breaks_off_tells_the_usage_that_it_told() -> None:
    (events,) = await answered(LOCAL, stream([{"choices": [{"delta": {"content": "x"}}]}, USAGE]))
    assert [event["type"] for event in events] == ["text-delta", "usage", "error"]


async def test_a_refusal_in_chunks_is_a_refusal() -> None:
    chunks = [
        {"choices": [{"delta": {"refusal": "I cannot"}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        USAGE,
    ]
    (events,) = await answered(LOCAL, stream(chunks))
    assert events[-1]["finish"] == {"reason": "refusal", "refusal": {"provider": "openai"}}


async def test_arguments_that_come_in_pieces_only_are_kept() -> None:
    script = json.loads(json.dumps(OPENAI.call("look", {"n": 1})))
    for event in script:
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            del event["item"]["arguments"]
    (events,) = await answered(OPENAI, stream(script))
    assert calls_of(events) == [("look", {"n": 1})]


async def test_items_without_ids_are_told_apart_by_their_place() -> None:
    script = json.loads(json.dumps(OPENAI.call("look", {"n": 1})))
    for event in script:
        if event["type"].startswith("response.output_item") and event["output_index"] == 1:
            del event["item"]["id"]
        if event["type"] == "response.function_call_arguments.delta":
            del event["item_id"]
            event["output_index"] = 1
    (events,) = await answered(OPENAI, stream(script))
    assert [event["type"] for event in events][:3] == ["tool-call-start", "tool-call-delta", "tool-call-end"]
    assert calls_of(events) == [("look", {"n": 1})]


@pytest.mark.parametrize(
    ("split", "written", "told"),
    [
        ({}, 0, (None, None)),
        ({"ephemeral_5m_input_tokens": None}, 0, (None, None)),
        ({"ephemeral_1h_input_tokens": 7}, 7, (0, 7)),
        ({"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}, None, (3, 4)),
        ({"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}, 8, (None, None)),
    ],
)
async def test_a_split_of_cache_writes_is_told_when_it_adds_up(
    split: Any, written: int | None, told: tuple[int | None, int | None]
) -> None:
    script = json.loads(json.dumps(ANTHROPIC.text("Hello.")))
    script[0]["message"]["usage"].update(cache_creation=split, cache_creation_input_tokens=written)
    (events,) = await answered(ANTHROPIC, stream(script))
    usage = events[-1]["usage"]
    assert (usage.get("cacheWrite5mTokens"), usage.get("cacheWrite1hTokens")) == told
    assert usage["inputTokens"] == 1000 + usage["cacheWriteTokens"]


async def test_an_endpoint_that_is_not_there_is_named_and_its_credentials_are_not() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        adapter = openai_compatible("local", f"http://user:FAKEPASSWORD@127.0.0.1:{port}/v1?key=FAKEKEY")
        request = ChatRequest(model="m", messages=(Msg.text("user", "hi"),))
        [failed] = [event async for event in adapter.stream(request)]
    assert isinstance(failed, StreamError)
    assert (
        failed.error.message
        == f"the connection to the provider failed (127.0.0.1:{port}: Connection refused)"
    )
    await adapter.aclose()


async def test_a_missing_key_is_told_in_words_that_no_masking_takes_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    request = ChatRequest(model="m", messages=(Msg.text("user", "hi"),))
    with pytest.raises(ConfigError) as refused:
        _ = [event async for event in OpenAIAdapter(model="m").stream(request)]
    assert default_redact(refused.value.message) == refused.value.message
    assert "set OPENAI_API_KEY" in refused.value.message
