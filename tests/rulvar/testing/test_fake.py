"""A scripted model answers as the test says, and aborts as a live one does."""

import asyncio
import dataclasses
import gc
import re
from contextlib import suppress
from typing import Any

import pytest

from rulvar import Ctx, define_workflow
from rulvar.contracts.messages import ChatRequest, ImagePart, Msg, TextPart, ToolChoice
from rulvar.contracts.ports.provider import Adapter, served_by
from rulvar.contracts.stream import Finish, StreamError, TextDelta, ToolCallEnd, ToolCallStart, WireError
from rulvar.errors import ConfigError, FakeResponderError
from rulvar.testing.engine import create_test_engine
from rulvar.testing.fake import FAKE_MODEL_REF, FakeAdapter
from rulvar.testing.responders import FakeCall, fake_tool_calls, fake_wire_error


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def tagged(
    kit: Any, prompt: str = "hi", agent_type: str = "", label: str | None = None, **fields: Any
) -> Any:
    facts = {"agentType": agent_type, **({} if label is None else {"label": label})}
    return kit.ask(prompt, provider_options={"rulvar": facts}, **fields)


def test_the_fake_is_an_adapter_of_the_known_reference() -> None:
    assert isinstance(FakeAdapter(), Adapter)
    assert f"{FakeAdapter().id}:fake-model" == FAKE_MODEL_REF
    caps = FakeAdapter().caps("anything").to_wire()
    assert (caps["contextWindow"], caps["maxOutputTokens"]) == (1_000_000, 64_000)
    assert caps["structuredOutput"] == "native"
    assert caps["pricing"] == {"inputUsdPerMTok": 0, "outputUsdPerMTok": 0}


async def test_text_is_answered_with_estimated_usage(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": "stub text"})
    stream = fake.stream(kit.ask("12345"))
    [delta, finish] = await kit.drain(stream)
    assert delta == TextDelta(text="stub text")
    assert finish.finish.reason == "stop"
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (2, 3)
    assert served_by(stream).how == "fake"


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("abcd", 1), ("abcde", 2), ("😀😀", 1), ("😀😀😀", 2)])
async def test_usage_counts_utf16_units(kit: Any, text: str, tokens: int) -> None:
    events = await kit.drain(FakeAdapter(agents={"*": text}).stream(kit.ask("x")))
    assert events[-1].usage.output_tokens == tokens


async def test_the_prompt_is_the_last_user_message_with_a_line_per_text(kit: Any) -> None:
    texts = (TextPart(text="abcd"), ImagePart(media_type="image/png", data=""), TextPart(text="efgh"))
    messages = (Msg.text("user", "earlier"), Msg(role="user", parts=texts), Msg.text("assistant", "said"))
    fake = FakeAdapter(agents={"d\ne": "over the lines"})
    [_, finish] = await kit.drain(fake.stream(ChatRequest(model="m", messages=messages)))
    assert fake.calls[0].prompt == "abcd\nefgh"
    assert finish.usage.input_tokens == 3


async def test_a_pattern_that_no_engine_can_compile_matches_by_name_only(kit: Any) -> None:
    huge = "a{99999999999999}"
    fake = FakeAdapter(agents={huge: "by name", "*": "fallback"})
    assert text_of(await kit.drain(fake.stream(tagged(kit, "a", label=huge)))) == "by name"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "a")))) == "fallback"


async def test_patterns_match_by_name_then_by_prompt_in_declaration_order(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": "fallback", "reviewer": "by name", "^Sum": "by prompt", "l(": "by label"})
    assert text_of(await kit.drain(fake.stream(tagged(kit, "Sum it", "reviewer")))) == "by name"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "Sum it")))) == "by prompt"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "other", label="l(")))) == "by label"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "l( in the prompt")))) == "fallback"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "ask the reviewer")))) == "by name"


async def test_a_compiled_pattern_matches_the_prompt_only(kit: Any) -> None:
    fake = FakeAdapter(agents={re.compile("OWLS", re.IGNORECASE): "hoot", "*": "x"})
    assert text_of(await kit.drain(fake.stream(kit.ask("about owls")))) == "hoot"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "no", "OWLS")))) == "x"


