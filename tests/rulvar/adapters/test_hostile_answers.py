"""Whatever a provider sends, an exchange ends as the contract says: one terminal event, well-formed facts."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg
from rulvar.contracts.stream import (
    TERMINAL_EVENTS,
    Finish,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from rulvar.contracts.usage import usage_violations

every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
KEY = "FAKE-SECRET-KEY-0123456789"
HOSTILE: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [
            -1,
            0,
            1.5,
            2**53,
            2**70,
            -(2**70),
            "",
            "0",
            "null",
            "message_stop",
            KEY,
            "\ud800",
            "x" * 5000,
            [],
            {},
        ]
    ),
    st.lists(st.sampled_from([None, 1, "a", [], {}]), max_size=3),
    st.dictionaries(
        st.sampled_from(["type", "index", "id", "text", "usage", "delta"]), st.just(1), max_size=3
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def changed(events: list[Any], data: st.DataObject) -> list[Any]:
    events = copy.deepcopy(events)
    for _ in range(data.draw(st.integers(1, 3))):
        what = data.draw(
            st.sampled_from(["value", "value", "value", "remove", "drop", "twice", "swap", "add"])
        )
        at = data.draw(st.integers(0, len(events) - 1)) if events else 0
        if what == "add" or not events:
            events.insert(at, data.draw(HOSTILE))
        elif what == "drop":
            del events[at]
        elif what == "twice":
            events.insert(at, copy.deepcopy(events[at]))
        elif what == "swap":
            other = data.draw(st.integers(0, len(events) - 1))
            events[at], events[other] = events[other], events[at]
        elif paths := places(events[at]):
            *above, last = data.draw(st.sampled_from(paths))
            target = events[at]
            for key in above:
                target = target[key]
            if what == "value":
                target[last] = data.draw(HOSTILE)
            else:
                del target[last]
    return events


async def exchange(provider: Provider, body: bytes, status: int = 200, **headers: str) -> list[Any]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = headers.pop("kind", "text/event-stream")
        return httpx2.Response(status, headers={"content-type": kind, **headers}, content=body)

    adapter = provider.adapter(transport=httpx2.MockTransport(answer), key=KEY)
    request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),), max_output_tokens=64)
    try:
        return [event async for event in adapter.stream(request)]
    finally:
        await adapter.aclose()


def check(events: list[Any]) -> None:
    assert events, "an exchange without any event"
    terminal = [event for event in events if isinstance(event, TERMINAL_EVENTS)]
    assert len(terminal) == 1
    assert events[-1] is terminal[0]
    begun: set[str] = set()
    ended: set[str] = set()
    for event in events:
        json.dumps(event.to_wire()).encode()
        if isinstance(event, ToolCallStart):
            assert event.id not in begun
            assert event.name
            begun.add(event.id)
        elif isinstance(event, ToolCallDelta | ToolCallEnd):
            assert event.id in begun - ended
            if isinstance(event, ToolCallEnd):
                ended.add(event.id)
        elif isinstance(event, UsageUpdate):
            assert all(
                type(count) is int and 0 <= count < 2**53
                for count in event.usage.to_wire().values()
                if count is not None
            )
    if isinstance(events[-1], Finish):
        assert begun == ended or events[-1].finish.reason not in ("stop", "tool-calls")
        assert usage_violations(events[-1].usage) == []
    else:
        assert KEY not in json.dumps(events[-1].to_wire())


@every
@given(data=st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
async def test_a_stream_with_hostile_events(provider: Provider, data: st.DataObject) -> None:
    base = data.draw(st.sampled_from([provider.text("Hello."), provider.call("look", {"order": "A1"})]))
    events = changed(base, data)
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    if provider.name == "anthropic":
        body = "".join(
            f"event: {event.get('type') if isinstance(event, dict) else 'x'}\ndata: {json.dumps(event)}\n\n"
            for event in events
        )
    if data.draw(st.booleans()):
        body += "data: [DONE]\n\n"
    check(await exchange(provider, body.encode("utf-8", "surrogatepass")))


@every
@given(body=st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode())))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
async def test_a_body_that_is_anything(provider: Provider, body: bytes) -> None:
    check(await exchange(provider, body))
    check(await exchange(provider, b"data: " + body + b"\n\n"))


@every
@pytest.mark.parametrize("status", [200, 204, 302, 400, 401, 403, 404, 413, 429, 500, 503, 529])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"error": null}',
        b'{"error": "text"}',
        b'{"error": {"message": {"deep": 1}, "type": 5}}',
        b'{"error": {"message": "' + KEY.encode() + b'"}}',
        b"<html>" + b"x" * 100_000,
        b'{"error": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b"\xff\xfe\x00",
    ],
)
async def test_an_error_with_a_hostile_body(provider: Provider, status: int, body: bytes) -> None:
    for kind in ("application/json", "text/event-stream", "text/html; charset=nonsense"):
        events = await exchange(provider, body, status, kind=kind)
        check(events)
        assert not isinstance(events[-1], Finish)
        assert len(events[-1].error.message) < 1000


@every
@pytest.mark.parametrize("before", [0, 10, 470, 480, 490, 495, 499, 500])
async def test_a_key_in_an_error_inside_a_stream_is_masked_also_where_the_text_is_cut(
    provider: Provider, before: int
) -> None:
    text = "x" * before + KEY + " and more" * 20
    error = {"type": "error", "error": {"type": "api_error", "message": text}, "message": text}
    events = await exchange(provider, f"data: {json.dumps(error)}\n\n".encode())
    check(events)
    assert KEY[:8] not in events[-1].error.message


@every
@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "1e9", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT", "nan", "\x00"]
)
async def test_a_hostile_retry_after(provider: Provider, value: str) -> None:
    try:
        events = await exchange(provider, b"{}", 429, **{"retry-after": value})
    except httpx2.LocalProtocolError:
        return
    check(events)
    wait = events[-1].error.data.get("retryAfterMs")
    assert wait is None or 0 <= wait < 2**53
