"""Guards, hooks, limits, money, events: what an agent's rules do."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from orders import REPLY, Orders

from rulvar import Engine, tool, workflow
from rulvar.agents import Agent, AgentGuards, Hook, Limits, Rewrite, StreamPolicy
from rulvar.errors import ConfigError, InvalidInputError
from rulvar.testing.script import final, scripted_model, tool_calls

LOOK = {"tool_id": "orders.lookup", "input": {"order_id": "A1"}}


def plain(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(id="plain", model=scripted_model(steps or [final("ok")]), **options)


# -- input and output ------------------------------------------------------------------------


async def test_an_input_that_does_not_fit_costs_nothing(run: Any) -> None:
    agent = plain(input={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    told = await run(agent, {"n": "many"})
    assert (told.status, told.code) == ("error", "invalid_input")
    assert "['n']" in told.text
    assert agent.model.calls == []


async def test_an_answer_that_does_not_fit_is_invalid_and_not_asked_for_again(run: Any) -> None:
    agent = plain(final({"reply": 7}), final({"reply": "never"}), output=REPLY)
    told = await run(agent)
    assert (told.status, told.code) == ("error", "invalid_output")
    assert agent.model.remaining == 1


async def test_guards_let_through_rewrite_and_block(run: Any) -> None:
    agent = plain(
        lambda request: final({"reply": request.prompt}),
        output=REPLY,
        guards=AgentGuards(
            input=[lambda value: True, lambda value: Rewrite(value.upper())],
            output=[lambda value: Rewrite({"reply": value["reply"] + "!"})],
        ),
    )
    assert (await run(agent, "hi")).outcome.value == {"reply": "HI!"}
    for guards in (AgentGuards(input=[lambda v: "no"]), AgentGuards(output=[lambda v: False])):
        told = await run(plain(guards=guards))
        assert (told.status, told.code) == ("blocked", "guard_blocked")


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("verdict", ["raise", 7])
async def test_a_guard_that_breaks_blocks(run: Any, side: str, verdict: Any) -> None:
    def guard(value: Any) -> Any:
        if verdict == "raise":
            raise RuntimeError("PRIVATE")
        return verdict

    told = await run(plain(guards=AgentGuards(**{side: [guard]})))
    assert (told.status, told.code) == ("blocked", "guard_unavailable")
    assert "PRIVATE" not in told.everything


async def test_a_rewrite_is_checked_like_what_it_replaces(run: Any) -> None:
    agent = plain(
        final({"reply": "x"}), output=REPLY, guards=AgentGuards(output=[lambda v: Rewrite({"reply": 1})])
    )
    assert (await run(agent)).code == "invalid_output"


# -- hooks -----------------------------------------------------------------------------------


async def test_hooks_are_called_at_their_points_in_order(run: Any) -> None:
    seen: list[str] = []
    points = [
        "before_run", "before_step", "before_model_call", "after_model_call", "before_tool_call", "after_tool_call",
        "after_step", "before_release", "finally", "on_error", "on_blocked",
    ]  # fmt: skip
    hooks = [Hook(point, lambda facts, point=point: seen.append(point)) for point in points]  # type: ignore[arg-type]
    orders = Orders()
    told = await run(plain(tool_calls(LOOK), final("ok"), tools=[orders.lookup], hooks=hooks))
    assert told.status == "ok"
    assert seen == [
        "before_run",
        "before_step", "before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "after_step",
        "before_step", "before_model_call", "after_model_call", "before_release", "after_step",
        "finally",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "point", ["before_run", "before_step", "before_model_call", "before_tool_call", "before_release"]
)
@pytest.mark.parametrize("how", ["blocks", "breaks"])
async def test_a_hook_at_a_control_point_stops_the_agent(run: Any, point: Any, how: str) -> None:
    def hook(facts: Any) -> Any:
        if how == "breaks":
            raise RuntimeError("PRIVATE")
        return "not now"

    orders = Orders()
    agent = plain(tool_calls(LOOK), final("ok"), tools=[orders.lookup], hooks=[Hook(point, hook)])
    told = await run(agent)
    assert (told.status, told.code) == (
        "blocked",
        "guard_blocked" if how == "blocks" else "guard_unavailable",
    )
    assert "PRIVATE" not in told.everything
    if point == "before_tool_call":
        assert not orders.executions


async def test_an_observer_that_breaks_changes_nothing_unless_it_is_mandatory(run: Any) -> None:
    def breaks(facts: Any) -> None:
        raise RuntimeError("PRIVATE")

    assert (await run(plain(hooks=[Hook("after_model_call", breaks)]))).status == "ok"
    told = await run(plain(hooks=[Hook("after_model_call", breaks, mandatory=True)]))
    assert (told.status, told.code) == ("blocked", "guard_unavailable")


async def test_hook_calls_are_bounded(run: Any) -> None:
    hooks = [Hook("before_step", lambda facts: None)] * 3
    told = await run(plain(hooks=hooks, limits=Limits(max_hook_calls=2)))
    assert (told.status, told.code) == ("error", "limit_exceeded")


# -- limits ----------------------------------------------------------------------------------


LOOK_TWICE = (tool_calls({"id": "c1", **LOOK}), tool_calls({"id": "c2", **LOOK}), final("x"))


@pytest.mark.parametrize("limits", [Limits(max_tool_calls=1), {"max_tool_calls": 1}])
async def test_a_run_may_give_its_agent_limits(run: Any, limits: Any) -> None:
    orders = Orders()
    told = await run(plain(*LOOK_TWICE, tools=[orders.lookup]), run={"limits": limits})
    assert (told.status, told.code) == ("error", "limit_exceeded")
    assert orders.executions["orders.lookup"] == 1


async def test_the_tighter_of_a_runs_limits_and_the_agents_own_holds(run: Any) -> None:
    for own, given in ((1, 5), (5, 1)):
        agent = plain(*LOOK_TWICE, tools=[Orders().lookup], limits=Limits(max_tool_calls=own))
        told = await run(agent, run={"limits": Limits(max_tool_calls=given)})
        assert (told.code, told.outcome.error.data["bound"]) == ("limit_exceeded", 1)
    more = await run(plain(*LOOK_TWICE, tools=[Orders().lookup]), run={"limits": Limits(max_steps=20)})
    assert more.status == "ok"


async def test_an_engine_may_bound_every_agent_and_every_run(run: Any) -> None:
    paid = final("x", cost_micros=3)
    for options in (
        {"limits": Limits(max_cost_micros=4)},
        {"budget_usd": 0.000004},
        {"budget_usd": "0.000004"},
    ):
        agent = Agent(id="a", model=scripted_model([paid], max_cost_micros=5))
        assert (await run(agent, **options)).code == "budget_exceeded"
        assert (await run(agent, **options, run={"budget_micros": 5, "limits": Limits()})).status == "ok"


async def test_a_budget_is_given_in_one_of_two_units(run: Any) -> None:
    for given in ({"budget_micros": 7}, {"budget_usd": Decimal("0.000007")}, {"budget_usd": "0.000007"}):
        assert (await run(plain(), run=given)).budget.ceiling_micros == 7
    for refused, field in (
        ({"budget_micros": 7, "budget_usd": 1}, "exclude"),
        ({"budget_micros": -1}, "budget_micros=-1"),
        ({"budget_micros": 1.5}, "budget_micros"),
        ({"budget_usd": "much"}, "budget_usd"),
    ):
        with pytest.raises(ConfigError, match=field):
            await run(plain(), run=refused)


@pytest.mark.parametrize(
    ("options", "run_options", "bound"),
    [
        ({"limits": Limits(max_cost_micros=0)}, {}, "limits.max_cost_micros of agent a"),
        ({}, {"limits": Limits(max_cost_micros=3)}, "limits.max_cost_micros of agent a"),
        ({"limits": Limits(max_cost_micros=9)}, {"budget_usd": 0}, "the run's budget"),
    ],
)
async def test_a_refusal_names_the_bound_that_was_reached(
    run: Any, options: dict[str, Any], run_options: dict[str, Any], bound: str
) -> None:
    agent = Agent(id="a", model=scripted_model([final("x")], max_cost_micros=5), **options)
    told = await run(agent, run=run_options)
    assert told.code == "budget_exceeded"
    assert told.text.endswith(f"raise {bound}")


def test_no_guards_may_be_written_as_an_empty_list() -> None:
    assert plain(guards=()).guards == AgentGuards()


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"max_steps": 1}, "limit_exceeded"),
        ({"max_model_calls": 1}, "limit_exceeded"),
        ({"max_tool_calls": 0}, "limit_exceeded"),
        ({"max_input_bytes": 3}, "limit_exceeded"),
        ({"max_output_bytes": 3}, "limit_exceeded"),
        ({"max_context_bytes": 10}, "limit_exceeded"),
        ({"max_duration": 0.02}, "timeout"),
    ],
)
async def test_every_limit_ends_the_agent(run: Any, limit: dict[str, Any], code: str) -> None:
    async def slow(request: Any) -> Any:
        await asyncio.sleep(0.1 if "max_duration" in limit else 0)
        return final("a long answer")

    orders = Orders()
    told = await run(plain(tool_calls(LOOK), slow, tools=[orders.lookup], limits=Limits(**limit)))
    assert (told.status, told.code) == ("error", code)
    assert next(iter(limit)) in told.text


@pytest.mark.parametrize(
    "field", [{"max_steps": 0}, {"max_duration": -1}, {"nosuch": 1}, {"max_cost_micros": 1.5}]
)
def test_a_wrong_limit_is_named(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"agent 'plain': .*{next(iter(field))}"):
        plain(limits=field)


# -- money -----------------------------------------------------------------------------------


async def test_siblings_promise_atomically() -> None:
    """Ten are there, three ask for five each: two go through."""
    gate = asyncio.Event()

    async def wait(request: Any) -> Any:
        await gate.wait()
        return final("ok", cost_micros=5)

    agents = [
        Agent(id=f"a{n}", model=scripted_model([wait], id=f"m{n}", max_cost_micros=5)) for n in range(3)
    ]

    @workflow
    async def three(ctx: Any) -> Any:
        asyncio.get_running_loop().call_later(0.05, gate.set)
        return await ctx.parallel(
            [lambda agent=agent: ctx.workflow(agent, "hi") for agent in agents],
            settle=True,
            abort_siblings=False,
        )

    async with Engine(budget_defaults={"flat_reserve_usd": 0}) as engine:
        handle = engine.run(three, budget_usd=0.00001)
        await handle.result()
        assert engine.inspect(handle).budget.spent_micros == 10
    assert sorted(len(agent.model.calls) for agent in agents) == [0, 1, 1]


async def test_a_call_that_failed_with_an_unknown_cost_stays_reserved(run: Any) -> None:
    def breaks(request: Any) -> Any:
        raise ValueError("no")

    agent = Agent(
        id="a", model=scripted_model([breaks], max_cost_micros=5), limits=Limits(max_cost_micros=100)
    )
    told = await run(agent)
    assert told.code == "model_failed"
    assert (told.budget.spent_micros, told.budget.reserved_micros) == (0, 5)


# -- events ----------------------------------------------------------------------------------


async def test_the_simplest_run_tells_six_events(run: Any) -> None:
    told = await run(plain())
    assert await told.types() == [
        "run:start",
        "step:start",
        "model:start",
        "model:end",
        "step:end",
        "run:end",
    ]
    ended = (await told.events("run:end"))[0]
    assert ended.metadata["status"] == "ok"
    assert ended.metadata["calls"] == 1


async def test_of_two_retained_events_the_rest_is_a_gap(run: Any) -> None:
    told = await run(plain(limits=Limits(max_event_retention=2)))
    events = [event async for event in told.handle.observe()]
    assert [(event.type, event.seq) for event in events] == [
        ("events:gap", 4),
        ("step:end", 5),
        ("run:end", 6),
    ]
    assert (events[0].metadata["from"], events[0].metadata["to"]) == (1, 4)
    assert [event.seq async for event in told.handle.observe(after=5)] == [6]


@pytest.mark.parametrize("after", [7, -1, True, "1"])
async def test_observing_after_an_event_that_never_was_is_refused(run: Any, after: Any) -> None:
    told = await run(plain())
    with pytest.raises(InvalidInputError, match="from 0 to 6"):
        async for _ in told.handle.observe(after=after):
            pass


async def test_observing_follows_a_live_run_and_stopping_leaves_it_alone() -> None:
    gate = asyncio.Event()

    async def wait(request: Any) -> Any:
        await gate.wait()
        return final("ok")

    async with Engine() as engine:
        handle = engine.run(plain(wait), "hi")
        async for event in handle.observe():
            if event.type == "model:start":
                break
        gate.set()
        assert [event.type async for event in handle.observe(after=3)] == ["model:end", "step:end", "run:end"]
        assert (await handle.result()).status == "ok"


# -- streams ---------------------------------------------------------------------------------


async def streamed(
    run: Any, guards: list[Any], reply: str = "one two three four"
) -> tuple[Any, list[str], int]:
    model = scripted_model([final({"reply": reply})], stream_chunk=3)
    policy = StreamPolicy(field="reply", guards=guards, batch=(4, 8))
    told = await run(Agent(id="w", model=model, output=REPLY, stream=policy))
    texts = [event.metadata["text"] for event in await told.events("output:delta")]
    return told, texts, len(await told.events("output:withheld"))


async def test_batches_end_at_white_space_and_guards_see_what_is_out(run: Any) -> None:
    seen: list[tuple[str, str]] = []

    async def guard(out: str, batch: str) -> bool:
        seen.append((out, batch))
        return True

    told, texts, withheld = await streamed(run, [guard])
    assert texts == ["one ", "two ", "three ", "four"]
    assert seen == [("", "one "), ("one ", "two "), ("one two ", "three "), ("one two three ", "four")]
    assert withheld == 0
    assert told.outcome.value == {"reply": "one two three four"}


@pytest.mark.parametrize("how", ["blocks", "breaks"])
async def test_a_batch_that_a_guard_blocks_withholds_the_rest_and_the_run_goes_on(run: Any, how: str) -> None:
    def guard(out: str, batch: str) -> Any:
        if "three" in batch and how == "breaks":
            raise RuntimeError("PRIVATE")
        return "three" not in batch

    told, texts, withheld = await streamed(run, [guard])
    assert (texts, withheld) == (["one ", "two "], 1)
    assert told.outcome.value == {"reply": "one two three four"}


async def test_a_batch_may_be_rewritten(run: Any) -> None:
    _, texts, _ = await streamed(run, [lambda out, batch: Rewrite(batch.upper())])
    assert "".join(texts) == "ONE TWO THREE FOUR"


async def test_tool_arguments_are_never_streamed(run: Any) -> None:
    @tool
    def look(reply: str) -> str:
        """Look."""
        return reply

    model = scripted_model(
        [tool_calls({"tool_id": "look", "input": {"reply": "secret"}}), final({"reply": "open"})]
    )
    agent = Agent(
        id="w", model=model, tools=[look], output=REPLY, stream=StreamPolicy(field="reply", guards=[])
    )
    told = await run(agent)
    assert [event.metadata["text"] for event in await told.events("output:delta")] == ["open"]


def test_a_policy_that_streams_out_of_plain_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="agent 'w': stream"):
        Agent(id="w", model=scripted_model([]), stream=StreamPolicy(field="reply", guards=[]))