async def test_a_call_that_nothing_matches_is_loud(kit: Any) -> None:
    fake = FakeAdapter(agents={"reviewer": "x"})
    with pytest.raises(FakeResponderError, match=r'fallback "\*"') as refusal:
        await kit.drain(fake.stream(tagged(kit, "write a poem", "poet")))
    for part in ("write a poem", "poet", "reviewer"):
        assert part in str(refusal.value)
    assert fake.calls == []


async def test_an_answer_that_does_not_fit_is_asked_for_again_by_what_gave_it() -> None:
    engine = create_test_engine(agents={"^Classify": {"severity": 7}})

    async def classify(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("Classify: typo", schema={"properties": {"severity": {"type": "string"}}})

    outcome = await engine.run(define_workflow("classify", classify)).result()
    assert outcome.error is not None
    assert (outcome.error.code, (outcome.error.data or {}).get("kind")) == ("agent", "schema-mismatch")


@dataclasses.dataclass
class Verdict:
    verdict: str


@pytest.mark.parametrize("value", [{"verdict": "pass"}, Verdict("pass"), lambda call: {"verdict": "pass"}])
async def test_a_json_value_is_a_structured_answer(kit: Any, value: Any) -> None:
    events = await kit.drain(FakeAdapter(agents={"*": value}).stream(kit.ask()))
    assert text_of(events) == '{"verdict":"pass"}'


async def test_a_function_gets_the_call(kit: Any) -> None:
    seen: list[FakeCall] = []

    async def respond(call: FakeCall) -> str:
        seen.append(call)
        await asyncio.sleep(0)
        return f"{call.prompt}/{call.agent_type}/{call.label}"

    fake = FakeAdapter(agents={"*": respond})
    request = tagged(kit, "p", "a", "l")
    assert text_of(await kit.drain(fake.stream(request))) == "p/a/l"
    assert seen == fake.calls
    assert seen[0].req is request


async def test_a_function_that_needs_no_call_may_take_nothing(kit: Any) -> None:
    fake = FakeAdapter(agents={"a": lambda: {"n": 1}, "*": [lambda: "first", lambda call: call.prompt]})
    assert text_of(await kit.drain(fake.stream(tagged(kit, "p", "a")))) == '{"n":1}'
    assert text_of(await kit.drain(fake.stream(tagged(kit, "p")))) == "first"
    assert text_of(await kit.drain(fake.stream(tagged(kit, "p")))) == "p"


async def test_a_raised_error_is_a_terminal_event(kit: Any) -> None:
    def fail(call: FakeCall) -> str:
        raise RuntimeError("model exploded")

    for responder in (fail, RuntimeError("model exploded")):
        [event] = await kit.drain(FakeAdapter(agents={"*": responder}).stream(kit.ask()))
        assert isinstance(event, StreamError)
        assert event.error.to_wire() == {
            "code": "agent", "message": "model exploded", "retryable": False, "data": {"kind": "terminal"},
        }  # fmt: skip


async def test_a_function_that_returns_nothing_is_an_error(kit: Any) -> None:
    [event] = await kit.drain(FakeAdapter(agents={"*": lambda call: None}).stream(kit.ask()))
    assert "returned None" in event.error.message


async def test_tool_calls_get_ids_and_eight_tokens_each(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": fake_tool_calls({"name": "a", "args": {"q": 1}}, {"name": "b"})})
    events = await kit.drain(fake.stream(kit.ask("1234")))
    first, end, second, _, finish = events
    assert isinstance(first, ToolCallStart)
    assert isinstance(end, ToolCallEnd)
    assert (first.name, end.args, second.name) == ("a", {"q": 1}, "b")
    assert first.id == end.id
    assert len(first.id) == 26
    assert first.id < second.id
    assert finish.finish.reason == "tool-calls"
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (1, 16)


def test_tool_calls_are_written_in_three_ways() -> None:
    one = fake_tool_calls(name="a", args={"q": 1})
    assert one == fake_tool_calls({"name": "a", "args": {"q": 1}})
    assert one == fake_tool_calls([{"name": "a", "args": {"q": 1}}])
    assert fake_tool_calls({"name": "a", "id": "c1"}).calls == (("a", {}, "c1"),)
    for bad in ({}, {"name": ""}, {"name": "a", "arguments": 1}, {"name": "a", "id": 3}):
        with pytest.raises(ConfigError, match="fake_tool_calls"):
            fake_tool_calls(bad)
    with pytest.raises(ConfigError, match="fake_tool_calls"):
        fake_tool_calls()


async def test_a_wire_error_ends_the_stream(kit: Any) -> None:
    marker = fake_wire_error(
        code="rate-limit", message="429", retryable=True, data={"kind": "rate-limit", "retryAfterMs": 1000}
    )
    [event] = await kit.drain(FakeAdapter(agents={"*": marker}).stream(kit.ask()))
    assert event == StreamError(error=marker)
    assert fake_wire_error({"code": "x"}) == WireError(code="x", message="", retryable=False)
    assert fake_wire_error(marker) is marker
    with pytest.raises(ConfigError, match="code"):
        fake_wire_error(code="")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("code", 5),
        ("message", 5),
        ("message", b"x"),
        ("retryable", "yes"),
        ("retryable", 1),
        ("data", [1]),
        ("data", "x"),
    ],
)
def test_a_field_of_a_wire_error_that_is_of_the_wrong_type_is_named(field: str, value: Any) -> None:
    wrong: dict[str, Any] = {"code": "x", "message": "m", "retryable": False, field: value}
    for write in (
        lambda: fake_wire_error(**wrong),
        lambda: fake_wire_error(wrong),
        lambda: fake_wire_error(WireError(**wrong)),
    ):
        with pytest.raises(ConfigError, match=f"fake_wire_error: .*{field}"):
            write()
    with pytest.raises(ConfigError, match="got int"):
        fake_wire_error(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "args", "tokens"),
    [('{"a": 1}', {"a": 1}, 2), ("plain", {"text": "plain"}, 2), ({"a": 1}, {"a": 1}, 2)],
)
async def test_a_forced_tool_is_called_with_the_answer(kit: Any, reply: Any, args: Any, tokens: int) -> None:
    request = kit.ask(tool_choice=ToolChoice(name="emit"))
    start, end, finish = await kit.drain(FakeAdapter(agents={"*": reply}).stream(request))
    assert (start.name, end.args) == ("emit", args)
    assert (finish.finish.reason, finish.usage.output_tokens) == ("tool-calls", tokens)


