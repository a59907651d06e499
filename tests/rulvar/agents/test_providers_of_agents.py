"""Agents on real adapters without a network: prices, failures, and schemas that a provider refuses (S59, S60)."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest
from providers import PROVIDERS, Provider, streamed
from pydantic import BaseModel

from rulvar import ModelPricing, tool
from rulvar.adapters.anthropic import AnthropicAdapter
from rulvar.adapters.openai import OpenAIAdapter
from rulvar.agents import Agent, Limits, check_agent
from rulvar.contracts.strictness import strict_schema
from rulvar.errors import ConfigError
from rulvar.testing.samples import sample_pdf, sample_png
from rulvar.testing.script import final, scripted_model

REPLY = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
PRICES = ModelPricing(input_usd_per_m_tok=0.4, output_usd_per_m_tok=1.6)
every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise AssertionError("nothing may be sent")


def whole(**fields: Any) -> dict[str, Any]:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": '{"reply":"Hi"}'}],
    }
    return {"status": "completed", "output": [message], **fields}


def responding(answer: dict[str, Any], status: int = 200) -> tuple[OpenAIAdapter, list[Any]]:
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return httpx2.Response(status, json=answer)

    adapter = OpenAIAdapter(
        api_key="test-key", model="test-model", pricing=PRICES, transport=httpx2.MockTransport(handler)
    )
    return adapter, sent


async def test_s59_a_price(run: Any) -> None:
    adapter, sent = responding(whole(usage={"input_tokens": 1000, "output_tokens": 500}))
    agent = Agent(
        id="brief",
        instructions="Be brief.",
        model=adapter,
        output=REPLY,
        limits=Limits(max_output_tokens=256),
    )
    told = await run(agent, "Hello")
    assert (told.status, told.outcome.value) == ("ok", {"reply": "Hi"})
    assert told.budget.spent_micros == 1200
    assert len(sent) == 1
    assert (sent[0]["store"], sent[0]["max_output_tokens"]) == (False, 256)
    assert sent[0]["text"]["format"]["strict"] is True


async def test_s59_a_missing_usage_is_an_error_and_never_free(run: Any) -> None:
    adapter, _ = responding(whole())
    told = await run(Agent(id="brief", model=adapter, output=REPLY), "Hello")
    assert (told.status, told.code) == ("error", "model_failed")
    assert told.outcome.error.data["reason"] == "invalid_response"


@pytest.mark.parametrize(
    "told",
    [
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        {"status": "incomplete"},
        {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
    ],
    ids=["tokens", "filter", "other", "refusal"],
)
async def test_an_answer_that_is_not_whole_is_refused_and_paid(run: Any, told: dict[str, Any]) -> None:
    adapter, _ = responding(whole(usage={"input_tokens": 1000, "output_tokens": 500}) | told)
    ended = await run(Agent(id="brief", model=adapter, output=REPLY), "Hello")
    assert (ended.status, ended.code) == ("error", "model_failed")
    assert ended.outcome.error.data["reason"] == "refused"
    assert ended.budget.spent_micros == 1200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b"null"),
        ("application/json", b"[]"),
        ("text/event-stream", b"data: {\n\n"),
        ("text/html", b"<html>log in</html>"),
    ],
)
async def test_what_is_no_answer_of_the_provider_is_an_invalid_response(
    run: Any, kind: str, body: bytes
) -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": kind})

    adapter = OpenAIAdapter(
        api_key="test-key", model="test-model", pricing=PRICES, transport=httpx2.MockTransport(handler)
    )
    told = await run(Agent(id="brief", model=adapter, output=REPLY), "Hello")
    assert (told.status, told.code) == ("error", "model_failed")
    assert told.outcome.error.data["reason"] == "invalid_response"


async def test_s59_a_refused_key(run: Any) -> None:
    adapter, _ = responding({"error": {"message": "Incorrect API key provided: test-key"}}, 401)
    told = await run(Agent(id="brief", model=adapter, output=REPLY), "Hello")
    assert (told.status, told.code) == ("error", "model_failed")
    assert told.outcome.error.data["reason"] == "authentication"
    assert "test-key" not in told.everything


class Note(BaseModel):
    reply: str
    note: str | None = None


class Strict(BaseModel):
    reply: str
    note: str | None


@every
def test_s60_an_optional_field_is_refused_when_the_agent_is_defined(provider: Provider) -> None:
    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    with pytest.raises(ConfigError, match=r"agent 'support': output at /properties/note") as caught:
        Agent(id="support", model=adapter, output=Note)
    assert caught.value.data["code"] == "invalid_config"
    assert caught.value.data["field"] == "note"
    scripted = Agent(id="support", model=scripted_model([]), output=Note)
    with pytest.raises(ConfigError, match="note"):
        check_agent(scripted, adapter)
    for shape in (Strict, strict_schema(Note)):
        for model in (adapter, scripted_model([])):
            assert Agent(id="support", model=model, output=shape).id == "support"


@every
@pytest.mark.parametrize(
    ("output", "field"),
    [
        (object(), "output"),  # nothing that a JSON Schema can be made of
        ({"type": "string"}, "root"),
        ({"type": "object", "additionalProperties": True}, "additionalProperties"),
        ({"type": "object", "properties": {"tags": {"type": "object", "additionalProperties": {"type": "string"}}},
          "required": ["tags"]}, "/properties/tags"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}, "'b'"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "a"]}, "unique"),
        ({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object",
          "properties": {"x": {"type": "string"}}}}}, "required": ["l"]}, "/properties/l/items/properties/x"),
    ],
)  # fmt: skip
def test_what_strict_mode_refuses_names_the_field(provider: Provider, output: Any, field: str) -> None:
    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    with pytest.raises(ConfigError) as caught:
        Agent(id="support", model=adapter, output=output)
    assert caught.value.message.startswith("agent 'support': ")
    assert field in caught.value.message


@every
def test_what_strict_mode_takes(provider: Provider) -> None:
    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    kinds = {
        "nullable": {"type": ["string", "null"]},
        "enum": {"enum": ["a", "b"]},
        "const": {"const": 1},
        "list": {"type": "array", "items": {"type": "integer"}},
        "nested": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        "union": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "empty": {"type": "object"},
    }
    shape = {"type": "object", "properties": kinds, "required": list(kinds)}
    assert Agent(id="a", model=adapter, output=shape).output_contract is not None


@every
def test_a_tool_that_strict_mode_refuses_is_named(provider: Provider) -> None:
    @tool
    def search(query: str, limit: int = 10) -> str:
        """Search."""
        return query

    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    with pytest.raises(ConfigError, match=r"agent 'a': tool 'search' input at /properties/limit"):
        Agent(id="a", model=adapter, output=REPLY, tools=[search])
    assert Agent(id="a", model=scripted_model([]), output=REPLY, tools=[search]).tools == (search,)


@every
def test_more_tools_than_a_provider_takes_are_refused(provider: Provider) -> None:
    def numbered(number: int) -> Any:
        @tool(name=f"t{number}")
        def one() -> str:
            """One of many."""
            return ""

        return one

    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    with pytest.raises(ConfigError, match="129"):
        Agent(id="a", model=adapter, output=REPLY, tools=[numbered(n) for n in range(129)])


@every
def test_an_agent_that_answers_in_plain_text_is_taken(provider: Provider) -> None:
    adapter = provider.adapter(transport=httpx2.MockTransport(refuse)).model(provider.model)
    check_agent(Agent(id="a", model=adapter), adapter)


def test_media_that_a_model_cannot_see_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent 'eye': media: the model cannot see image/png"):
        Agent(id="eye", model=scripted_model([], media=False), media=["image/png"])
    with pytest.raises(ConfigError, match="application/pdf"):
        Agent(id="eye", model=scripted_model([], media=["image/"]), media=["image/png", "application/pdf"])


async def test_a_model_sees_the_media_of_the_input(run: Any) -> None:
    def look(request: Any) -> Any:
        assert [kind for kind, _ in request.messages[0].media] == ["image/png", "application/pdf"]
        return final(request.messages[0].content)

    agent = Agent(id="eye", model=scripted_model([look]), media=["image/png", "application/pdf"])
    media = [
        {"mediaType": "image/png", "data": base64.b64encode(sample_png()).decode()},
        {"mediaType": "application/pdf", "data": base64.b64encode(sample_pdf()).decode()},
    ]
    told = await run(agent, {"input": "What is this?", "media": media})
    assert (told.status, told.outcome.value) == ("ok", "What is this?")
    wrong = await run(
        Agent(id="eye", model=scripted_model([look]), media=["image/png"]), {"input": "x", "media": media}
    )
    assert wrong.code == "invalid_input"
    assert told.view.agents[0].model_calls == 1


@pytest.mark.parametrize(
    "data", ["not base64!", "", 7, None, "data:image/gif;base64,QUFB", "file:///etc/passwd"]
)
async def test_media_that_are_no_data_are_refused_before_the_model_is_asked(run: Any, data: Any) -> None:
    agent = Agent(id="eye", model=scripted_model([final("never")]), media=["image/png"])
    media = [{"mediaType": "image/png", "data": data}]
    told = await run(agent, {"input": "x", "media": media})
    assert told.code == "invalid_input"
    assert agent.model.calls == []


async def test_media_reach_every_provider_as_it_takes_them(run: Any) -> None:
    data = base64.b64encode(sample_png()).decode()
    seen: list[str] = []

    def handle(request: Any) -> Any:
        seen.append(request.content.decode())
        return httpx2.Response(400, json={"error": {"message": "enough"}})

    for provider in PROVIDERS:
        adapter = provider.adapter(transport=httpx2.MockTransport(handle)).model(provider.model)
        agent = Agent(id="eye", model=adapter, media=["image/png"])
        await run(agent, {"input": "x", "media": [{"mediaType": "image/png", "data": data}]})
    assert len(seen) == len(PROVIDERS)
    for provider, body in zip(PROVIDERS, seen, strict=True):
        assert body.count(data) == 1
        assert (f"data:image/png;base64,{data}" in body) is (provider.name != "anthropic")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (None, "model"),
        ("nocolon", "adapter:model"),
        (AnthropicAdapter(api_key="k"), "serves many models"),
        (3, "is no adapter"),
    ],
)
def test_a_model_that_is_none_is_refused(model: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Agent(id="a", model=model)


@every
async def test_an_agent_runs_on_every_provider_with_its_budget(run: Any, provider: Provider) -> None:
    from loopback import LoopbackServer

    @tool(effects="read")
    def look(order: str) -> dict[str, str]:
        """Look an order up."""
        return {"status": f"{order} shipped"}

    answers = (
        streamed(provider.call("look", {"order": "A1"})),
        streamed(provider.text('{"reply": "Shipped."}')),
    )
    async with LoopbackServer(*answers) as server:
        adapter = provider.adapter(server.url)
        agent = Agent(
            id="support", model=adapter.model(provider.model), tools=[look], output=REPLY,
            limits=Limits(max_cost_micros=100_000),
        )  # fmt: skip
        grants = {f"model:{adapter.id}", "tool:look", "effect:read"}
        told = await run(agent, "Where is A1?", grants=grants)
        await adapter.aclose()
    assert (told.status, told.outcome.value) == ("ok", {"reply": "Shipped."})
    assert (told.budget.spent_micros, told.budget.reserved_micros) == (2400, 0)


@every
async def test_an_agent_whose_budget_pays_for_no_turn_asks_nothing(run: Any, provider: Provider) -> None:
    adapter = provider.adapter(transport=httpx2.MockTransport(refuse))
    agent = Agent(id="a", model=adapter.model(provider.model), output=REPLY, limits=Limits(max_cost_micros=1))
    told = await run(agent, "Hello " * 100)
    assert (told.status, told.code) == ("exhausted", "budget_exceeded")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (302, "rejected"),
        (400, "rejected"),
        (401, "authentication"),
        (403, "authentication"),
        (402, "rate_limited"),
        (404, "rejected"),
        (408, "unavailable"),
        (429, "rate_limited"),
        (503, "unavailable"),
        (529, "unavailable"),
    ],
)
async def test_a_failure_is_told_in_our_words_and_never_in_the_providers(
    run: Any, status: int, reason: str
) -> None:
    adapter, _ = responding({"error": {"message": "PROVIDER TEXT test-key"}}, status)
    told = await run(Agent(id="brief", model=adapter, output=REPLY), "Hello", retry={"attempts": 1})
    assert (told.status, told.code) == ("error", "model_failed")
    assert told.outcome.error.data["reason"] == reason
    assert "PROVIDER TEXT" not in told.text
    assert "test-key" not in told.everything
    assert f"(HTTP {status})" in told.text
