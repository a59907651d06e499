"""How adapters use the SDKs: late, once per loop, without retries, over any transport."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import httpx
import httpx2
import pytest
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Engine, Msg, workflow
from rulvar.adapters import sdk
from rulvar.adapters.anthropic import AnthropicAdapter
from rulvar.adapters.compatible import openai_compatible
from rulvar.adapters.openai import OpenAIAdapter
from rulvar.errors import ConfigError

every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])


def ask(model: str) -> ChatRequest:
    return ChatRequest(model=model, messages=(Msg.text("user", "hi"),))


def test_importing_and_making_an_adapter_loads_no_sdk() -> None:
    code = (
        "import sys\n"
        "from rulvar.adapters.anthropic import AnthropicAdapter\n"
        "from rulvar.adapters.openai import OpenAIAdapter\n"
        "from rulvar.adapters.compatible import openai_compatible\n"
        "AnthropicAdapter(api_key='k').build_request({'model': 'm', 'messages': []})\n"
        "OpenAIAdapter(api_key='k').caps('m'); openai_compatible('l', 'http://127.0.0.1:1/v1')\n"
        "print(sorted(set(sys.modules) & {'anthropic', 'openai', 'httpx', 'httpx2', 'pydantic'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@every
def test_a_missing_sdk_names_the_extra(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"rulvar\[(anthropic|openai)\]"):
        provider.adapter()


@pytest.mark.parametrize("make", [AnthropicAdapter, OpenAIAdapter])
async def test_a_missing_key_is_a_clear_error_and_ends_the_run(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", "/nonexistent")
    monkeypatch.setenv("HOME", "/nonexistent")
    transport = httpx2.MockTransport(lambda request: httpx2.Response(500))

    @workflow
    async def once(ctx: Any) -> Any:
        return await ctx.agent("hi")

    adapter = make(transport=transport)
    async with Engine(adapters=[adapter], routing={"loop": f"{adapter.id}:m"}) as engine:
        outcome = await engine.run(once).result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "api_key" in outcome.error.message


@every
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_transport_of_either_http_library_carries_the_requests(
    provider: Provider, library: Any
) -> None:
    sent: list[Any] = []

    async def answer(request: Any) -> Any:
        sent.append((request.method, str(request.url), request.headers.get("authorization"), request.content))
        return library.Response(529, json={"error": {"message": "busy"}}, headers={"x-a": "1"})

    adapter = provider.adapter(transport=library.MockTransport(answer))
    events = [event.to_wire() async for event in adapter.stream(ask(provider.model))]
    await adapter.aclose()
    assert events[0]["error"]["message"] == "busy"
    assert len(sent) == 1
    assert sent[0][0] == "POST"
    assert b'"stream":true' in sent[0][3].replace(b" ", b"")


@every
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_transport_that_cannot_connect_is_a_fault_of_transport(
    provider: Provider, library: Any
) -> None:
    def fail(request: Any) -> Any:
        raise library.ConnectTimeout("no")

    adapter = provider.adapter(transport=library.MockTransport(fail))
    events = [event.to_wire() async for event in adapter.stream(ask(provider.model))]
    await adapter.aclose()
    assert events[0]["error"]["retryable"] is True
    assert events[0]["error"]["data"] == {"kind": "transport", "timeout": True}


def test_an_adapter_serves_one_event_loop_after_another() -> None:
    provider = PROVIDERS[0]
    adapter = provider.adapter(transport=httpx2.MockTransport(lambda request: httpx2.Response(529)))

    async def once() -> str:
        events = [event async for event in adapter.stream(ask(provider.model))]
        await adapter.aclose()
        return str(events[-1].to_wire()["type"])

    assert [asyncio.run(once()) for _ in range(3)] == ["error"] * 3


async def test_closing_spares_what_is_under_way() -> None:
    provider = PROVIDERS[0]
    from loopback import LoopbackServer, Reply, sse

    pieces = sse(*provider.text("Hello there."))
    async with LoopbackServer(Reply(pieces=[*pieces[:2], 0.1, *pieces[2:]])) as server:
        adapter = provider.adapter(server.url)
        stream = adapter.stream(ask(provider.model))
        await anext(stream)
        await adapter.aclose()  # another engine of the process is done; this exchange goes on
        events = [event.to_wire() async for event in stream]
        assert events[-1]["type"] == "finish"
        await adapter.aclose()


@pytest.mark.parametrize("transport", ["http://x", 3, object()])
async def test_what_is_no_transport_is_refused(transport: Any) -> None:
    adapter = AnthropicAdapter(api_key="k", transport=transport)
    with pytest.raises(ConfigError, match="transport"):
        async for _ in adapter.stream(ask("claude-sonnet-5")):
            pass


async def test_a_ready_client_is_used_with_its_retries_switched_off() -> None:
    import openai

    calls: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(request)
        return httpx2.Response(529)

    client = openai.AsyncOpenAI(
        api_key="k", max_retries=5, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    )
    events = [event async for event in OpenAIAdapter(client=client).stream(ask("gpt-5.4"))]
    assert events[-1].to_wire()["type"] == "error"
    assert len(calls) == 1
    await client.close()


async def test_text_that_no_provider_takes_is_a_clear_error() -> None:
    adapter = PROVIDERS[0].adapter(transport=httpx2.MockTransport(lambda request: httpx2.Response(500)))
    request = ChatRequest(model="claude-sonnet-5", messages=(Msg.text("user", "\ud800"),))
    with pytest.raises(ConfigError, match="surrogate"):
        async for _ in adapter.stream(request):
            pass
    await adapter.aclose()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("api_key", "k"),
        ("base_url", "http://x.test"),
        ("timeout_s", 3),
        ("headers", {"a": "b"}),
        ("transport", 1),
    ],
)
@pytest.mark.parametrize("make", [AnthropicAdapter, OpenAIAdapter])
def test_what_a_ready_client_would_not_heed_is_refused_beside_it(make: Any, option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"client: .* {option}="):
        make(client=object(), **{option: value})


def test_an_endpoint_with_a_ready_client_takes_the_clients_address() -> None:
    import openai

    client = openai.AsyncOpenAI(api_key="k", base_url="http://mine.test/v1")
    assert openai_compatible("local", "http://x.test/v1", client=client).id == "local"
    with pytest.raises(ConfigError, match="api_key="):
        openai_compatible("local", "http://x.test/v1", api_key="k", client=client)