async def test_a_list_of_replies_is_used_in_order_and_the_last_repeats(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": ["one", lambda call: "two", RuntimeError("three")]})
    events = [await kit.drain(fake.stream(kit.ask())) for _ in range(4)]
    assert [text_of(seen) for seen in events[:2]] == ["one", "two"]
    assert all(isinstance(seen[0], StreamError) for seen in events[2:])


async def test_a_sequence_is_used_up(kit: Any) -> None:
    fake = FakeAdapter.sequence(["one", {"n": 2}])
    assert text_of(await kit.drain(fake.stream(kit.ask()))) == "one"
    assert fake.remaining == 1
    assert text_of(await kit.drain(fake.stream(kit.ask()))) == '{"n":2}'
    with pytest.raises(FakeResponderError, match="2 replies"):
        await kit.drain(fake.stream(kit.ask()))


@pytest.mark.parametrize("replies", ["one text", {"verdict": "pass"}, 5, []])
def test_a_sequence_is_made_of_a_list_of_replies(replies: Any) -> None:
    with pytest.raises(ConfigError, match="repl"):
        FakeAdapter.sequence(replies)


async def test_a_call_aborted_on_arrival_is_neither_served_nor_noted(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": "x"})
    abort = asyncio.Event()
    abort.set()
    assert await kit.drain(fake.stream(kit.ask(), abort)) == []
    assert fake.calls == []


async def test_an_abort_ends_the_stream_and_the_pending_responder(kit: Any) -> None:
    finished = asyncio.Event()

    async def slow(call: FakeCall) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            finished.set()
            raise RuntimeError("nobody listens")

    fake = FakeAdapter(agents={"*": slow})
    abort = asyncio.Event()
    reading = asyncio.ensure_future(kit.drain(fake.stream(kit.ask(), abort)))
    await asyncio.sleep(0.01)
    abort.set()
    assert await reading == []
    assert len(fake.calls) == 1
    assert finished.is_set()


async def test_an_abort_between_events_ends_the_stream(kit: Any) -> None:
    abort = asyncio.Event()
    stream = FakeAdapter(agents={"*": "x"}).stream(kit.ask(), abort)
    assert await anext(stream) == TextDelta(text="x")
    abort.set()
    assert [event async for event in stream] == []


@pytest.mark.parametrize("name", ["minOutputTokensPerTurn", "min_output_tokens_per_turn"])
def test_capabilities_can_be_overridden(name: str) -> None:
    assert FakeAdapter(caps_overrides={name: 16}).caps("x").min_output_tokens_per_turn == 16


@pytest.mark.parametrize(
    ("overrides", "named"),
    [({"nope": 1}, "nope"), ({"contextWindow": "big"}, "contextWindow"), ([1], "got list")],
)
def test_a_wrong_override_is_named(overrides: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FakeAdapter(caps_overrides=overrides)


@pytest.mark.parametrize(
    "agents", [{"x": None}, {"x": str}, {1: "x"}, ["x"], {"x": []}, {"x": lambda a, b: 1}, {"x": object()}]
)
def test_what_can_never_answer_is_refused(agents: Any) -> None:
    with pytest.raises(ConfigError, match=r"agents"):
        FakeAdapter(agents=agents)


NO_JSON = [
    ({"a": float("nan")}, ".a"),
    ({"a": [0, float("inf")]}, ".a[1]"),
    ({"a": {1}}, ".a"),
    ({"a": {"b": b"x"}}, ".a.b"),
    ({"a": {5: 1}}, ".a"),
]


@pytest.mark.parametrize(("value", "place"), NO_JSON)
async def test_what_json_cannot_hold_is_refused_where_it_is_written(value: Any, place: str, kit: Any) -> None:
    marker = {"name": "t", "args": value}
    with pytest.raises(
        ConfigError, match=re.escape(f"args of 't' is no JSON, which is all that a model can send: ${place} ")
    ):
        fake_tool_calls(marker)
    with pytest.raises(ConfigError, match=rf'agents\["x"\] is no JSON.*\${re.escape(place)} '):
        FakeAdapter(agents={"x": value})
    with pytest.raises(ConfigError, match=rf'agents\["x"\]\[1\] is no JSON.*\${re.escape(place)} '):
        FakeAdapter(agents={"x": ["fine", value]})
    with pytest.raises(ConfigError, match=rf"data is no JSON.*\${re.escape(place)} "):
        fake_wire_error(code="x", data=value)


@pytest.mark.parametrize(("value", "place"), NO_JSON)
async def test_a_function_that_returns_what_json_cannot_hold_is_a_terminal_error(
    value: Any, place: str, kit: Any
) -> None:
    for responder in (lambda call: value, [lambda call: value]):
        [event] = await kit.drain(FakeAdapter(agents={"*": responder}).stream(kit.ask()))
        assert f"answer{place} " in event.error.message
        assert event.error.data == {"kind": "terminal"}


async def test_requests_may_be_plain_json_objects(kit: Any) -> None:
    fake = FakeAdapter(agents={"*": "x"})
    events = await kit.drain(fake.stream(kit.ask("hi").to_wire()))
    assert isinstance(events[-1], Finish)
    assert fake.calls[0].prompt == "hi"


def test_a_responder_that_heeds_no_cancellation_is_not_lost_with_a_complaint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def abort() -> None:
        async def never(call: FakeCall) -> str:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
            return "late"

        signal = asyncio.Event()
        stream = FakeAdapter(agents={"*": never}).stream(
            ChatRequest(model="m", messages=(Msg.text("user", "hi"),)), signal
        )
        asyncio.get_running_loop().call_soon(signal.set)
        assert [event async for event in stream] == []
        del stream
        gc.collect()

    asyncio.run(abort())
    gc.collect()
    assert caplog.records == []


@pytest.mark.parametrize("end", ["cancel", "close", "sibling", "signal"])
async def test_no_responder_is_left_running(end: str, kit: Any) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow(call: FakeCall) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "late"

    async def fails() -> None:
        await started.wait()
        raise RuntimeError("at once")

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.parallel([lambda: ctx.agent("x"), *([fails] if end == "sibling" else [])])

    before = asyncio.all_tasks()
    if end == "signal":
        signal = asyncio.Event()
        stream = FakeAdapter(agents={"*": slow}).stream(kit.ask("hi"), signal)
        asyncio.get_running_loop().call_soon(signal.set)
        assert await kit.drain(stream) == []
    else:
        engine = create_test_engine(agents={"*": slow})
        handle = engine.run(define_workflow("w", body))
        await started.wait()
        if end == "cancel":
            await handle.cancel("enough")
        elif end == "sibling":
            await handle.result()
        await engine.close()
    assert ended.is_set() or not started.is_set()
    assert asyncio.all_tasks() == before
