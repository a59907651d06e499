"""``ctx.call_tool``: one pipeline, one journaled call with its receipt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from rulvar import (
    Ctx,
    DeclaredDocument,
    Engine,
    InMemoryStore,
    ToolContext,
    ToolEnvelope,
    ToolRefusal,
    define_workflow,
    inject,
    tool,
    workflow,
)
from rulvar.contracts.ports.tools import Handler, Proceed, ToolCall
from rulvar.errors import ConfigError, GuardBlockedError, PermissionDeniedError, ToolFailedError
from rulvar.testing import run_tool, run_workflow


def calling(chosen: Any, args: Any = None, **options: Any) -> Any:
    @workflow(name="calling")
    async def body(ctx: Ctx, _: Any) -> Any:
        return await ctx.call_tool(chosen, args, **options)

    return body


class Client:
    def __init__(self, name: str) -> None:
        self.name = name


@tool
def who(prefix: str, client: Client = inject(Client), tc: ToolContext = None) -> list[Any]:  # type: ignore[assignment]
    """Tell what was injected."""
    return [prefix, client.name, tc.tool_id, tc.workflow, tc.config]


async def test_services_and_the_context_are_injected_and_a_model_sees_neither() -> None:
    assert who.parameters.json["properties"].keys() == {"prefix"}
    body = calling(who, {"prefix": "p"}, config={"deep": True})
    run = await run_workflow(body, providers=[Client("real")])
    assert run.result == ["p", "real", "who", "calling", {"deep": True}]
    run = await run_workflow(body, providers=[Client("real")], overrides={Client: Client("other")})
    assert run.result[1] == "other"
    run = await run_workflow(body)
    assert run.error is not None
    assert "nothing is provided for Client" in str(run.exception)


async def test_a_tool_may_be_named_when_it_is_provided() -> None:
    run = await run_workflow(calling("who", {"prefix": "p"}), providers=[Client("c"), who])
    assert run.result[0] == "p"
    run = await run_workflow(calling("nobody"))
    assert run.error is not None
    assert "no tool named 'nobody'" in run.error.message


@dataclass
class Order:
    id: str
    amount: int = 1


async def test_a_function_whose_one_parameter_is_an_object_takes_the_object() -> None:
    @tool
    def take(args: Order, tc: ToolContext) -> Any:
        assert isinstance(args, Order)
        return [args.id, args.amount, tc.call_id]

    @tool
    def give(order: Order) -> Any:
        return order

    run = await run_tool(take, {"id": "A1"})
    assert run.output == ["A1", 1, "test-call"]
    refused = await run_tool(take, {"amount": 1})
    assert refused.outcome.error is not None
    assert "id" in refused.outcome.error.message
    assert (await run_tool(give, {"order": {"id": "A1"}})).output == {"id": "A1", "amount": 1}


class Total(BaseModel):
    total: int
    currency: str = "EUR"


async def test_a_result_is_parsed_and_its_defaults_are_kept_in_the_journal() -> None:
    @tool(result_schema=Total)
    def total() -> dict[str, int]:
        return {"total": 3}

    seen: list[Any] = []

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        seen.append(await ctx.call_tool(total))
        full = await ctx.call_tool(total, key="again", result="full")
        assert full.receipt is not None
        return [full.data.total, full.receipt.execution]

    run = await run_workflow(body, record=True)
    assert seen == [Total(total=3)]
    assert run.result == [3, "succeeded"]
    assert run.tool_calls[0].envelope == {"data": {"total": 3}}
    assert run.recordings is not None
    assert run.recordings.recordings[0].envelope.data == {"total": 3}


async def test_metadata_and_documents_come_with_an_envelope() -> None:
    @tool
    def noted() -> ToolEnvelope:
        return ToolEnvelope(
            data=1, metadata={"tokens": 5}, type="note", documents=(DeclaredDocument("note", {"text": "n"}),)
        )

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        made = await ctx.call_tool(noted, result="full")
        return [made.data, made.metadata, made.type]

    run = await run_workflow(body)
    assert run.result == [1, {"tokens": 5}, "note"]
    assert run.document("note") == {"text": "n"}


async def test_the_same_call_is_made_once_and_another_config_is_another_call() -> None:
    executions: list[Any] = []

    @tool
    def look(q: str, tc: ToolContext) -> str:
        executions.append(tc.config)
        return q

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        for config in (None, {"deep": 1}):
            await ctx.call_tool(look, {"q": "a"}, config=config)
        return await ctx.await_external("go")

    async with Engine() as engine:
        handle = engine.run(body, run_id="r")
        await handle.result()
        await handle.resolve_external("go", 1)
        resumed = engine.resume("r", body)
        assert (await resumed.result()).value == 1
        assert (await resumed.preview()).misses == 0
    assert executions == [None, {"deep": 1}]


@pytest.mark.parametrize("effects", ["none", "read", "write", "host"])
async def test_a_call_that_was_under_way_when_the_process_died(effects: Any) -> None:
    executions: list[int] = []

    @tool(effects=effects, cost_micros=7)
    def act() -> str:
        executions.append(1)
        return "done"

    body = calling(act)
    whole = InMemoryStore()
    async with Engine(journal=whole) as engine:
        await engine.run(body, run_id="r", budget_usd=1).result()
    died = InMemoryStore()
    died.append_now("r", (await whole.load("r"))[:1])
    await died.save_meta("r", {**(await whole.load_meta("r") or {}), "status": "running"})
    async with Engine(journal=died) as engine:
        handle = engine.resume("r", body)
        outcome = await handle.result()
        if effects in ("none", "read"):
            assert (outcome.status, outcome.value, len(executions)) == ("ok", "done", 2)
            return
        assert outcome.status == "outcome_unknown"
        assert len(executions) == 1
        assert handle._run is not None
        assert handle._run.budget.ledger.root.reserved == 7
        again = engine.resume("r", body)
        assert (await again.result()).status == "outcome_unknown"
        assert again._run is not None
        assert again._run.budget.ledger.root.reserved == 7
        forced = await engine.resume("r", body, invalidate=[0]).result()
        assert (forced.status, forced.value, len(executions)) == ("ok", "done", 2)


async def test_a_failed_call_of_a_plain_workflow_is_made_again_by_a_resume() -> None:
    fails = [True, False]

    @tool
    def flaky() -> str:
        if fails.pop(0):
            raise RuntimeError("PRIVATE")
        return "ok"

    async with Engine() as engine:
        outcome = await engine.run(calling(flaky), run_id="r").result()
        assert outcome.error is not None
        assert outcome.error.message == "tool flaky failed"
        assert (await engine.resume("r", calling(flaky)).result()).value == "ok"
        assert "PRIVATE" not in str([entry.line for entry in await engine.store.load("r")])


async def test_costs_add_up_over_resumes_and_a_ceiling_holds() -> None:
    @tool(cost_micros=400_000)
    def dear(n: int) -> int:
        return n

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        for n in range(2):
            await ctx.call_tool(dear, {"n": n})
        await ctx.await_external("go")
        return await ctx.call_tool(dear, {"n": 3})

    async with Engine() as engine:
        handle = engine.run(body, run_id="r", budget_usd=1.0)
        assert (await handle.result()).cost.total_usd == pytest.approx(0.8)
        await handle.resolve_external("go", 1)
        outcome = await engine.resume("r", body).result()
        assert outcome.status == "exhausted"
        assert outcome.error is not None
        assert outcome.error.code == "budget_exceeded"
        assert "200000" in outcome.error.message
        assert outcome.cost.total_usd == pytest.approx(0.8)


async def test_reserves_are_atomic_among_siblings() -> None:
    @tool(cost_micros=5)
    async def paid(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        ends = await ctx.parallel([lambda n=n: ctx.call_tool(paid, {"n": n}) for n in range(3)], settle=True)
        return [end.status for end in ends]

    async with Engine() as engine:
        outcome = await engine.run(body, budget_usd=0.000010).result()
    assert outcome.value == ["ok", "ok", "error"]
    assert outcome.cost.total_usd == pytest.approx(0.00001)


@pytest.mark.parametrize(
    ("known", "unknown", "status", "spent", "held"),
    [(3, 0, "ok", 3, 0), (2, 3, "outcome_unknown", 2, 3), (0, 0, "ok", 0, 0)],
)
async def test_a_tool_may_tell_what_it_really_cost(
    known: int, unknown: int, status: str, spent: int, held: int
) -> None:
    @tool(cost_micros=10, effects="write")
    def metered(tc: ToolContext) -> str:
        tc.report_usage(known=known, unknown=unknown)
        with pytest.raises(ConfigError, match="once"):
            tc.report_usage(known=1)
        return "done"

    run = await run_tool(metered)
    assert (run.outcome.status, run.spent_micros, run.reserved_micros) == (status, spent, held)


@pytest.mark.parametrize(("known", "said"), [(11, "more than the 10"), (-1, "known"), (True, "known")])
async def test_a_usage_that_cannot_be_is_refused(known: Any, said: str) -> None:
    @tool(cost_micros=10)
    def metered(tc: ToolContext) -> str:
        with pytest.raises(ConfigError, match=said):
            tc.report_usage(known=known)
        return "done"

    assert (await run_tool(metered)).output == "done"


async def test_a_refusal_after_a_reported_usage_of_a_write_is_uncertain() -> None:
    @tool(cost_micros=10, effects="write")
    def refusing(tc: ToolContext) -> str:
        tc.report_usage(known=4)
        raise ToolRefusal("late")

    run = await run_tool(refusing)
    assert (run.outcome.status, run.spent_micros) == ("outcome_unknown", 4)


async def test_the_gate_stands_before_every_call() -> None:
    executions: list[int] = []

    @tool(needs_approval=True)
    def act() -> str:
        executions.append(1)
        return "done"

    async with Engine(permissions={"deny": ["act"]}) as engine:
        outcome = await engine.run(calling(act)).result()
        assert outcome.status == "blocked"
        assert outcome.error is not None
        assert outcome.error.code == "permission_denied"
    async with Engine() as engine:
        handle = engine.run(calling(act), run_id="r")
        asked = await handle.result()
        assert (asked.status, executions) == ("suspended", [])
        await handle.resolve_external(asked.pending[0].key, {"decision": "allow"})
        assert (await engine.resume("r", calling(act)).result()).value == "done"
        handle = engine.run(calling(act), run_id="s")
        asked = await handle.result()
        await handle.resolve_external(asked.pending[0].key, {"decision": "deny", "reason": "not today"})
        denied = await engine.resume("s", calling(act)).result()
        assert denied.error is not None
        assert "not today" in denied.error.message
    assert executions == [1]


async def test_a_workflow_may_catch_what_a_call_raises() -> None:
    @tool
    def broken() -> None:
        raise RuntimeError("PRIVATE")

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        try:
            await ctx.call_tool(broken)
        except ToolFailedError as error:
            return [error.message, type(error.__cause__).__name__]

    assert (await run_workflow(body)).result == ["tool broken failed", "RuntimeError"]
    assert issubclass(PermissionDeniedError, Exception)
    assert GuardBlockedError.code == "guard_blocked"


class Around:
    """An interceptor that writes down what it sees."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def intercept(self, call: ToolCall) -> Handler:
        self.seen.append(f"{self.name} sees {call.tool_id} {call.args}")
        return self

    async def handle(self, proceed: Proceed) -> ToolEnvelope:
        self.seen.append(f"{self.name} in")
        envelope = await proceed()
        self.seen.append(f"{self.name} out")
        return envelope

    def withdraw(self) -> None:
        self.seen.append(f"{self.name} withdrawn")


