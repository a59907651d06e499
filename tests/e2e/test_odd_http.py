"""Real HTTP on loopback beyond the provider: gateways that answer with pages, redirects, compression, proxies."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from loopback import LoopbackServer, Reply, sse
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg
from rulvar.errors import ConfigError

every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


async def exchange(provider: Provider, url: str, **options: Any) -> list[dict[str, Any]]:
    adapter = provider.adapter(url, **options)
    request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),))
    try:
        return [event.to_wire() async for event in adapter.stream(request)]
    finally:
        await adapter.aclose()


@every
async def test_a_page_instead_of_an_answer_says_so(provider: Provider) -> None:
    page = Reply(headers={"content-type": "text/html; charset=utf-8"}, pieces=[b"<html>log in</html>"])
    async with LoopbackServer(page) as server:
        (event,) = await exchange(provider, server.url)
    assert "it is text/html and no event stream" in event["error"]["message"]
    assert event["error"]["retryable"] is True


@every
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(provider: Provider, status: int) -> None:
    async with LoopbackServer(Reply(headers={}, pieces=sse(*provider.text("Hello.")))) as elsewhere:
        moved = Reply(status=status, headers={"location": f"{elsewhere.url}/v1/messages"})
        async with LoopbackServer(moved) as server:
            (event,) = await exchange(provider, server.url)
        assert elsewhere.received == []
    assert "base_url" in event["error"]["message"]
    assert event["error"]["retryable"] is False


@every
async def test_compressed_answers_are_read_and_broken_ones_are_broken_streams(provider: Provider) -> None:
    packed = gzip.compress(b"".join(sse(*provider.text("Hello."))))
    headers = {"content-encoding": "gzip"}
    replies = [
        Reply(headers=headers, pieces=[packed[:9], packed[9:]]),
        Reply(headers=headers, pieces=[packed[: len(packed) // 2]]),
        Reply(headers=headers, pieces=[b"nothing packed"]),
    ]
    for reply, end in zip(replies, ("finish", "error", "error"), strict=True):
        async with LoopbackServer(reply) as server:
            events = await exchange(provider, server.url)
        assert events[-1]["type"] == end


@every
async def test_keep_alives_are_no_events(provider: Provider) -> None:
    pieces = [b": keep-alive\n\n", b"\n\n", b"retry: 10\n\n", b"event: ping\n\n"]
    async with LoopbackServer(Reply(pieces=[*pieces, *sse(*provider.text("Hello.")), *pieces])) as server:
        events = await exchange(provider, server.url)
    assert "".join(event.get("text", "") for event in events) == "Hello."
    assert events[-1]["type"] == "finish"


@every
async def test_a_stream_that_stands_still_is_a_timeout(provider: Provider) -> None:
    pieces = [*sse(*provider.text("Hello."))[:1], 0.6]
    async with LoopbackServer(Reply(pieces=pieces)) as server:
        events = await exchange(provider, server.url, timeout_s=0.2)
    assert events[-1]["error"]["data"] == {"kind": "transport", "timeout": True}
    assert events[-1]["error"]["retryable"] is True


@every
async def test_letters_cut_between_chunks_arrive_whole(provider: Provider) -> None:
    text = "Grüße 東京 👩‍🚀 \u2028 end"
    events = provider.text(text)
    body = "".join(
        (f"event: {event['type']}\n" if "type" in event else "")
        + f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    ).encode("utf-8")
    async with LoopbackServer(Reply(pieces=[bytes([byte]) for byte in body])) as server:
        told = await exchange(provider, server.url)
    assert "".join(event.get("text", "") for event in told) == text


@every
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "nosuch://user:planted-secret@127.0.0.1:1"),
        ("HTTP_PROXY", "::planted-secret"),
        ("SSL_CERT_FILE", "/nonexistent/planted-secret"),
    ],
)
async def test_an_environment_that_allows_no_client_is_named(
    provider: Provider, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as raised:
        await exchange(provider, "http://127.0.0.1:1")
    assert "planted-secret" not in str(raised.value)


@every
async def test_a_proxy_of_the_environment_carries_the_requests(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LoopbackServer(Reply(pieces=sse(*provider.text("Hello.")))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        events = await exchange(provider, "http://provider.invalid")
        assert proxy.received[0].path.startswith("http://provider.invalid/")
    assert events[-1]["type"] == "finish"
