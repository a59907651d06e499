"""More scenarios of agents on scripted models: turns, batches, money, limits, guards, streams, children."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from orders import REPLY, Orders

from rulvar import Engine, InMemoryStore, ToolGuards, ToolRefusal, tool
from rulvar.agents import Agent, AgentGuards, Hook, Limits, Rewrite, StreamPolicy, agent_as_tool
from rulvar.errors import ConfigError
from rulvar.testing import FakeAdapter, TestClock, final, sample_pdf, sample_png, scripted_model, tool_calls

ALL = {
    "model:scripted",
    "model:child",
    "tool:orders.lookup",
    "tool:orders.refund",
    "tool:orders.peek",
    "payments:refund",
    "effect:read",
    "effect:write",
    "agent:delegate",
    "tool:ask.child",
}


class Ended:
    """A run of an agent that has ended, and all that can be seen of it."""

    def __init__(self, engine: Engine, handle: Any, outcome: Any, entries: list[Any]) -> None:
        self.handle, self.outcome, self.entries = handle, outcome, entries
        self.view = engine.inspect(handle)
        self.budget = self.view.budget

    @property
    def end(self) -> tuple[str, str | None]:
        return self.outcome.status, None if self.outcome.error is None else self.outcome.error.code

    @property
    def text(self) -> str:
        return "" if self.outcome.error is None else self.outcome.error.message

    @property
    def money(self) -> tuple[int, int]:
        return self.budget.spent_micros, self.budget.reserved_micros

    async def events(self, *types: str) -> list[Any]:
        return [event async for event in self.handle.observe() if not types or event.type in types]

    @property
    def everything(self) -> str:
        return repr((self.outcome, self.entries, [event.to_wire() for event in self.handle.events_seen()]))


async def run(agent: Agent[Any], value: Any = "hi", *, run: Any = None, **options: Any) -> Ended:
    store = InMemoryStore()
    async with Engine(journal=store, **options) as engine:
        handle = engine.run(agent, value, **{"run_id": "r", **(run or {})})
        outcome = await handle.outcome
        assert await handle.outcome is outcome
        return Ended(engine, handle, outcome, [entry.to_wire() for entry in await store.load("r")])


def look(order_id: str = "A1", call_id: str = "c1", **usage: Any) -> dict[str, Any]:
    call = {"id": call_id, "tool_id": "orders.lookup", "input": {"order_id": order_id}}
    return tool_calls(call, **usage)


def support(*steps: Any, orders: Orders | None = None, tools: Any = None, **options: Any) -> Agent[Any]:
    orders = orders or Orders()
    model = options.pop("model", None) or scripted_model(steps, max_cost_micros=options.pop("bound", 0))
    chosen = [orders.lookup, orders.refund, orders.peek] if tools is None else tools
    return Agent(id="support", instructions="Help.", model=model, tools=chosen, output=REPLY, **options)


SHIPPED = final({"reply": "Shipped."})


async def test_an_answer_without_tools() -> None:
    ended = await run(support(SHIPPED), grants={"model:scripted"})
    assert (ended.end, ended.outcome.value) == (("ok", None), {"reply": "Shipped."})
    types = [event.type for event in await ended.events()]
    assert len(types) == 6
    assert [event.seq for event in await ended.events()] == [1, 2, 3, 4, 5, 6]


async def test_several_calls_of_one_turn_run_and_are_told_in_order() -> None:
    seen: list[Any] = []

    def check(request: Any) -> Any:
        seen.extend((item.call_id, item.result) for item in request.messages if item.role == "tool")
        return SHIPPED

    orders = Orders()
    batch = tool_calls(
        {"id": "a", "tool_id": "orders.lookup", "input": {"order_id": "A1"}},
        {"id": "b", "tool_id": "orders.lookup", "input": {"order_id": "A2"}},
    )
    ended = await run(support(batch, check, orders=orders), grants=ALL)
    assert (ended.end, orders.executions["orders.lookup"]) == (("ok", None), 2)
    assert seen == [("a", {"status": "shipped"}), ("b", {"status": "unknown"})]
    starts = [event.metadata["tool_id"] for event in await ended.events("tool:start")]
    assert starts == ["orders.lookup"] * 2


@pytest.mark.parametrize("missing", ["model:scripted", "tool:orders.lookup", "effect:read"])
async def test_each_grant_is_needed(missing: str) -> None:
    orders = Orders()
    agent = support(look(), SHIPPED, orders=orders)
    ended = await run(agent, grants=ALL - {missing})
    assert (ended.end, orders.executions["orders.lookup"]) == (("blocked", "permission_denied"), 0)
    assert len(agent.model.calls) == (0 if missing.startswith("model") else 1)
    assert ended.money == (0, 0)


async def test_without_grants_nothing_is_denied() -> None:
    assert (await run(support(look(), SHIPPED))).end == ("ok", None)


BATCHES: list[tuple[dict[str, Any], str, str]] = [
    ({"id": "b", "tool_id": "orders.nosuch", "input": {}}, "error", "not_found"),
    ({"id": "b", "tool_id": "orders.lookup", "input": {"order": "x"}}, "error", "invalid_input"),
    (
        {"id": "b", "tool_id": "orders.refund", "input": {"order_id": "A1", "amount": 1}},
        "blocked",
        "permission_denied",
    ),
    ({"id": "a", "tool_id": "orders.lookup", "input": {"order_id": "A2"}}, "error", "conflict"),
]


@pytest.mark.parametrize(("second", "status", "code"), BATCHES)
async def test_a_batch_is_looked_at_whole_before_any_of_it_runs(second: Any, status: str, code: str) -> None:
    orders = Orders()
    first = {"id": "a", "tool_id": "orders.lookup", "input": {"order_id": "A1"}}
    ended = await run(
        support(tool_calls(first, second), SHIPPED, orders=orders), grants=ALL - {"payments:refund"}
    )
    assert (ended.end, sum(orders.executions.values())) == ((status, code), 0)


async def test_a_batch_that_costs_more_than_is_left() -> None:
    orders = Orders()
    calls = [{"id": str(n), "tool_id": "orders.peek", "input": {"order_id": "A1"}} for n in range(3)]
    agent = support(tool_calls(*calls), SHIPPED, orders=orders, limits=Limits(max_cost_micros=11))
    ended = await run(agent, grants=ALL)
    assert (ended.end, orders.executions, ended.money) == (("exhausted", "budget_exceeded"), {}, (0, 0))
    enough = support(tool_calls(*calls), SHIPPED, orders=orders, limits=Limits(max_cost_micros=12))
    paid = await run(enough, grants=ALL)
    assert (paid.end, paid.money, orders.executions["orders.peek"]) == (("ok", None), (12, 0), 3)


async def test_a_batch_over_the_limit_of_tool_calls_runs_nothing() -> None:
    orders = Orders()
    calls = [{"id": str(n), "tool_id": "orders.lookup", "input": {"order_id": "A1"}} for n in range(2)]
    agent = support(tool_calls(*calls), SHIPPED, orders=orders, limits=Limits(max_tool_calls=1))
    ended = await run(agent)
    assert (ended.end, sum(orders.executions.values())) == (("error", "limit_exceeded"), 0)


async def test_a_call_id_comes_once_in_a_run() -> None:
    orders = Orders()
    ended = await run(support(look(), look(), SHIPPED, orders=orders))
    assert (ended.end, orders.executions["orders.lookup"]) == (("error", "conflict"), 1)


@pytest.mark.parametrize(
    ("order_id", "end", "text"),
    [
        ("A0", ("error", "tool_failed"), "nothing to refund"),
        ("ERR", ("outcome_unknown", "outcome_unknown"), "orders.refund"),
    ],
)
async def test_the_first_call_that_fails_ends_the_agent(order_id: str, end: Any, text: str) -> None:
    orders = Orders()
    call = {"id": "x", "tool_id": "orders.refund", "input": {"order_id": order_id, "amount": 1}}
    agent = support(tool_calls(call), SHIPPED, orders=orders)
    ended = await run(agent, grants=ALL)
    assert (ended.end, len(agent.model.calls), text in ended.text) == (end, 1, True)
    assert ended.money == ((0, 0) if order_id == "A0" else (0, 10))
    assert "PRIVATE" not in ended.everything


async def test_a_read_that_raises_is_paid_and_ends_the_agent() -> None:
    call = {"id": "x", "tool_id": "orders.peek", "input": {"order_id": "ERR"}}
    ended = await run(support(tool_calls(call), SHIPPED), grants=ALL)
    assert (ended.end, ended.money) == (("error", "tool_failed"), (4, 0))
    assert "PRIVATE" not in ended.everything


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [look()],
        [lambda request: None],
        [lambda request: {"type": "final"}],
        [lambda request: {"type": "tool_calls", "calls": []}],
        [lambda request: {"type": "final", "output": {"reply": "x"}, "usage": {"cost_micros": -1}}],
        [lambda request: {"type": "other", "output": {"reply": "x"}}],
        [lambda request: 1 / 0],
    ],
)
async def test_a_model_that_gives_no_answer_fails(steps: Any) -> None:
    ended = await run(support(*steps))
    assert (ended.end, ended.outcome.value) == (("error", "model_failed"), None)
    assert "ZeroDivision" not in ended.text or "division by" not in ended.text


@pytest.mark.parametrize(
    "output", ["PRIVATE", {"reply": 7}, {}, {"reply": "x", "more": "PRIVATE"}, None, ["PRIVATE"]]
)
async def test_an_answer_that_does_not_fit_is_not_asked_for_again(output: Any) -> None:
    agent = support({"type": "final", "output": output}, SHIPPED)
    ended = await run(agent)
    assert (ended.end, ended.outcome.value, len(agent.model.calls)) == (("error", "invalid_output"), None, 1)
    assert "PRIVATE" not in str(ended.outcome)


async def test_a_step_may_be_awaited_and_sees_what_was_sent() -> None:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        assert request.instructions == "Help."
        assert [item.role for item in request.messages] == ["user", "assistant", "tool"]
        assert request.messages[1].calls[0][0] == "c1"
        assert request.messages[2].result == {"status": "shipped"}
        assert [item.name for item in request.tools] == ["orders_lookup", "orders_refund", "orders_peek"]
        return final({"reply": request.messages[0].content})

    ended = await run(support(look(), answer), "Where is A1?")
    assert (ended.end, ended.outcome.value) == (("ok", None), {"reply": "Where is A1?"})


async def test_a_script_is_used_up_over_runs_and_copied_when_it_is_written() -> None:
    step = {"type": "final", "output": {"reply": "first"}}
    model = scripted_model([step, final({"reply": "second"})])
    step["output"] = {"reply": "changed"}
    agent = support(model=model)
    assert [(await run(agent)).outcome.value for _ in range(2)] == [{"reply": "first"}, {"reply": "second"}]
    assert (await run(agent)).end == ("error", "model_failed")


@pytest.mark.parametrize("chunk", [0, -1, 1.5])
def test_a_piece_of_a_stream_has_a_size(chunk: Any) -> None:
    with pytest.raises(ConfigError, match="stream_chunk"):
        scripted_model([], stream_chunk=chunk)


# -- money and limits ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "cost", "ceiling", "end", "money", "asked"),
    [
        (5000, 1200, 10_000, ("ok", None), (1200, 0), 1),
        (5000, 5000, 5000, ("ok", None), (5000, 0), 1),
        (5000, 0, 5000, ("ok", None), (0, 0), 1),
        (5001, 1, 5000, ("exhausted", "budget_exceeded"), (0, 0), 0),
        (5, 6, 100, ("exhausted", "budget_exceeded"), (6, 0), 1),
        (0, 1, 100, ("exhausted", "budget_exceeded"), (1, 0), 1),
    ],
)
async def test_what_a_turn_may_cost(
    bound: int, cost: int, ceiling: int, end: Any, money: Any, asked: int
) -> None:
    agent = support(
        final({"reply": "x"}, cost_micros=cost), bound=bound, limits=Limits(max_cost_micros=ceiling)
    )
    ended = await run(agent)
    assert (ended.end, ended.money, len(agent.model.calls)) == (end, money, asked)
    if end[0] == "exhausted" and not asked:
        assert str(bound) in ended.text
        assert str(ceiling) in ended.text


async def test_turns_and_tools_are_paid_out_of_one_purse() -> None:
    call = {"id": "x", "tool_id": "orders.peek", "input": {"order_id": "A1"}}
    orders = Orders()

    def agent(ceiling: int) -> Agent[Any]:
        steps = (tool_calls(call, cost_micros=3), final({"reply": "x"}, cost_micros=3))
        return support(*steps, orders=orders, bound=3, limits=Limits(max_cost_micros=ceiling))

    assert ((await run(agent(10))).money, orders.executions["orders.peek"]) == ((10, 0), 1)
    short = await run(agent(6))
    assert (short.end, short.money, orders.executions["orders.peek"]) == (
        ("exhausted", "budget_exceeded"),
        (3, 0),
        1,
    )
    almost = await run(agent(9))
    assert (almost.end, almost.money) == (("exhausted", "budget_exceeded"), (7, 0))


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_steps": 1}, "limit_exceeded"),
        ({"max_model_calls": 1}, "limit_exceeded"),
        ({"max_tool_calls": 0}, "limit_exceeded"),
        ({"max_input_bytes": 3}, "limit_exceeded"),
        ({"max_context_bytes": 10}, "limit_exceeded"),
        ({"max_output_bytes": 5}, "limit_exceeded"),
    ],
)
async def test_limits(limits: Any, code: str) -> None:
    orders = Orders()
    ended = await run(support(look(), SHIPPED, orders=orders, limits=Limits(**limits)))
    assert ended.end == ("error", code)
    assert next(iter(limits)) in ended.text
    assert orders.executions["orders.lookup"] == (
        1 if set(limits) & {"max_steps", "max_model_calls", "max_output_bytes"} else 0
    )


async def test_no_tool_calls_are_needed_where_none_are_allowed() -> None:
    assert (await run(support(SHIPPED, limits=Limits(max_tool_calls=0)))).end == ("ok", None)


@pytest.mark.parametrize("where", ["model", "tool", "guard"])
async def test_a_run_that_takes_too_long(where: str) -> None:
    clock, begun = TestClock(), asyncio.Event()

    async def forever(*_: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    @tool(timeout=None, effects="read")
    async def hangs() -> None:
        await forever()

    steps = {"model": [forever], "tool": [tool_calls({"tool_id": "hangs", "input": {}})], "guard": [SHIPPED]}
    guards = AgentGuards(output=[forever] if where == "guard" else [])
    agent = support(*steps[where], tools=[hangs], limits=Limits(max_duration=2.0), guards=guards)
    running = asyncio.ensure_future(run(agent, clock=clock))
    await asyncio.wait_for(begun.wait(), 2)
    await clock.advance(1.999)
    assert not running.done()
    await clock.advance(0.001)
    ended = await asyncio.wait_for(running, 2)
    assert (ended.end, ended.outcome.value) == (("error", "timeout"), None)


@pytest.mark.parametrize(
    ("effects", "end"),
    [("read", ("cancelled", "cancelled")), ("write", ("outcome_unknown", "outcome_unknown"))],
)
async def test_a_run_that_is_cancelled_in_a_tool(effects: Any, end: Any) -> None:
    begun = asyncio.Event()

    @tool(timeout=None, effects=effects, cost_micros=5)
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    agent = support(tool_calls({"tool_id": "hangs", "input": {}}), SHIPPED, tools=[hangs])
    async with Engine(journal=InMemoryStore()) as engine:
        handle = engine.run(agent, "hi", run_id="r")
        await asyncio.wait_for(begun.wait(), 2)
        await handle.cancel("PRIVATE reason" if effects == "read" else "enough")
        outcome = await asyncio.wait_for(handle.outcome, 2)
        await handle.cancel("again")
        assert outcome.error is not None
        assert (outcome.status, outcome.error.code) == end
        budget = engine.inspect(handle).budget
    assert budget.reserved_micros == (5 if effects == "write" else 0)


# -- guards, hooks, streams ------------------------------------------------------------------


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("PRIVATE reason", "guard_blocked"),
        (False, "guard_blocked"),
        (KeyError("PRIVATE"), "guard_unavailable"),
    ],
)
async def test_guards_of_an_agent(side: str, verdict: Any, code: str) -> None:
    def guard(value: Any) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    agent = support(SHIPPED, guards=AgentGuards(**{side: [guard]}))
    ended = await run(agent)
    assert (ended.end, ended.outcome.value) == (("blocked", code), None)
    assert len(agent.model.calls) == (0 if side == "input" else 1)
    assert "PRIVATE" not in ended.everything


async def test_a_rewrite_goes_on_to_the_next_guard() -> None:
    seen: list[Any] = []

    def first(value: Any) -> Any:
        seen.append(value)
        return Rewrite({"reply": value["reply"].upper()})

    def second(value: Any) -> Any:
        seen.append(value)
        return None

    ended = await run(support(SHIPPED, guards=AgentGuards(output=[first, second])))
    assert (ended.outcome.value, seen) == (
        {"reply": "SHIPPED."},
        [{"reply": "Shipped."}, {"reply": "SHIPPED."}],
    )


async def test_a_tools_output_guard_withholds_and_the_model_goes_unasked() -> None:
    @tool(effects="write", cost_micros=3, guards=ToolGuards(output=[lambda data: False]))
    def acts() -> str:
        return "PRIVATE result"

    agent = support(tool_calls({"tool_id": "acts", "input": {}}), SHIPPED, tools=[acts])
    ended = await run(agent)
    assert (ended.end, ended.money, len(agent.model.calls)) == (("blocked", "guard_blocked"), (3, 0), 1)
    [event] = await ended.events("tool:end")
    assert ("succeeded" in repr(event.to_wire()), "withheld" in repr(event.to_wire())) == (True, True)
    assert "PRIVATE" not in str(ended.outcome)


async def test_a_hook_stops_a_tool_before_it_runs() -> None:
    orders = Orders()
    hook = Hook("before_tool_call", lambda facts: facts["toolId"] != "orders.lookup")
    ended = await run(support(look(), SHIPPED, orders=orders, hooks=[hook]))
    assert (ended.end, sum(orders.executions.values())) == (("blocked", "guard_blocked"), 0)


TEXT = "Your order ships today. It should arrive on Thursday, and you will get a tracking email."


async def streamed(guards: Any = (), batch: Any = (10, 40), chunk: int = 5, **options: Any) -> Ended:
    model = scripted_model([final({"reply": TEXT, **options})], stream_chunk=chunk)
    shape = {
        "type": "object",
        "properties": {"reply": {"type": "string"}, "secret": {"type": "string"}},
        "required": ["reply"],
    }
    policy = StreamPolicy(field=["reply"], guards=guards, batch=batch)
    return await run(Agent(id="writer", model=model, output=shape, stream=policy))


@pytest.mark.parametrize("chunk", [1, 4, 16, 1000])
async def test_the_chosen_field_is_told_and_nothing_else(chunk: int) -> None:
    ended = await streamed(chunk=chunk, secret="PRIVATE")
    deltas = await ended.events("output:delta")
    texts = [event.to_wire()["text"] for event in deltas]
    assert "".join(texts) == TEXT == ended.outcome.value["reply"]
    assert len(texts) > 2
    assert all(len(text) <= 40 for text in texts)
    assert [event.to_wire()["index"] for event in deltas] == list(range(len(texts)))


async def test_a_stream_guard_that_blocks_or_breaks_withholds_the_rest() -> None:
    def breaks(out: str, batch: str) -> Any:
        raise RuntimeError("PRIVATE")

    for guard, first in ((lambda out, batch: "Thursday" not in batch, True), (breaks, False)):
        ended = await streamed([guard])
        texts = [event.to_wire()["text"] for event in await ended.events("output:delta")]
        assert (ended.end, ended.outcome.value["reply"]) == (("ok", None), TEXT)
        assert len(await ended.events("output:withheld")) == 1
        assert ("Thursday" in "".join(texts), bool(texts)) == (False, first)


async def test_an_agent_without_a_policy_tells_no_pieces() -> None:
    ended = await run(support(SHIPPED))
    assert await ended.events("output:delta", "output:withheld") == []


@pytest.mark.parametrize(
    "options",
    [
        {"field": [], "guards": []},
        {"field": ["a"] * 9, "guards": []},
        {"field": ["reply"], "guards": [], "batch": (10, 5)},
        {"field": ["reply"], "guards": [], "batch": (0, 5)},
        {"field": ["reply"], "guards": [], "batch": (1, 4097)},
    ],
)
def test_a_stream_policy_that_cannot_be(options: Any) -> None:
    with pytest.raises(ConfigError, match="stream"):
        StreamPolicy(**options)


# -- children --------------------------------------------------------------------------------


def child(*steps: Any, **options: Any) -> Agent[Any]:
    return Agent(
        id="child",
        instructions="CHILD_PRIVATE",
        model=scripted_model(steps, id="child", max_cost_micros=options.pop("bound", 0)),
        input={"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
        output=REPLY,
        **options,
    )


def parent(inner: Agent[Any], *steps: Any, lent: Any = None, **options: Any) -> Agent[Any]:
    lends = {key: options.pop(key) for key in ("child_limits",) if key in options}
    asks = agent_as_tool(
        inner, id="ask.child", description="Ask.", grants=lent, limits=lends.get("child_limits")
    )
    return support(*steps, tools=[asks], **options)


ASK = tool_calls({"id": "k", "tool_id": "ask.child", "input": {"topic": "x"}})


async def test_a_child_sees_its_input_only_and_its_parent_its_answer_only() -> None:
    requests: list[Any] = []

    def inner(request: Any) -> Any:
        requests.append(request)
        return final({"reply": "seven"})

    def outer(request: Any) -> Any:
        requests.append(request)
        assert request.messages[-1].result == {"reply": "seven"}
        return SHIPPED

    ended = await run(parent(child(inner), ASK, outer), "PARENT_PRIVATE", grants=ALL)
    assert (ended.end, ended.budget.calls) == (("ok", None), 4)
    inner_request, outer_request = requests
    assert "PARENT_PRIVATE" not in repr(inner_request.messages) + inner_request.instructions
    assert "CHILD_PRIVATE" not in repr(outer_request.messages) + outer_request.instructions
    [node] = ended.view.agents
    assert [(node.agent_id, node.status), *[(item.agent_id, item.status) for item in node.children]] == [
        ("support", "ok"),
        ("child", "ok"),
    ]


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ([], ("error", "model_failed")),
        ([final({"reply": 1})], ("error", "invalid_output")),
    ],
)
async def test_a_child_that_fails_fails_its_parent(steps: Any, end: Any) -> None:
    ended = await run(parent(child(*steps), ASK, SHIPPED), grants=ALL)
    assert (ended.end, ended.outcome.value) == (end, None)


@pytest.mark.parametrize("lent", [set(), {"model:scripted"}])
async def test_a_child_needs_to_be_lent_its_model(lent: Any) -> None:
    inner = child(final({"reply": "x"}))
    ended = await run(parent(inner, ASK, SHIPPED, lent=lent), grants=ALL)
    assert (ended.end, inner.model.calls) == (("blocked", "permission_denied"), [])


async def test_a_child_is_lent_no_more_than_its_parent_has() -> None:
    orders = Orders()
    refund = tool_calls({"tool_id": "orders.refund", "input": {"order_id": "A1", "amount": 1}})
    inner = child(refund, final({"reply": "x"}), tools=[orders.refund])
    ended = await run(parent(inner, ASK, SHIPPED, lent=ALL), grants=ALL - {"effect:write"})
    assert (ended.end, sum(orders.executions.values())) == (("blocked", "permission_denied"), 0)


async def test_an_unknown_write_of_a_child_is_that_of_its_parent() -> None:
    orders = Orders()
    refund = tool_calls({"tool_id": "orders.refund", "input": {"order_id": "ERR", "amount": 1}})
    inner = child(refund, final({"reply": "x"}), tools=[orders.refund])
    ended = await run(parent(inner, ASK, SHIPPED), grants=ALL)
    assert (ended.end, ended.money) == (("outcome_unknown", "outcome_unknown"), (0, 10))


async def test_a_child_with_a_bound_of_its_own() -> None:
    inner = child(final({"reply": "x"}, cost_micros=4), bound=4, limits=Limits(max_cost_micros=3))
    ended = await run(parent(inner, ASK, SHIPPED, limits=Limits(max_cost_micros=100)), grants=ALL)
    assert (ended.end, ended.money) == (("exhausted", "budget_exceeded"), (0, 0))
    inner = child(final({"reply": "x"}, cost_micros=4), bound=4)
    ended = await run(parent(inner, ASK, SHIPPED, limits=Limits(max_cost_micros=4)), grants=ALL)
    assert (ended.end, ended.money) == (("ok", None), (4, 0))


async def test_model_calls_are_counted_over_the_tree() -> None:
    inner = child(final({"reply": "x"}))
    ended = await run(parent(inner, ASK, SHIPPED, limits=Limits(max_model_calls=2)), grants=ALL)
    assert ended.end == ("error", "limit_exceeded")
    inner = child(final({"reply": "x"}))
    assert (await run(parent(inner, ASK, SHIPPED, limits=Limits(max_model_calls=3)), grants=ALL)).end == (
        "ok",
        None,
    )


def test_limits_of_a_child_are_lowered_only() -> None:
    inner = child(limits=Limits(max_cost_micros=5, max_steps=2))
    assert agent_as_tool(inner, limits={"max_cost_micros": 5, "max_steps": 1})
    for limits in ({"max_cost_micros": 6}, {"max_steps": 3}, {"max_cost_micros": None}):
        with pytest.raises(ConfigError, match=next(iter(limits))):
            agent_as_tool(inner, limits=limits)


async def test_input_of_a_child_that_does_not_fit_runs_nothing() -> None:
    inner = child(final({"reply": "x"}))
    wrong = tool_calls({"tool_id": "ask.child", "input": {"topic": 7}})
    ended = await run(parent(inner, wrong, SHIPPED), grants=ALL)
    assert (ended.end, inner.model.calls) == (("error", "invalid_input"), [])


# -- events and definitions ------------------------------------------------------------------


async def test_the_last_event_tells_what_was_spent() -> None:
    agent = support(final({"reply": "x"}, cost_micros=3), bound=5, limits=Limits(max_cost_micros=10))
    ended = await run(agent)
    events = await ended.events()
    assert [event.to_wire() for event in await ended.events()] == [event.to_wire() for event in events]
    last = events[-1].to_wire()
    assert last["type"] == "run:end"
    assert "3" in repr(last)
    assert "Help." not in repr([event.to_wire() for event in events])


@pytest.mark.parametrize(("after", "seen"), [(0, 6), (3, 3), (5, 1), (6, 0)])
async def test_observing_after_an_event(after: int, seen: int) -> None:
    ended = await run(support(SHIPPED))
    assert len([event async for event in ended.handle.observe(after=after)]) == seen


async def test_of_a_few_retained_events_the_gap_is_told() -> None:
    ended = await run(support(SHIPPED, limits=Limits(max_event_retention=2)))
    events = [event.to_wire() for event in await ended.events()]
    assert [event["seq"] for event in events] == [4, 5, 6]
    assert (events[0]["from"], events[0]["to"]) == (1, 4)


def test_media_are_small_and_real() -> None:
    assert sample_png().startswith(b"\x89PNG\r\n\x1a\n")
    assert sample_pdf().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("media", "fits"), [(None, False), (False, False), (["image/png"], True), (["application/pdf"], False)]
)
def test_an_agent_needs_a_model_that_sees(media: Any, fits: bool) -> None:
    model = scripted_model([SHIPPED], media=media)
    if fits:
        assert Agent(id="sees", model=model, media="image/png")
        return
    with pytest.raises(ConfigError, match="sees"):
        Agent(id="sees", model=model, media="image/png")


def test_two_tools_of_one_id_are_refused() -> None:
    orders = Orders()
    with pytest.raises(ConfigError, match="support"):
        support(SHIPPED, tools=[orders.lookup, orders.lookup])
    with pytest.raises(ConfigError, match="support"):
        support(SHIPPED, tools=[lambda: None])


async def test_a_refusal_of_a_tool_reaches_the_outcome_with_its_reason() -> None:
    @tool(effects="write")
    def declines() -> None:
        raise ToolRefusal("the person declined")

    ended = await run(support(tool_calls({"tool_id": "declines", "input": {}}), SHIPPED, tools=[declines]))
    assert (ended.end, "the person declined" in ended.text) == (("error", "tool_failed"), True)


@pytest.mark.parametrize("kind", ["patterns", "sequence"])
async def test_the_fake_adapter_is_a_model_of_an_agent_too(kind: str) -> None:
    answer = {"reply": "x"}
    model = FakeAdapter({"*": answer}) if kind == "patterns" else FakeAdapter.sequence([answer])
    ended = await run(support(model=model), grants={"model:fake"})
    assert (ended.end, ended.outcome.value, len(model.calls)) == (("ok", None), {"reply": "x"}, 1)
    denied = await run(support(model=FakeAdapter.sequence([answer])), grants={"model:scripted"})
    assert denied.end == ("blocked", "permission_denied")
