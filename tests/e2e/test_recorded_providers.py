"""What was recorded through a provider adapter replays as it ran, and holds no credential."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from loopback import LoopbackServer, Received, Reply
from providers import PROVIDERS, Provider, streamed

from rulvar import ChatRequest, Engine, InMemoryStore, Outcome, tool, workflow
from rulvar.testing import read_cassette, record, replay

SECRETS = {
    "key": "sk-planted-key-0000000000000000",
    "header": "planted-header-0000000000000000",
    "bearer": "Bearer planted-bearer-00000000000",
    "query": "sk-planted-query-000000000000000",
    "prompt": "sk-ant-planted-prompt-0000000000",
    "result": "ghp_plantedResult0000000000000000",
    "answer": "AKIAPLANTEDANSWER000",
    "reply_header": "planted-reply-header-000000000",
}


@tool
def look(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"status": "shipped", "token": SECRETS["result"]}


@workflow
async def support(ctx: Any, args: Any) -> Any:
    first = await ctx.agent(f"Where is A1? My key is {SECRETS['prompt']}", tools=[look], label="look-up")
    second = await ctx.agent("Say it shortly.", label="short")
    return [first, second]


async def run(adapters: Any, provider: Provider) -> tuple[Outcome, list[Any]]:
    store = InMemoryStore()
    async with Engine(adapters=adapters, journal=store, routing={"loop": provider.reference}) as engine:
        outcome = await engine.run(support, {"a": 1}, run_id="r").result()
    return outcome, [shape(entry.to_wire()) for entry in await store.load("r")]


def shape(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without times and tool-call ids, which are the run's own."""
    return {name: value for name, value in entry.items() if name not in ("startedAt", "endedAt", "genesis")}


