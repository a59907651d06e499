"""Request bodies beyond the vectors: options, schemas, images, ids."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest
from providers import PROVIDERS, Provider

from rulvar import ChatRequest, Msg, TextPart, ToolContract
from rulvar.adapters.anthropic import AnthropicAdapter
from rulvar.adapters.call_ids import KEPT, CallIds
from rulvar.adapters.compatible import openai_compatible
from rulvar.adapters.openai import OpenAIAdapter
from rulvar.contracts.messages import ImagePart, ToolCallPart
from rulvar.errors import ConfigError, NonSerializableValueError
from rulvar.testing.samples import sample_pdf, sample_png

every = pytest.mark.parametrize("provider", PROVIDERS, ids=[item.name for item in PROVIDERS])
STRICT = {
    "type": "object",
    "properties": {"minimum": {"type": "integer", "minimum": 3, "description": "d"}},
    "required": ["minimum"],
    "additionalProperties": False,
}


def ask(model: str, **fields: Any) -> ChatRequest:
    return ChatRequest(model=model, messages=(Msg.text("user", "hi"),), **fields)


@every
def test_building_a_request_needs_no_network_and_changes_nothing(provider: Provider) -> None:
    request = ask(provider.model, tools=(ToolContract(name="t", description="d", parameters=STRICT),))
    before = request.to_wire()
    first, second = provider.adapter().build_request(request), provider.adapter().build_request(before)
    assert first == second
    assert request.to_wire() == before


@every
def test_a_closed_schema_makes_a_strict_tool(provider: Provider) -> None:
    open_schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = (
        ToolContract(name="closed", description="d", parameters=STRICT),
        ToolContract(name="open", description="d", parameters=open_schema),
    )
    sent = provider.adapter().build_request(ask(provider.model, tools=tools))["tools"]
    flat = [tool.get("function", tool) for tool in sent]
    assert [bool(tool.get("strict")) for tool in flat] == [True, False]


def test_constrained_decoding_is_spared_the_bounds_that_it_refuses_but_not_properties_of_their_names() -> (
    None
):
    adapter = AnthropicAdapter(api_key="k")
    body = adapter.build_request(ask("claude-sonnet-5", schema=STRICT))
    sent = body["output_config"]["format"]["schema"]["properties"]
    assert sent == {"minimum": {"type": "integer", "description": "d"}}
    assert STRICT["properties"]["minimum"]["minimum"] == 3  # type: ignore[index]


@every
def test_images_are_sent_as_each_provider_takes_them(provider: Provider) -> None:
    parts = (ImagePart(media_type="image/png", data=sample_png()), TextPart(text="what?"))
    request = ChatRequest(model=provider.model, messages=(Msg(role="user", parts=parts),))
    body = provider.said(provider.adapter().build_request(request))
    assert "iVBORw0KGgo" in body  # the base64 of a PNG's signature
    linked = ImagePart(media_type="image/png", data="https://example.org/a.png")
    request = ChatRequest(model=provider.model, messages=(Msg(role="user", parts=(linked,)),))
    assert "https://example.org/a.png" in provider.said(provider.adapter().build_request(request))
    wired = ChatRequest.from_wire(
        ChatRequest(model=provider.model, messages=(Msg(role="user", parts=parts),)).to_wire()
    )
    assert provider.said(provider.adapter().build_request(wired)) == body


@pytest.mark.parametrize(
    "data",
    [
        sample_pdf(),
        f"data:application/pdf;base64,{base64.b64encode(sample_pdf()).decode()}",
        base64.b64encode(sample_pdf()).decode(),
    ],
)
def test_a_pdf_is_sent_as_the_document_that_each_provider_takes(data: Any) -> None:
    text = base64.b64encode(sample_pdf()).decode()
    part = ImagePart(media_type="application/pdf", data=data)

    def content(adapter: Any, at: str) -> Any:
        request = ChatRequest(model="m", messages=(Msg(role="user", parts=(part,)),))
        return adapter.build_request(request)[at][-1]["content"]

    assert content(AnthropicAdapter(api_key="k"), "messages") == [
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": text}}
    ]
    address = f"data:application/pdf;base64,{text}"
    assert content(OpenAIAdapter(api_key="k"), "input") == [
        {"type": "input_file", "filename": "document.pdf", "file_data": address}
    ]
    assert content(openai_compatible("c", "http://c.test/v1"), "messages") == [
        {"type": "file", "file": {"filename": "document.pdf", "file_data": address}}
    ]


@every
def test_an_image_as_a_data_address_is_sent_as_each_provider_takes_it(provider: Provider) -> None:
    text = base64.b64encode(sample_png()).decode()
    part = ImagePart(media_type="image/png", data=f"data:image/png;base64,{text}")
    request = ChatRequest(model=provider.model, messages=(Msg(role="user", parts=(part,)),))
    body = provider.said(provider.adapter().build_request(request))
    assert body.count(text) == 1
    assert ("data:image/png;base64," in body) is (provider.name != "anthropic")


@every
def test_an_image_of_neither_bytes_nor_text_is_refused(provider: Provider) -> None:
    bad = ImagePart(media_type="image/png", data=7)
    request = ChatRequest(model=provider.model, messages=(Msg(role="user", parts=(bad,)),))
    with pytest.raises(ConfigError, match="image part"):
        provider.adapter().build_request(request)


def test_a_cache_hint_marks_at_most_four_places_the_deepest() -> None:
    messages = tuple(Msg.text("user", str(n)) for n in range(6))
    hint = {"breakpoints": [{"after": {"messageIndex": n}} for n in range(6)]}
    body = AnthropicAdapter(api_key="k").build_request(
        ChatRequest(model="claude-sonnet-5", messages=messages, cache_hint=hint)
    )
    marked = [
        index for index, message in enumerate(body["messages"]) if "cache_control" in message["content"][-1]
    ]
    assert marked == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "hint", [{"breakpoints": [{"after": {"messageIndex": 99}}]}, {"breakpoints": []}, {}]
)
def test_a_cache_hint_that_points_at_nothing_marks_nothing(hint: dict[str, Any]) -> None:
    body = AnthropicAdapter(api_key="k").build_request(ask("claude-sonnet-5", cache_hint=hint))
    assert "cache_control" not in str(body)


def test_models_that_do_not_think_by_themselves_are_not_asked_to() -> None:
    adapter = AnthropicAdapter(api_key="k")
    assert "thinking" not in adapter.build_request(ask("claude-haiku-4-5-20251001"))
    options = {"anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    body = adapter.build_request(ask("claude-haiku-4-5", provider_options=options))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}


def test_the_effort_of_an_endpoint_is_sent_when_its_model_has_one() -> None:
    adapter = openai_compatible("vllm", "http://127.0.0.1:1/v1", caps={"reasoning_efforts": ["low", "high"]})
    assert adapter.build_request(ask("m", effort="high"))["reasoning_effort"] == "high"
    assert "reasoning_effort" not in adapter.build_request(ask("m", effort="max"))


def test_options_stand_under_the_adapters_own_id() -> None:
    adapter = openai_compatible("vllm", "http://127.0.0.1:1/v1")
    body = adapter.build_request(
        ask("m", provider_options={"vllm": {"seed": 7, "model": "x"}, "openai": {"seed": 8}})
    )
    assert (body["seed"], body["model"]) == (7, "m")


def test_call_ids_find_each_other_and_strange_ones_get_a_prefix() -> None:
    ids = CallIds("call_")
    ours = ids.begin("theirs")
    assert ids.theirs(ours) == "theirs"
    assert ids.theirs("01STRANGE") == "call_01STRANGE"


def test_a_call_id_that_comes_twice_stands_for_two_calls() -> None:
    ids = CallIds("call_")
    first, second, nameless = ids.begin("call_0"), ids.begin("call_0"), ids.begin()
    assert ids.theirs(first) == "call_0"
    assert ids.theirs(second) == f"call_{second}"
    assert ids.theirs(nameless) == f"call_{nameless}"
    assert len({first, second, nameless}) == 3


def test_call_ids_of_long_ago_are_forgotten() -> None:
    ids = CallIds("call_")
    first = ids.begin("call-0")
    for number in range(KEPT):
        ids.begin(f"more-{number}")
    assert ids.theirs(first) == f"call_{first}"
    assert len(ids._ours) == len(ids._theirs) == KEPT


@pytest.mark.parametrize(
    "make",
    [
        lambda: AnthropicAdapter(api_key="k", id="a:b"),
        lambda: OpenAIAdapter(api_key="k", id=""),
        lambda: openai_compatible("local", ""),
        lambda: openai_compatible("local", "localhost:11434/v1"),
        lambda: OpenAIAdapter(api_key="k", base_url="gateway.example/v1"),
        lambda: AnthropicAdapter(api_key="k", base_url=""),
        lambda: openai_compatible("local", "http://127.0.0.1:1/v1", caps={"nosuch": 1}),
        lambda: OpenAIAdapter(api_key="k", models={"m": {"context_window": "wide"}}),
    ],
)
def test_a_wrong_option_is_named(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"id|base_url|nosuch|contextWindow"):
        make()


@pytest.mark.parametrize(
    ("headers", "version", "key"),
    [
        (None, "2023-06-01", "test-key"),
        ({"x-team": "a"}, "2023-06-01", "test-key"),
        ({"Anthropic-Version": "2024-01-01"}, "2024-01-01", None),
    ],
)
async def test_messages_are_sent_with_the_version_and_the_key_header_that_they_are_written_for(
    headers: Any, version: str, key: str | None
) -> None:
    sent: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(400, json={})

    adapter = AnthropicAdapter(
        api_key="test-key", model="m", headers=headers, transport=httpx2.MockTransport(handle)
    )
    async for _ in adapter.stream(ChatRequest(model="m", messages=(Msg.text("user", "hi"),))):
        pass
    [request] = sent
    assert request.headers["anthropic-version"] == version
    if key is not None:
        assert request.headers["x-api-key"] == key
        assert "authorization" not in request.headers


RAW = '{"path": "a.txt", "text": "line one\nline'


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"__unparsed": RAW}, RAW),
        ({"__unparsed": 1}, '{"__unparsed":1}'),
        ({"__unparsed": RAW, "more": 1}, None),
        (None, "{}"),
        ({"b": 1, "10": 2, "2": [1.0, {"1": 0, "a": 1, "0": 0}], "01": 3},
         '{"2":[1,{"0":0,"1":0,"a":1}],"10":2,"b":1,"01":3}'),
        ({"n": [1e21, 1e16, 1.5, 2**60, -0.0, 1e-7]}, '{"n":[1e+21,10000000000000000,1.5,1152921504606847000,0,1e-7]}'),
        ({"\ud800": "\ud83d\ude00 \u2028 \udfff", "n": [2.0, True, None]},
         '{"\\ud800":"\U0001f600 \u2028 \\udfff","n":[2,true,null]}'),
        ([1.0], "[1]"),
    ],
)  # fmt: skip
def test_arguments_are_sent_as_their_model_wrote_them(args: Any, text: str | None) -> None:
    call = ToolCallPart(id="01CALL", name="t", args=args)
    request = ChatRequest(model="m", messages=(Msg(role="assistant", parts=(call,)),))
    (item,) = OpenAIAdapter(api_key="k").build_request(request)["input"]
    (message,) = openai_compatible("c", "http://c.test/v1").build_request(request)["messages"]
    assert item["arguments"] == message["tool_calls"][0]["function"]["arguments"]
    if text is None:
        assert json.loads(item["arguments"]) == args
    else:
        assert item["arguments"] == text
    (block,) = AnthropicAdapter(api_key="k").build_request(request)["messages"][0]["content"]
    assert block["input"] == ({} if args is None else args)


@pytest.mark.parametrize("args", [float("nan"), {"a": {1, 2}}, {"a": b"x"}, {1: 2}])
def test_arguments_that_no_json_holds_are_refused(args: Any) -> None:
    call = ToolCallPart(id="01CALL", name="t", args=args)
    request = ChatRequest(model="m", messages=(Msg(role="assistant", parts=(call,)),))
    with pytest.raises(NonSerializableValueError):
        openai_compatible("c", "http://c.test/v1").build_request(request)


def test_arguments_that_are_nested_without_end_are_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    call = ToolCallPart(id="01CALL", name="t", args=deep)
    request = ChatRequest(model="m", messages=(Msg(role="assistant", parts=(call,)),))
    with pytest.raises(NonSerializableValueError, match="nested deeper"):
        OpenAIAdapter(api_key="k").build_request(request)


def test_a_bound_of_no_tokens_is_sent_as_it_is() -> None:
    body = AnthropicAdapter(api_key="k").build_request(ask("claude-sonnet-5", max_output_tokens=0))
    assert body["max_tokens"] == 0


@pytest.mark.parametrize(("own", "sent"), [("none", "none"), (None, "xhigh"), (7, "xhigh")])
def test_only_an_effort_in_words_stands_above_the_one_that_is_asked_for(own: Any, sent: str) -> None:
    options = {"openai": {"reasoningEffort": own}}
    body = OpenAIAdapter(api_key="k").build_request(ask("gpt-5.5", effort="max", provider_options=options))
    assert body["reasoning"] == {"effort": sent}


@every
def test_a_schema_that_requires_what_is_no_name_is_not_strict(provider: Provider) -> None:
    odd = {**STRICT, "required": [{"a": 1}]}
    tools = (ToolContract(name="t", description="d", parameters=odd),)
    (tool,) = provider.adapter().build_request(ask(provider.model, tools=tools))["tools"]
    assert not tool.get("function", tool).get("strict")


@pytest.mark.parametrize(("make", "family"), [(AnthropicAdapter, "anthropic"), (OpenAIAdapter, "openai")])
def test_an_adapter_of_another_id_reads_the_options_under_its_id_before_those_of_its_family(
    make: Any, family: str
) -> None:
    adapter = make(api_key="k", id="eu")
    both = {"eu": {"temperature": 0.1}, family: {"temperature": 0.9}, "us": {"temperature": 1}}
    assert adapter.build_request(ask("m", provider_options=both))["temperature"] == 0.1
    shared = {family: {"temperature": 0.9}}
    assert adapter.build_request(ask("m", provider_options=shared))["temperature"] == 0.9
    assert "temperature" not in adapter.build_request(ask("m", provider_options={"us": {"temperature": 1}}))


@every
def test_options_that_are_no_object_are_refused(provider: Provider) -> None:
    adapter = provider.adapter()
    with pytest.raises(ConfigError, match=f"providerOptions.{adapter.id}"):
        adapter.build_request(ask(provider.model, provider_options={adapter.id: "hot"}))
    adapter.build_request(ask(provider.model, provider_options={adapter.id: None, "other": 7}))
