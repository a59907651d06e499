"""How one exchange ends decides whether it is tried again, and what the call that it ends is told to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rulvar import Ctx, Engine, ModelCaps, define_workflow, tool
from rulvar.contracts.stream import (
    Finish,
    FinishInfo,
    StreamError,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    WireError,
)
from rulvar.contracts.usage import Usage
from rulvar.errors import LeaseHeldError
from rulvar.stores import InMemoryStore

USED = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=0, cache_write_tokens=0)
CAPS = ModelCaps(
    structured_output="native",
    supports_temperature=True,
    supports_parallel_tools=True,
    reasoning_efforts=(),
    context_window=1000,
    max_output_tokens=100,
)
Exchange = Callable[[], AsyncIterator[Any]]


def said(text: str, reason: Any = "stop", **metadata: Any) -> Exchange:
    async def events() -> AsyncIterator[Any]:
        yield TextDelta(text=text)
        yield Finish(
            finish=FinishInfo(reason=reason),
            usage=USED,
            provider_metadata={"p": metadata} if metadata else None,
        )

    return events


class Scripted:
    """An adapter whose exchanges are played in order, the last one for ever."""

    def __init__(self, *exchanges: Exchange, id: str = "p", provider: str | None = None) -> None:
        self.id = id
        if provider is not None:
            self.provider = provider
        self.exchanges = exchanges
        self.requests: list[Any] = []
        self.closed = 0

    def caps(self, model: str) -> ModelCaps:
        return CAPS

    async def stream(self, request: Any, signal: asyncio.Event | None = None) -> AsyncIterator[Any]:
        self.requests.append(request)
        try:
            async for event in self.exchanges[min(len(self.requests), len(self.exchanges)) - 1]():
                yield event
        finally:
            self.closed += 1


async def ran(adapter: Scripted, **options: Any) -> tuple[Any, list[Any]]:
    """Return the outcome of one call of a model, and what its run wrote."""
    store = InMemoryStore()
    options.setdefault("retry", {"attempts": 2, "backoff": {"initial_ms": 0}})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go", **options)

    engine = Engine(adapters=[adapter], routing={"loop": f"{adapter.id}:m"}, journal=store)
    async with engine:
        outcome = await engine.run(define_workflow("w", body), run_id="r").result()
    return outcome, list(await store.load("r"))


def end_of(entries: list[Any]) -> dict[str, Any]:
    """Return the entry that ended the call."""
    wire: dict[str, Any] = [entry for entry in entries if entry.kind == "agent"][-1].to_wire()
    return wire


async def test_nothing_that_follows_the_terminal_event_is_read() -> None:
    async def chatty() -> AsyncIterator[Any]:
        async for event in said("done")():
            yield event
        yield TextDelta(text=" and more")
        yield StreamError(error=WireError(code="agent", message="late", retryable=False))

    adapter = Scripted(chatty)
    outcome, _ = await ran(adapter)
    assert outcome.value == "done"
    assert adapter.closed == 1


async def test_a_stream_without_a_terminal_event_is_tried_again() -> None:
    async def broken() -> AsyncIterator[Any]:
        yield TextDelta(text="hal")

    outcome, entries = await ran(Scripted(broken, said("whole")))
    assert outcome.value == "whole"
    records = end_of(entries)["providerCalls"]
    assert [(record["outcome"], record.get("errorCode")) for record in records] == [
        ("error", "agent"),
        ("ok", None),
    ]
    outcome, entries = await ran(Scripted(broken))
    assert end_of(entries)["error"]["data"] == {"kind": "transport"}
    assert end_of(entries)["error"]["retryable"] is True


async def test_an_exception_of_an_adapter_is_a_fault_of_the_line_and_tried_again() -> None:
    async def falls() -> AsyncIterator[Any]:
        raise OSError("line is down")
        yield

    outcome, _ = await ran(Scripted(falls, said("up")))
    assert outcome.value == "up"
    outcome, entries = await ran(Scripted(falls))
    error = end_of(entries)["error"]
    assert error == {
        "code": "agent",
        "message": "line is down",
        "retryable": True,
        "data": {"kind": "transport"},
    }


async def test_an_error_of_ours_says_itself_whether_it_is_tried_again() -> None:
    async def held() -> AsyncIterator[Any]:
        raise LeaseHeldError("somebody else has it", retryable=True)
        yield

    outcome, _ = await ran(Scripted(held, said("mine")))
    assert outcome.value == "mine"


@pytest.mark.parametrize(
    ("code", "data", "told"),
    [
        ("agent", None, {"kind": "transport"}),
        ("server", {"status": 503, "host": "h"}, {"kind": "transport", "status": 503}),
        ("rate-limit", {"retryAfterMs": 5}, {"kind": "rate-limit", "retryAfterMs": 5}),
        ("rate-limit", {"kind": "transport"}, {"kind": "rate-limit"}),
        ("agent", {"kind": "overloaded"}, {"kind": "overloaded"}),
        ("agent", {"kind": "terminal"}, {"kind": "terminal"}),
    ],
)
async def test_a_call_tells_of_its_error_the_kind_and_what_the_provider_asks_for(
    code: str, data: Any, told: dict[str, Any]
) -> None:
    async def fails() -> AsyncIterator[Any]:
        yield StreamError(error=WireError(code=code, message="no", retryable=False, data=data))

    _, entries = await ran(Scripted(fails))
    assert end_of(entries)["error"] == {"code": "agent", "message": "no", "retryable": False, "data": told}


async def test_the_id_that_a_provider_gives_its_answer_is_kept_with_the_exchange() -> None:
    async def nested() -> AsyncIterator[Any]:
        yield StreamError(
            error=WireError(code="agent", message="no", retryable=False),
            provider_metadata={"p": {"response": {"id": "resp-2"}}},
        )

    _, entries = await ran(Scripted(said("ok", responseId="resp-1")))
    assert [record["responseId"] for record in end_of(entries)["providerCalls"]] == ["resp-1"]
    _, entries = await ran(Scripted(nested))
    assert [record["responseId"] for record in end_of(entries)["providerCalls"]] == ["resp-2"]


async def test_opaque_blocks_go_back_to_the_family_of_their_adapter() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def thinks(blocks: list[Any]) -> Exchange:
        async def events() -> AsyncIterator[Any]:
            yield ToolCallStart(id="1", name="look")
            yield ToolCallEnd(id="1", args={})
            yield Finish(
                finish=FinishInfo(reason="tool-calls"),
                usage=USED,
                provider_metadata={"mine": {"retainedParts": blocks}, "other": {"retainedParts": [{"x": 1}]}},
            )

        return events

    for provider, family in (("house", "house"), (None, "mine")):
        adapter = Scripted(thinks([{"seal": 1}]), said("end"), id="mine", provider=provider)
        outcome, _ = await ran(adapter, tools=[look])
        assert outcome.value == "end"
        [first] = [part for part in adapter.requests[1].messages[1].parts if part.type == "provider-raw"]
        assert (first.provider, first.block) == (family, {"seal": 1})


async def test_tool_calls_of_a_model_that_refuses_or_is_full_are_not_run() -> None:
    ran_tools: list[int] = []

    @tool
    def act() -> str:
        """Act."""
        ran_tools.append(1)
        return "done"

    def calls(reason: Any) -> Exchange:
        async def events() -> AsyncIterator[Any]:
            yield ToolCallStart(id="1", name="act")
            yield ToolCallEnd(id="1", args={})
            yield Finish(finish=FinishInfo(reason=reason), usage=USED)

        return events

    outcome, entries = await ran(Scripted(calls("context-window-exceeded")), tools=[act])
    assert outcome.status == "error"
    assert end_of(entries)["error"]["data"]["kind"] == "terminal"
    outcome, _ = await ran(Scripted(calls("max-tokens"), said("end")), tools=[act])
    assert outcome.value == "end"
    assert ran_tools == [1]


async def test_a_text_that_is_cut_is_an_answer_and_nothing_at_all_is_a_limit_that_is_kept() -> None:
    outcome, _ = await ran(Scripted(said("as far as it", "max-tokens")))
    assert outcome.value == "as far as it"
    outcome, entries = await ran(Scripted(said(" \n\u3000", "max-tokens")), on_error="null")
    end = end_of(entries)
    assert (end["status"], end["memoizeOutcome"]) == ("limit", True)
    assert end["error"]["data"] == {"kind": "terminal", "abortClass": "output-truncated"}
    assert outcome.dropped[0].error.data["abortClass"] == "output-truncated"


async def test_what_is_kept_is_served_to_a_resume() -> None:
    adapter = Scripted(said("", "max-tokens"))
    engine = Engine(adapters=[adapter], routing={"loop": "p:m"})

    async def body(ctx: Ctx, args: Any) -> Any:
        return await ctx.agent("go")

    flow = define_workflow("w", body)
    async with engine:
        first = await engine.run(flow, run_id="r").result()
        second = await engine.resume("r", flow).result()
    assert first.status == second.status == "error"
    assert first.error == second.error
    assert len(adapter.requests) == 1


async def test_a_cut_answer_that_fits_its_schema_is_one_and_another_is_asked_for_again() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    adapter = Scripted(said('{"a', "max-tokens"), said("{}", "max-tokens"))
    outcome, _ = await ran(adapter, schema=schema)
    assert outcome.value == {}
    assert len(adapter.requests) == 2
