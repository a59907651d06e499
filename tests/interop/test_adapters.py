"""Request bodies, stream mapping and failures of the provider adapters are the original's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2
import pytest

from rulvar import ChatRequest
from rulvar.adapters.anthropic import AnthropicAdapter
from rulvar.adapters.compatible import openai_compatible
from rulvar.adapters.openai import OpenAIAdapter

Handler = Callable[[httpx2.Request], httpx2.Response]
PLAIN = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}


def adapter_of(kind: str, handler: Handler) -> Any:
    transport = httpx2.MockTransport(handler)
    if kind == "anthropic":
        return AnthropicAdapter(api_key="test-key", transport=transport)
    if kind == "openai":
        return OpenAIAdapter(api_key="test-key", transport=transport)
    return openai_compatible("local", "http://localhost:1/v1", transport=transport)


class Body(httpx2.AsyncByteStream):
    """A response body in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def event_stream(events: list[Mapping[str, Any]]) -> httpx2.Response:
    pieces = []
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        pieces.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(pieces))


async def drained(adapter: Any, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    events = [event.to_wire() async for event in adapter.stream(ChatRequest.from_wire(request))]
    await adapter.aclose()
    return numbered(events)


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events with minted tool-call ids written as in the vectors."""
    names: dict[str, str] = {}
    for event in events:
        if str(event["type"]).startswith("tool-call"):
            event["id"] = names.setdefault(event["id"], f"<id{len(names)}>")
    return events


def without_text(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events without the texts of errors: those are each library's own."""
    shown = []
    for event in events:
        if event["type"] == "error":
            kept = {name: value for name, value in event["error"].items() if name not in ("message", "names")}
            event = {**event, "error": kept}
        shown.append(event)
    return shown


def cases(load_vectors: Any, what: str) -> list[dict[str, Any]]:
    return [case for case in load_vectors("adapters.json")["cases"] if what in case]


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError("nothing may be sent")


def test_the_vectors_hold_cases_of_every_kind(load_vectors: Any) -> None:
    groups = {case["group"] for case in load_vectors("adapters.json")["cases"]}
    assert groups == {
        f"{kind}-{what}"
        for kind in ("anthropic", "openai", "local")
        for what in ("params", "stream", "errors")
    }


async def test_request_bodies_are_those_of_the_original(load_vectors: Any) -> None:
    for case in cases(load_vectors, "params"):
        sent: list[Any] = []

        def answer(request: httpx2.Request, sent: list[Any] = sent) -> httpx2.Response:
            sent.append(json.loads(request.content))
            return httpx2.Response(500)

        kind = case["group"].partition("-")[0]
        adapter = adapter_of(kind, answer)
        assert adapter.build_request(case["request"]) == case["params"], case["name"]
        await drained(adapter, case["request"])
        assert sent == [case["params"]], case["name"]


async def test_streams_mean_what_they_mean_to_the_original(load_vectors: Any) -> None:
    models = load_vectors("adapters.json")["models"]
    for case in cases(load_vectors, "provider_events"):
        kind = case["group"].partition("-")[0]
        adapter = adapter_of(kind, lambda request, case=case: event_stream(case["provider_events"]))
        events = await drained(adapter, {"model": models[kind], **PLAIN})
        assert without_text(events) == without_text(case["events"]), (case["group"], case["name"])


async def test_failures_mean_what_they_mean_to_the_original(load_vectors: Any) -> None:
    models = load_vectors("adapters.json")["models"]
    for case in cases(load_vectors, "error"):
        kind, error = case["group"].partition("-")[0], case["error"]

        def answer(request: httpx2.Request, error: Any = error) -> httpx2.Response:
            if error["status"] is None:
                raise httpx2.ReadError("gone") if error["code"] else httpx2.ConnectError("no")
            said = error.get("message")
            body = {"error": {"type": "x", "message": said}} if said else {}
            return httpx2.Response(error["status"], headers=error["headers"] or {}, json=body)

        events = await drained(adapter_of(kind, answer), {"model": models[kind], **PLAIN})
        expected = case["events"]
        assert without_text(events) == without_text(expected), (case["group"], case["name"])
        text = events[0]["error"]["message"]
        assert text == expected[0]["error"].get("message", text)
        for name in expected[0]["error"].get("names", ()):
            assert name in text, (case["group"], case["name"], text)


async def test_requests_that_cannot_be_sent_are_failures_and_send_nothing(load_vectors: Any) -> None:
    for case in cases(load_vectors, "request"):
        if "events" not in case:
            continue
        events = await drained(adapter_of(case["group"].partition("-")[0], refuse), case["request"])
        assert without_text(events) == without_text(case["events"]), case["name"]


@pytest.mark.parametrize("size", [1, 3, 7, 64])
async def test_streams_mean_the_same_however_they_are_cut(load_vectors: Any, size: int) -> None:
    models = load_vectors("adapters.json")["models"]
    for case in cases(load_vectors, "provider_events"):
        kind = case["group"].partition("-")[0]

        def answer(request: httpx2.Request, case: Any = case) -> httpx2.Response:
            whole = b"".join(event_stream(case["provider_events"]).stream.pieces)  # type: ignore[union-attr]
            pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(pieces))

        events = await drained(adapter_of(kind, answer), {"model": models[kind], **PLAIN})
        assert without_text(events) == without_text(case["events"]), (case["group"], case["name"])