async def test_interceptors_stand_around_a_tool_the_first_outermost() -> None:
    seen: list[str] = []

    @tool
    def add(a: int) -> int:
        seen.append("tool")
        return a

    async with Engine(interceptors=[Around("outer", seen), Around("inner", seen)]) as engine:
        assert (await engine.run(calling(add, {"a": 1})).result()).value == 1
        assert seen == [
            "outer sees add {'a': 1}",
            "inner sees add {'a': 1}",
            "outer in",
            "inner in",
            "tool",
            "inner out",
            "outer out",
        ]
        seen.clear()
        await engine.run(calling(add, {"a": "x"})).result()
        assert seen[-2:] == ["outer withdrawn", "inner withdrawn"]


async def test_branches_take_their_places_in_the_order_in_which_they_start() -> None:
    @tool
    async def look(n: int) -> int:
        await asyncio.sleep(0.01 * (3 - n))
        return n

    @workflow(name="w")
    async def body(ctx: Ctx, _: Any) -> Any:
        return await ctx.parallel([lambda n=n: ctx.call_tool(look, {"n": n}) for n in range(3)])

    run = await run_workflow(body, record=True)
    assert run.recordings is not None
    assert [item.args for item in run.recordings.recordings] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (await run_workflow(body, replay=run.recordings)).result == [0, 1, 2]


