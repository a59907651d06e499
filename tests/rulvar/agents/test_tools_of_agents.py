"""What agents do with tools: batches looked at as a whole, failures that end, writes that may have happened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from orders import Orders

from rulvar import Engine, InMemoryStore, ToolRefusal, tool
from rulvar.agents import Agent, Limits
from rulvar.testing.script import final, scripted_model, tool_calls

REFUND = {"tool_id": "orders.refund", "input": {"order_id": "A1", "amount": 3}}
LOOK = {"tool_id": "orders.lookup", "input": {"order_id": "A1"}}


def desk(orders: Orders, *steps: Any, **options: Any) -> Agent[Any]:
    options.setdefault("tools", [orders.lookup, orders.refund, orders.peek])
    return Agent(id="desk", model=scripted_model(steps), **options)


async def test_a_batch_with_one_denied_call_runs_none_of_them(run: Any) -> None:
    orders = Orders()
    told = await run(
        desk(orders, tool_calls(LOOK, REFUND)), grants={"model:scripted", "tool:orders.lookup", "effect:read"}
    )
    assert (told.status, told.code) == ("blocked", "permission_denied")
    assert not orders.executions
    assert await told.events("tool:start") == []


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ({"tool_id": "nosuch", "input": {}}, "not_found"),
        ({"tool_id": "orders.refund", "input": {"order_id": "A1", "amount": "x"}}, "invalid_input"),
        ({**LOOK, "id": "same"}, "conflict"),
    ],
)
async def test_a_batch_with_one_wrong_call_runs_none_of_them(run: Any, second: Any, code: str) -> None:
    orders = Orders()
    told = await run(desk(orders, tool_calls({**LOOK, "id": "same"}, second)))
    assert (told.status, told.code) == ("error", code)
    assert not orders.executions


async def test_a_call_id_that_came_in_an_earlier_turn_is_a_conflict(run: Any) -> None:
    orders = Orders()
    told = await run(desk(orders, tool_calls({**LOOK, "id": "c"}), tool_calls({**LOOK, "id": "c"})))
    assert told.code == "conflict"
    assert orders.executions["orders.lookup"] == 1


async def test_a_batch_that_cannot_be_paid_as_a_whole_runs_nothing(run: Any) -> None:
    orders = Orders()
    told = await run(desk(orders, tool_calls(REFUND, REFUND, LOOK), limits=Limits(max_cost_micros=15)))
    assert (told.status, told.code) == ("exhausted", "budget_exceeded")
    assert not orders.executions
    assert (told.budget.spent_micros, told.budget.reserved_micros) == (0, 0)


async def test_the_first_tool_that_fails_ends_the_agent(run: Any) -> None:
    orders = Orders()
    peek = {"tool_id": "orders.peek", "input": {"order_id": "ERR"}}
    agent = desk(orders, tool_calls(peek, LOOK), final("never"))
    told = await run(agent)
    assert (told.status, told.code) == ("error", "tool_failed")
    assert orders.executions == {"orders.peek": 1}
    assert told.budget.spent_micros == 4
    assert isinstance(told.handle.exception, RuntimeError)
    assert "PRIVATE" not in told.everything


async def test_a_refusal_is_told_and_costs_nothing(run: Any) -> None:
    orders = Orders()
    refund = {"tool_id": "orders.refund", "input": {"order_id": "A0", "amount": 3}}
    told = await run(desk(orders, tool_calls(refund)))
    assert (told.status, told.code) == ("error", "tool_failed")
    assert "nothing to refund" in told.text
    assert (told.budget.spent_micros, told.budget.reserved_micros) == (0, 0)


async def test_a_write_that_may_have_happened_is_unknown_and_its_cost_stays_reserved(run: Any) -> None:
    orders = Orders()
    refund = {"id": "w", "tool_id": "orders.refund", "input": {"order_id": "ERR", "amount": 3}}
    told = await run(desk(orders, tool_calls(refund), final("never")))
    assert (told.status, told.code) == ("outcome_unknown", "outcome_unknown")
    assert (told.budget.spent_micros, told.budget.reserved_micros) == (0, 10)
    ended = (await told.events("tool:end"))[0]
    assert (ended.metadata["execution"], ended.metadata["disclosure"]) == ("unknown", "withheld")
    receipts = [
        entry["value"]["receipt"] for entry in told.entries if "receipt" in (entry.get("value") or {})
    ]
    assert [(item["callId"], item["execution"], item["reservedMicros"]) for item in receipts] == [
        ("w", "unknown", 10)
    ]
    assert "PRIVATE" not in told.everything


async def test_a_resume_does_not_make_a_write_again_that_may_have_happened() -> None:
    orders, store = Orders(), InMemoryStore()
    refund = {"tool_id": "orders.refund", "input": {"order_id": "ERR", "amount": 3}}
    async with Engine(journal=store) as engine:
        first = await engine.run(desk(orders, tool_calls(refund)), "hi", run_id="r").result()
    assert first.status == "outcome_unknown"
    again = desk(orders, tool_calls(refund))
    async with Engine(journal=store) as engine:
        handle = engine.resume("r", again, args="hi")
        second = await handle.result()
        assert engine.inspect(handle).budget.reserved_micros == 10
    assert (second.status, second.error.code) == ("outcome_unknown", "outcome_unknown")  # type: ignore[union-attr]
    assert orders.executions["orders.refund"] == 1
    assert again.model.calls == []
    seq = next(entry.seq for entry in await store.load("r") if entry.kind == "agent" and entry.ref is None)
    orders.broken = False
    retried = desk(orders, final("Done."))
    async with Engine(journal=store) as engine:
        third = await engine.resume("r", retried, args="hi", invalidate=[seq]).result()
    assert (third.status, third.value) == ("ok", "Done.")


async def test_a_finished_agent_is_served_from_the_journal() -> None:
    orders, store = Orders(), InMemoryStore()
    async with Engine(journal=store) as engine:
        await engine.run(desk(orders, tool_calls(LOOK), final("Done.")), "hi", run_id="r").result()
    again = desk(orders)
    async with Engine(journal=store) as engine:
        resumed = engine.resume("r", again, args="hi")
        outcome = await resumed.result()
        preview = await resumed.preview()
    assert (outcome.status, outcome.value) == ("ok", "Done.")
    assert (preview.hits, preview.misses) == (1, 0)
    assert orders.executions["orders.lookup"] == 1


@pytest.mark.parametrize(
    ("effects", "status", "code"),
    [("read", "error", "timeout"), ("write", "outcome_unknown", "outcome_unknown")],
)
async def test_an_agent_that_takes_too_long_in_a_tool(run: Any, effects: Any, status: str, code: str) -> None:
    @tool(effects=effects)
    async def hang() -> None:
        """Hang."""
        await asyncio.sleep(60)

    agent = Agent(
        id="slow", model=scripted_model([tool_calls({"tool_id": "hang", "input": {}})]), tools=[hang],
        limits=Limits(max_duration=0.05),
    )  # fmt: skip
    told = await run(agent)
    assert (told.status, told.code) == (status, code)


@pytest.mark.parametrize(("effects", "status"), [("read", "cancelled"), ("write", "outcome_unknown")])
async def test_an_agent_that_is_cancelled_in_a_tool(effects: Any, status: str) -> None:
    entered = asyncio.Event()

    @tool(effects=effects, cost_micros=5)
    async def hang() -> None:
        """Hang."""
        entered.set()
        await asyncio.sleep(60)

    model = scripted_model([tool_calls({"tool_id": "hang", "input": {}})])
    async with Engine() as engine:
        handle = engine.run(Agent(id="slow", model=model, tools=[hang]), "hi")
        await entered.wait()
        await handle.cancel("enough")
        outcome = await handle.result()
        assert outcome.status == status
        if effects == "write":
            assert engine.inspect(handle).budget.reserved_micros == 5


async def test_tools_whose_ids_look_alike_are_told_apart(run: Any) -> None:
    called: list[str] = []

    def made(tool_id: str) -> Any:
        @tool(id=tool_id)
        def same() -> str:
            """Say who you are."""
            called.append(tool_id)
            return tool_id

        return same

    agent = Agent(
        id="a",
        model=scripted_model([tool_calls({"tool_id": "x_y_2", "input": {}}), final("ok")]),
        tools=[made("x.y"), made("x:y")],
    )
    assert [item.name for item in agent.toolset] == ["x_y", "x_y_2"]
    assert (await run(agent)).status == "ok"
    assert called == ["x:y"]


async def test_guards_and_refusals_of_tools_end_the_agent_with_their_codes(run: Any) -> None:
    from rulvar.tools.tool import ToolGuards

    def blocks(args: Any) -> str:
        return "not today"

    def breaks(args: Any) -> bool:
        raise RuntimeError("PRIVATE guard")

    for guard, code in ((blocks, "guard_blocked"), (breaks, "guard_unavailable")):

        @tool(guards=ToolGuards(input=[guard]))
        def act() -> str:
            """Act."""
            raise ToolRefusal("never reached")

        told = await run(
            Agent(id="a", model=scripted_model([tool_calls({"tool_id": "act", "input": {}})]), tools=[act])
        )
        assert (told.status, told.code) == ("blocked", code)
        assert "PRIVATE" not in told.everything


async def test_calls_that_a_human_must_allow_wait_and_go_on() -> None:
    ran: list[int] = []

    @tool(needs_approval=True)
    def act() -> str:
        """Act."""
        ran.append(1)
        return "done"

    store = InMemoryStore()
    steps = [tool_calls({"tool_id": "act", "input": {}}), final("ok")]
    async with Engine(journal=store) as engine:
        outcome = await engine.run(
            Agent(id="a", model=scripted_model(steps), tools=[act]), "hi", run_id="r"
        ).result()
        assert outcome.status == "suspended"
        await engine.resolve_external("r", outcome.pending[0].key, {"decision": "allow"})
    async with Engine(journal=store) as engine:
        again = Agent(id="a", model=scripted_model([final("ok")]), tools=[act])
        outcome = await engine.resume("r", again, args="hi").result()
    assert (outcome.status, outcome.value, ran) == ("ok", "ok", [1])


async def test_a_script_names_tools_by_id_also_where_their_names_are_alike(run: Any) -> None:
    called: list[str] = []

    def tool_of(tool_id: str) -> Any:
        @tool(id=tool_id)
        def record() -> None:
            called.append(tool_id)

        return record

    ids = ["orders/list", "orders_list", "orders.list"]
    model = scripted_model([tool_calls({"tool_id": tool_id, "input": {}}) for tool_id in ids] + [final("ok")])
    agent = Agent(id="a", model=model, tools=[tool_of(tool_id) for tool_id in reversed(ids)])
    assert [item.name for item in agent.toolset] == ["orders_list", "orders_list_2", "orders_list_3"]
    assert (await run(agent)).status == "ok"
    assert called == ids
