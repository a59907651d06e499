"""Real HTTP on loopback: whatever a provider does, the engine does the documented thing."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from loopback import LoopbackServer, Reply, failure, sse
from providers import PROVIDERS, Provider, streamed

from rulvar import Engine, InMemoryStore, Outcome, tool, workflow

RETRY = {"attempts": 3, "backoff": {"initial_ms": 1, "jitter": False}}
every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])


class Clock:
    """Wall time whose waits are noted and not waited."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def run(
    provider: Provider, server: LoopbackServer, **options: Any
) -> tuple[Outcome, Clock, InMemoryStore]:
    """Run one agent call against a server."""

    @workflow
    async def ask(ctx: Any) -> Any:
        return await ctx.agent("Say it.", **options)

    store, clock = InMemoryStore(), Clock()
    adapter = provider.adapter(server.url)
    async with Engine(
        adapters=[adapter], journal=store, routing={"loop": provider.reference}, retry=RETRY, clock=clock
    ) as engine:
        outcome = await engine.run(ask, run_id="r").result()
    return outcome, clock, store


@every
async def test_an_answer_is_streamed_priced_and_asked_for_once(provider: Provider) -> None:
    async with LoopbackServer(streamed(provider.text("Hello there."))) as server:
        outcome, _, _ = await run(provider, server)
    assert (outcome.status, outcome.value) == ("ok", "Hello there.")
    assert outcome.cost.total_usd == pytest.approx(0.0012)
    assert len(server.received) == 1
    assert server.received[0].json["stream"] is True


@every
async def test_a_tool_round_keeps_the_providers_own_ids_and_blocks(provider: Provider) -> None:
    @tool
    def look(order: str) -> dict[str, str]:
        """Look an order up."""
        return {"status": f"{order} shipped"}

    async with LoopbackServer(
        streamed(provider.call("look", {"order": "A1"})), streamed(provider.text("Shipped."))
    ) as server:
        outcome, _, _ = await run(provider, server, tools=[look])
    assert (outcome.status, outcome.value) == ("ok", "Shipped.")
    second = server.received[1].body.decode()
    assert second.count("theirs-1") == 2  # the call and its result carry the id that the provider gave
    assert "A1 shipped" in second
    kept = {"anthropic": "SIGN", "openai": "SEALED", "local": "tool_calls"}[provider.name]
    assert kept in second


@every
async def test_a_slow_stream_is_read_to_its_end(provider: Provider) -> None:
    pieces: list[Any] = []
    for piece in sse(*provider.text("Slowly.")):
        for at in range(0, len(piece), 16):
            pieces += [piece[at : at + 16], 0.001]
    async with LoopbackServer(Reply(pieces=pieces)) as server:
        outcome, _, _ = await run(provider, server)
    assert (outcome.status, outcome.value) == ("ok", "Slowly.")


@every
async def test_a_stream_that_is_dropped_is_asked_for_again(provider: Provider) -> None:
    begun = sse(*provider.text("Hello there."))[:2]
    async with LoopbackServer(
        Reply(pieces=[*begun, 0.01, None]), streamed(provider.text("Whole."))
    ) as server:
        outcome, clock, _ = await run(provider, server)
    assert (outcome.status, outcome.value) == ("ok", "Whole.")
    assert len(server.received) == 2
    assert len(clock.slept) == 1


@every
async def test_a_stream_that_ends_early_is_asked_for_again(provider: Provider) -> None:
    async with LoopbackServer(
        Reply(pieces=sse(*provider.text("Hello there."))[:2]), streamed(provider.text("Whole."))
    ) as server:
        outcome, _, _ = await run(provider, server)
    assert (outcome.status, outcome.value, len(server.received)) == ("ok", "Whole.", 2)


@every
@pytest.mark.parametrize(
    "garbage",
    [
        b"data: {not json\n\n",
        b"data: [1, 2]\n\n",
        b'data: "text"\n\n',
        b"data: \xff\xfe\n\n",
        b'event: content_block_delta\ndata: {"type": "content_block_delta"}\n\n'
        b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": 7}\n\n'
        b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
        b"<html>bad gateway</html>",
    ],
    ids=["broken-json", "array", "text", "no-utf8", "wrong-shapes", "html"],
)
async def test_a_malformed_stream_is_asked_for_again_and_then_fails_with_a_clear_error(
    provider: Provider, garbage: bytes
) -> None:
    async with LoopbackServer(Reply(pieces=[garbage])) as server:
        outcome, _, _ = await run(provider, server)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "stream broke" in outcome.error.message
    assert (outcome.error.data or {})["kind"] == "transport"
    assert len(server.received) == 3


@every
async def test_a_rate_limit_waits_as_long_as_the_provider_asks(provider: Provider) -> None:
    async with LoopbackServer(
        failure(429, "slow down", retry_after="7"), streamed(provider.text("Later."))
    ) as server:
        outcome, clock, _ = await run(provider, server)
    assert (outcome.status, outcome.value) == ("ok", "Later.")
    assert clock.slept == [7.0]


@every
async def test_an_overloaded_provider_is_tried_as_often_as_the_policy_says(provider: Provider) -> None:
    async with LoopbackServer(failure(529, "overloaded")) as server:
        outcome, clock, _ = await run(provider, server)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "overloaded" in outcome.error.message
    assert (outcome.error.data or {})["status"] == 529
    assert (len(server.received), len(clock.slept)) == (3, 2)