def answers(provider: Provider) -> list[Any]:
    """What the server plays: a tool call, an answer, an answer; every reply has a secret header."""

    def with_header(reply: Reply) -> Any:
        def answer(request: Received) -> Reply:
            return Reply(
                headers={"x-secret": SECRETS["reply_header"], "set-cookie": f"s={SECRETS['reply_header']}"},
                pieces=reply.pieces,
            )

        return answer

    call = provider.call("look", {"order": "A1"})
    return [
        with_header(streamed(events))
        for events in (call, provider.text(f"Shipped, key {SECRETS['answer']}."), provider.text("Shipped."))
    ]


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_a_recorded_run_replays_as_it_ran_and_holds_no_credential(
    provider: Provider, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    async with LoopbackServer(*answers(provider)) as server:
        adapter = provider.adapter(
            server.url,
            key=SECRETS["key"],
            headers={"x-extra": SECRETS["header"], "x-more": SECRETS["bearer"]},
            transport=QueryTransport(SECRETS["query"]),
        )
        with record(adapters=[adapter], cassette=path) as wrapped:
            live, live_entries = await run(wrapped, provider)
        sent = server.received
    assert live.status == "ok"
    assert any(SECRETS["key"] in value for value in sent[0].headers.values())
    assert SECRETS["header"] in sent[0].headers["x-extra"]
    assert SECRETS["query"] in sent[0].path
    assert SECRETS["prompt"] in sent[0].body.decode()
    assert SECRETS["result"] in sent[1].body.decode()

    text = path.read_text("utf-8")
    for place, secret in SECRETS.items():
        assert secret not in text, place
    assert len(read_cassette(path).rows) == 3

    served, entries = await run(replay(cassette=path), provider)
    assert (served.status, served.usage) == (live.status, live.usage)
    assert masked(served.value) == masked(live.value)
    assert served.cost.total_usd == live.cost.total_usd
    assert [entry["key"] for entry in entries] == [entry["key"] for entry in live_entries]
    assert len(entries) == len(live_entries)


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_a_credential_that_a_model_writes_into_arguments_is_masked_too(
    provider: Provider, tmp_path: Path
) -> None:
    """The masked arguments make another next request: such a run is recorded safely and replays up to there."""
    planted = "xoxb-planted-arguments-00000000"
    path = tmp_path / "calls.jsonl"
    calls = [streamed(provider.call("look", {"order": planted})), streamed(provider.text("Shipped."))]
    async with LoopbackServer(*calls) as server:
        with record(adapters=[provider.adapter(server.url)], cassette=path) as wrapped:
            live, _ = await run(wrapped, provider)
    assert live.status == "ok"
    assert planted not in path.read_text("utf-8")


PLACES = (
    "system", "user", "description", "schema", "argument", "result", "stop", "option", "answer", "model-argument",
    "call-id", "thinking", "response-id", "failure",
)  # fmt: skip
PLANTED = {place: f"sk-planted-{place}-0000000000000000" for place in PLACES}
KEY, HEADER = "a key of no known shape", "a token of no known shape"


def planted_request(provider: Provider, number: int) -> ChatRequest:
    call = {"type": "tool-call", "id": "c1", "name": "look", "args": {"of": PLANTED["argument"]}}
    result = {"type": "tool-result", "id": "c1", "name": "look", "result": [PLANTED["result"]]}
    said = [
        ("system", {"type": "text", "text": PLANTED["system"]}),
        ("user", {"type": "text", "text": f"{number}: {PLANTED['user']} {KEY}"}),
        ("assistant", call),
        ("tool", result),
    ]
    parameters = {
        "type": "object",
        "properties": {"of": {"type": "string", "description": PLANTED["schema"]}},
    }
    return ChatRequest.from_wire(
        {
            "model": provider.model,
            "messages": [{"role": role, "parts": [part]} for role, part in said],
            "tools": [{"name": "look", "description": PLANTED["description"], "parameters": parameters}],
            "stopSequences": [PLANTED["stop"]],
            "providerOptions": {provider.name: {"of": PLANTED["option"]}},
        }
    )


def planted_replies(provider: Provider) -> list[Reply]:
    told = {"message": f"{KEY} {HEADER} {PLANTED['failure']}", "type": "server_error", "code": "server_error"}
    call = json.dumps(provider.call("look", {"of": PLANTED["model-argument"]}, call_id=PLANTED["call-id"]))
    for place, text in (("thinking", "SIGN"), ("thinking", "SEALED"), ("response-id", "_1")):
        call = call.replace(f'{text}"', f'{text} {PLANTED[place]}"')
    limits = {"x-ratelimit-limit-requests": KEY, "x-ratelimit-remaining-requests": HEADER}
    body = [json.dumps({"error": told}).encode()]
    return [
        streamed(json.loads(call)),
        streamed(provider.text(f"Here: {PLANTED['answer']} {KEY} {HEADER}")),
        streamed([{"type": "error", "error": told}]),
        *(
            Reply(status, headers={"content-type": "application/json", **limits}, pieces=body)
            for status in (400, 401, 403, 404, 429, 500, 529)
        ),
    ]


@pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
async def test_no_place_of_a_request_or_an_answer_brings_a_credential_into_the_cassette(
    provider: Provider, tmp_path: Path
) -> None:
    path, replies = tmp_path / "calls.jsonl", planted_replies(provider)
    async with LoopbackServer(*replies) as server:
        adapter = provider.adapter(server.url, key=KEY, headers={"x-auth": f"Bearer {HEADER}"})
        with record(adapters=[adapter], cassette=path) as wrapped:
            for number in range(len(replies)):
                request = planted_request(provider, number)
                told = [event.to_wire() async for event in wrapped[0].stream(request)]
                if number > 1:
                    assert told[-1]["type"] == "error"
                    assert not any(text in json.dumps(told) for text in (KEY, HEADER, *PLANTED.values()))
        await adapter.aclose()
        sent = server.received[0]
    for place in PLACES[:6]:
        assert PLANTED[place] in sent.body.decode(), place
    text = path.read_text("utf-8")
    assert len(read_cassette(path).rows) == len(replies)
    for place, secret in {**PLANTED, "key": KEY, "header": HEADER}.items():
        assert secret not in text, place


def masked(value: Any) -> Any:
    from rulvar.testing import default_redact

    return json.loads(default_redact(json.dumps(value)))


class QueryTransport(httpx2.AsyncBaseTransport):
    """Puts a credential into every request's query, as some gateways want it."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_set_param("key", self._secret)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
