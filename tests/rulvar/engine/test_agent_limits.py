"""What bounds an agent call while it runs: silence, no progress, money, the context window."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rulvar import (
    ChatRequest,
    Engine,
    Finish,
    FinishInfo,
    ModelCaps,
    ModelPricing,
    Msg,
    PartialUsage,
    TextDelta,
    Usage,
    UsageUpdate,
    define_workflow,
    tool,
    workflow,
)
from rulvar.contracts.messages import ProviderRawPart, TextPart
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine, fake_tool_calls

ANSWER = (
    TextDelta(text="hello"),
    Finish(
        finish=FinishInfo(reason="stop"),
        usage=Usage(input_tokens=1, output_tokens=1, cache_read_tokens=0, cache_write_tokens=0),
    ),
)


class Streams:
    """A provider whose every exchange is an async generator of the test."""

    id = "p"
    provider = "family"

    def __init__(self, *exchanges: Any, window: int = 100_000) -> None:
        self.exchanges = list(exchanges)
        self.requests: list[ChatRequest] = []
        self.closed = 0
        self.window = window

    def caps(self, model: str) -> ModelCaps:
        return ModelCaps(
            structured_output="prompt",
            supports_temperature=True,
            supports_parallel_tools=True,
            reasoning_efforts=(),
            context_window=self.window,
            max_output_tokens=1000,
        )

    async def stream(self, request: ChatRequest, signal: asyncio.Event | None = None) -> AsyncIterator[Any]:
        self.requests.append(request)
        try:
            async for event in self.exchanges[min(len(self.requests), len(self.exchanges)) - 1]():
                yield event
        finally:
            self.closed += 1


async def silence() -> AsyncIterator[Any]:
    yield TextDelta(text="hel")
    await asyncio.sleep(60)


async def answer() -> AsyncIterator[Any]:
    for event in ANSWER:
        yield event


def engine_of(adapter: Any, **options: Any) -> Engine:
    return Engine(adapters=[adapter], routing={"loop": "p:m"}, **options)


@workflow(name="ask")
async def ask(ctx: Any, args: Any) -> Any:
    return await ctx.agent("go", limits=args)


async def test_a_stream_that_goes_quiet_is_cut_closed_and_tried_again() -> None:
    adapter = Streams(silence, answer)
    async with engine_of(adapter, retry={"attempts": 2, "backoff": {"initial_ms": 0}}) as engine:
        outcome = await engine.run(ask, {"idle_timeout_s": 0.05}, run_id="r").result()
        assert outcome.value == "hello"
        calls = [e for e in await engine.store.load("r") if e.key.startswith("pc:")]
    records = [call.value["record"] for call in calls]
    assert [(record["outcome"], record.get("aborted")) for record in records] == [
        ("aborted", "idle"),
        ("ok", None),
    ]
    assert adapter.closed == 2


async def test_a_stream_that_trickles_is_not_cut() -> None:
    async def trickle() -> AsyncIterator[Any]:
        for _ in range(8):
            await asyncio.sleep(0.02)
            yield TextDelta(text=".")
        yield ANSWER[1]

    async with engine_of(Streams(trickle)) as engine:
        assert (await engine.run(ask, {"idle_timeout_s": 0.1}).result()).value == "........"


async def test_a_timeout_of_the_adapters_own_is_its_failure() -> None:
    async def slow() -> AsyncIterator[Any]:
        yield TextDelta(text="x")
        raise TimeoutError("read timed out")

    async with engine_of(Streams(slow)) as engine:
        outcome = await engine.run(ask, {}).result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert "read timed out" in outcome.error.message


async def test_an_answer_that_costs_more_than_the_rest_is_cut_and_the_run_is_exhausted() -> None:
    seen: list[int] = []

    async def dear() -> AsyncIterator[Any]:
        for tokens in (100, 200, 300, 400):
            seen.append(tokens)
            yield UsageUpdate(usage=PartialUsage(output_tokens=tokens))
        yield ANSWER[1]

    pricing = {"p:m": ModelPricing(input_usd_per_m_tok=0, output_usd_per_m_tok=1000)}
    adapter = Streams(dear)
    async with engine_of(adapter, pricing=pricing) as engine:

        @workflow(name="w")
        async def swallow(ctx: Any, args: Any) -> Any:
            try:
                return await ctx.agent("go", est_cost=0.01)
            except Exception:
                return "swallowed"

        outcome = await engine.run(swallow, run_id="r", budget_usd=0.25).result()
        entries = await engine.store.load("r")
    assert seen == [100, 200, 300]
    assert adapter.closed == 1
    assert outcome.cost.total_usd == pytest.approx(0.3)  # what came in before the cut is paid
    [exchange] = [e.value["record"] for e in entries if e.key.startswith("pc:")]
    assert (exchange["outcome"], exchange["aborted"]) == ("aborted", "budget")


@pytest.mark.parametrize(
    ("profile", "call", "turns"),
    [({}, {}, 1), ({"limits": {"max_turns": 2}}, {}, 2), ({}, {"limits": {"max_turns": 3}}, 3)],
)
async def test_a_runs_limits_bound_the_calls_that_have_none(
    profile: dict[str, Any], call: dict[str, Any], turns: int
) -> None:
    @tool
    def look(q: str) -> str:
        """Look."""
        return q

    async def body(ctx: Any, args: Any) -> Any:
        return await ctx.agent("go", agent_type="a", tools=[look], result="full", **call)

    engine = create_test_engine(
        agents={"a": lambda call: fake_tool_calls(name="look", args={"q": str(len(call.req.messages))})},
        profiles={"a": profile},
    )
    async with engine:
        with pytest.raises(ConfigError, match=r"limits\.max_turns: expected an integer from 1 up"):
            engine.run(define_workflow("w", body), limits={"max_turns": 0})
        run = engine.run(define_workflow("w", body), limits={"max_turns": 1}, run_id="r")
        assert (await run.result()).status == "ok"
    assert len(engine.fake.calls) == turns


async def test_turns_that_make_no_progress_end_with_a_limit() -> None:
    asked: list[str] = []

    @tool
    def look(q: str) -> str:
        """Look."""
        asked.append(q)
        return "nothing"

    def stubborn(call: Any) -> Any:
        return fake_tool_calls(name="look", args={"q": "new" if len(asked) < 2 else "same"})

    @workflow(name="w")
    async def work(ctx: Any, args: Any) -> Any:
        return (await ctx.agent("go", tools=[look], limits={"max_idle_turns": 3}, result="full")).status

    engine = create_test_engine(agents={"*": stubborn})
    assert (await engine.run(work).result()).value == "limit"
    assert asked == ["new", "new", "same", "same", "same", "same"]


async def test_a_long_conversation_is_shortened_and_goes_on() -> None:
    @tool
    def read(part: int) -> str:
        """Read a part."""
        return f"part {part}: " + "word " * 200

    def model(call: Any) -> Any:
        text = call.prompt
        if text.startswith("Shorten"):
            return "parts 0 and on are read"
        parts = sum(1 for message in call.req.messages if message.role == "assistant")
        told = "".join(str(part) for message in call.req.messages for part in message.parts)
        return (
            "done"
            if "in short" in told and parts >= 3
            else fake_tool_calls(name="read", args={"part": parts})
        )

    @workflow(name="w")
    async def work(ctx: Any, args: Any) -> Any:
        return await ctx.agent("read all", agent_type="reader", tools=[read])

    engine = create_test_engine(
        agents={"*": model},
        profiles={"reader": {"compaction": {"at": 0.5, "keep_turns": 2}}},
        caps_overrides={"context_window": 2000},
    )
    outcome = await engine.run(work, run_id="r").result()
    assert outcome.value == "done", outcome.error
    roles = [e.value["record"]["role"] for e in await engine.store.load("r") if e.key.startswith("pc:")]
    assert roles.count("summarize") >= 1
    last = engine.fake.calls[-1].req.messages
    assert last[0] == Msg.text("user", "read all")
    assert last[2].role == "assistant"


async def test_a_provider_sees_its_own_opaque_blocks_and_no_others() -> None:
    from rulvar.runtime.history import project_history

    mine = ProviderRawPart(provider="a", block={"s": 1})
    other = ProviderRawPart(provider="b", block={"s": 2})
    messages = [
        Msg(role="assistant", parts=(mine, TextPart(text="x"), other)),
        Msg(role="assistant", parts=(other,)),
    ]
    assert project_history(messages, "a") == (Msg(role="assistant", parts=(mine, TextPart(text="x"))),)


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        ({"compaction": {"at": 0}}, "at"),
        ({"compaction": {"keep_turns": 0}}, "keep_turns"),
        ({"compaction": {"every": 2}}, "compaction"),
        ({"limits": {"idle_timeout_s": 0}}, "idle_timeout_s"),
        ({"limits": {"max_idle_turns": 0}}, "max_idle_turns"),
    ],
)
async def test_wrong_bounds_are_refused_before_any_call(profile: dict[str, Any], field: str) -> None:
    @workflow(name="w")
    async def work(ctx: Any, args: Any) -> Any:
        return await ctx.agent("go", agent_type="t")

    try:
        engine = create_test_engine(agents={"*": "x"}, profiles={"t": profile})
    except ConfigError as error:
        assert field in str(error)
        return
    outcome = await engine.run(work).result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.code == "config"
    assert field in outcome.error.message
    assert not engine.fake.calls


PRICES = {"fake:fake-model": ModelPricing(input_usd_per_m_tok=0, output_usd_per_m_tok=1000)}


class Desk:
    """An agent with a tool that counts, in an engine in which output costs money."""

    def __init__(self, *, needs_approval: bool = False) -> None:
        self.refunds: list[str] = []

        @tool(needs_approval=needs_approval)
        def refund(order: str) -> str:
            """Pay back."""
            self.refunds.append(order)
            return "done"

        @workflow(name="desk")
        async def desk(ctx: Any, args: Any) -> Any:
            first = await ctx.agent("refund A7", tools=[refund], est_cost=0)
            return [first, await ctx.agent("say so", est_cost=0.01)]

        def model(call: Any) -> Any:
            told = call.req.messages[-1].role == "tool" or call.prompt == "say so"
            return "done" if told else fake_tool_calls(name="refund", args={"order": "A7"})

        self.workflow = desk
        self.engine = create_test_engine(agents={"*": model}, pricing=PRICES)

    def roles(self) -> int:
        return len(self.engine.fake.calls)


async def test_raising_a_budget_goes_on_at_the_turn_that_was_not_paid() -> None:
    desk = Desk()
    outcome = await desk.engine.run(desk.workflow, run_id="r", budget_usd=0.008).result()
    assert outcome.status == "exhausted"
    assert desk.refunds == ["A7"]
    calls = desk.roles()
    resumed = desk.engine.resume("r", desk.workflow, budget_usd=1)
    assert (await resumed.result()).value == ["done", "done"]
    assert desk.refunds == ["A7"]  # the tool had finished
    assert desk.roles() == calls + 2  # the turn that was refused, and the second agent


async def test_what_was_spent_before_a_suspension_counts_against_the_ceiling_after_it() -> None:
    costs = []
    for approval in (False, True):
        desk = Desk(needs_approval=approval)
        run = desk.engine.run(desk.workflow, run_id="r", budget_usd=0.018)
        outcome = await run.result()
        if approval:
            assert outcome.status == "suspended"
            told = [event["spentUsd"] for event in run.events_seen() if event["type"] == "budget:update"]
            assert told[-1] == pytest.approx(0.008)  # the turn before the question
            assert outcome.cost.total_usd == 0  # it is reported once the agent has ended, as its tokens are
            await run.resolve_external(outcome.pending[0].key, {"decision": "allow"})
            outcome = await desk.engine.resume("r", desk.workflow).result()
        costs.append((outcome.status, round(outcome.cost.total_usd, 6), desk.refunds))
    assert costs[0] == costs[1]
    assert costs[0][0] == "exhausted"


def test_a_risk_that_is_none_is_refused_where_the_tool_is_made() -> None:
    with pytest.raises(ConfigError, match="read, write, network, exec, destructive"):

        @tool(risk="reed")  # type: ignore[arg-type]
        def look() -> str:
            return ""