@every
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 307])
async def test_what_cannot_change_is_not_tried_again(provider: Provider, status: int) -> None:
    async with LoopbackServer(
        failure(status, "Incorrect API key: test-key", location="http://127.0.0.1:1/")
    ) as server:
        outcome, _, store = await run(provider, server)
    assert outcome.status == "error"
    assert len(server.received) == 1
    assert outcome.error is not None
    assert "test-key" not in outcome.error.message
    assert "test-key" not in repr([entry.to_wire() for entry in await store.load("r")])


@every
async def test_a_key_that_a_provider_repeats_reaches_no_journal_event_or_text(provider: Provider) -> None:
    secret = "planted-0123456789-secret"
    said = f"bad request with {secret} and sk-proj-abcdefghijklmnop and Bearer abcdefghijklmnop"

    @workflow
    async def ask(ctx: Any) -> Any:
        return await ctx.agent("Say it.")

    async with LoopbackServer(failure(400, said)) as server:
        store = InMemoryStore()
        adapter = provider.adapter(server.url, key=secret)
        async with Engine(adapters=[adapter], journal=store, routing={"loop": provider.reference}) as engine:
            handle = engine.run(ask, run_id="r")
            outcome = await handle.result()
            events = [event.to_wire() async for event in handle.events]
    everything = repr((outcome, [entry.to_wire() for entry in await store.load("r")], events))
    assert "bad request with" in everything
    for text in (secret, "sk-proj-abcdefghijklmnop", "Bearer abcdefghijklmnop"):
        assert text not in everything


@every
async def test_nobody_listening_is_a_fault_that_is_tried_again(provider: Provider) -> None:
    async with LoopbackServer() as server:
        url = server.url

    class Nowhere:
        pass

    gone = Nowhere()
    gone.url = url  # type: ignore[attr-defined]
    outcome, clock, _ = await run(provider, gone)  # type: ignore[arg-type]
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "connection" in outcome.error.message
    assert len(clock.slept) == 2


@every
async def test_cancelling_a_run_ends_a_stream_that_hangs(provider: Provider) -> None:
    @workflow
    async def ask(ctx: Any) -> Any:
        return await ctx.agent("Say it.")

    begun = sse(*provider.text("Hello there."))[:2]
    async with LoopbackServer(Reply(pieces=[*begun, 60.0])) as server:
        adapter = provider.adapter(server.url)
        async with Engine(adapters=[adapter], routing={"loop": provider.reference}) as engine:
            handle = engine.run(ask)
            while not server.received:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            started = time.monotonic()
            await handle.cancel("enough")
            outcome = await handle.result()
            assert time.monotonic() - started < 2
    assert outcome.status == "cancelled"


@every
async def test_an_abort_ends_a_stream_promptly_without_a_terminal_event(provider: Provider) -> None:
    from rulvar import ChatRequest, Msg

    begun = sse(*provider.text("Hello there."))[:2]
    async with LoopbackServer(Reply(pieces=[*begun, 60.0])) as server:
        adapter, signal = provider.adapter(server.url), asyncio.Event()
        request = ChatRequest(model=provider.model, messages=(Msg.text("user", "hi"),))
        asyncio.get_running_loop().call_later(0.1, signal.set)
        started = time.monotonic()
        events = [event async for event in adapter.stream(request, signal)]
        assert time.monotonic() - started < 2
        assert all(event.to_wire()["type"] in ("usage", "text-delta") for event in events)
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]
        await adapter.aclose()


@every
async def test_an_answer_in_one_piece_is_read_like_a_stream(provider: Provider) -> None:
    """Some gateways answer with JSON whatever they are asked for."""
    whole = {
        "anthropic": {
            "id": "msg_1",
            "type": "message",
            "content": [{"type": "text", "text": "Whole."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1000, "output_tokens": 500},
        },
        "openai": {
            "status": "completed",
            "usage": {"input_tokens": 1000, "output_tokens": 500},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Whole."}]}],
        },
        "local": {
            "choices": [{"index": 0, "message": {"content": "Whole."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 500},
        },
    }[provider.name]
    body = json.dumps(whole).encode()
    reply = Reply(headers={"content-type": "application/json"}, pieces=[body], declared=len(body))
    async with LoopbackServer(reply) as server:
        outcome, _, _ = await run(provider, server)
    assert (outcome.status, outcome.value) == ("ok", "Whole.")
    assert outcome.cost.total_usd == pytest.approx(0.0012)


@every
@pytest.mark.parametrize(
    "usage", [None, {}, "many", {"input_tokens": -1, "output_tokens": 1, "prompt_tokens": -1}]
)
async def test_an_answer_without_a_usable_usage_is_an_error_and_not_free(
    provider: Provider, usage: Any
) -> None:
    text = json.dumps(provider.text("Hi."))
    events = json.loads(text)
    for event in events:
        for holder in (event, event.get("message"), event.get("response")):
            if isinstance(holder, dict) and "usage" in holder:
                holder["usage"] = usage
    async with LoopbackServer(streamed(events)) as server:
        outcome, _, _ = await run(provider, server)
    assert outcome.status == "error"
    assert len(server.received) == 1


@every
async def test_connections_are_used_again_and_closed_with_the_engine(provider: Provider) -> None:
    @workflow
    async def ask(ctx: Any) -> Any:
        return [await ctx.agent(f"Say {n}.") for n in range(5)]

    async with LoopbackServer(streamed(provider.text("Hi."))) as server:
        async with Engine(
            adapters=[provider.adapter(server.url)], routing={"loop": provider.reference}
        ) as engine:
            outcome = await engine.run(ask).result()
            assert outcome.value == ["Hi."] * 5
            assert server.connections == 1
        await asyncio.sleep(0.05)
        assert not server.open