async def test_a_call_in_a_tool_is_refused_as_in_a_step() -> None:
    held: list[Ctx] = []

    @tool
    async def nested() -> Any:
        return await held[0].step("inner", lambda: 1)

    async def body(ctx: Ctx, args: Any) -> Any:
        held.append(ctx)
        return await ctx.call_tool(nested)

    run = await run_workflow(define_workflow("w", body))
    assert "inside ctx.step" in str(run.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"effects": "writes"}, "effects"),
        ({"cost_micros": -1}, "cost_micros"),
        ({"cost_micros": 1.5}, "cost_micros"),
        ({"timeout": 0}, "timeout"),
        ({"capabilities": "x"}, "capabilities"),
        ({"capabilities": [""]}, "capabilities"),
        ({"id": "a b"}, "id"),
        ({"documents": [dict]}, "documents"),
        ({"guards": [print]}, "guards"),
        ({"nope": 1}, "nope"),
    ],
)
def test_a_wrong_option_of_a_tool_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=said):
        tool(**{"name": "odd", **options})(lambda: None)


async def test_an_override_that_nothing_uses_is_a_typing_error() -> None:
    with pytest.raises(ConfigError, match="'whoo'; tools: who"):
        await run_workflow(calling(who, {"prefix": "p"}), overrides={"whoo": lambda args: 1})
    run = await run_workflow(calling(who, {"prefix": "p"}), overrides={"who": lambda args: {"data": args}})
    assert run.result == {"prefix": "p"}
