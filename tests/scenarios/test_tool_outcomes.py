"""More scenarios of one tool alone: grants, guards, money, receipts, time, and what is never told."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from rulvar import Ctx, Engine, InMemoryStore, ToolContext, ToolGuards, ToolRefusal, tool, workflow
from rulvar.agents import with_preflight
from rulvar.errors import ConfigError
from rulvar.testing import TestClock, run_tool, tool_grants

Receipt = tuple[str, str]


def told(run: Any) -> tuple[str, str | None]:
    return run.outcome.status, None if run.outcome.error is None else run.outcome.error.code


def receipt(run: Any) -> Receipt:
    assert run.receipt is not None
    return run.receipt.execution, run.receipt.disclosure


def money(run: Any) -> tuple[int, int]:
    return run.spent_micros, run.reserved_micros


def breaking(effects: Any, error: Exception, **options: Any) -> Any:
    @tool(id="acts", effects=effects, cost_micros=7, **options)
    def acts() -> None:
        raise error

    return acts


@pytest.mark.parametrize(
    ("effects", "status", "code", "execution", "spent"),
    [
        ("none", "error", "tool_failed", "failed", (7, 0)),
        ("read", "error", "tool_failed", "failed", (7, 0)),
        ("write", "outcome_unknown", "outcome_unknown", "unknown", (0, 7)),
        ("host", "outcome_unknown", "outcome_unknown", "unknown", (0, 7)),
    ],
)
async def test_what_raises(effects: str, status: str, code: str, execution: str, spent: Any) -> None:
    run = await run_tool(breaking(effects, RuntimeError("PRIVATE")))
    assert (told(run), receipt(run), money(run)) == ((status, code), (execution, "withheld"), spent)
    assert "PRIVATE" not in str(run.outcome)
    assert isinstance(run.exception, RuntimeError)


@pytest.mark.parametrize("effects", ["none", "read", "write", "host"])
async def test_what_refuses_costs_nothing(effects: str) -> None:
    run = await run_tool(breaking(effects, ToolRefusal("closed")))
    assert (told(run), receipt(run)) == (("error", "tool_failed"), ("not_started", "withheld"))
    assert money(run) == (0, 0)
    assert run.outcome.error is not None
    assert "closed" in run.outcome.error.message


async def test_a_refusal_needs_no_reason_and_a_long_one_is_cut() -> None:
    silent = await run_tool(breaking("write", ToolRefusal()))
    assert (told(silent), receipt(silent)[0]) == (("error", "tool_failed"), "not_started")
    assert silent.outcome.error is not None
    assert silent.outcome.error.message
    long = await run_tool(breaking("write", ToolRefusal("x" * 600)))
    assert long.outcome.error is not None
    assert long.outcome.error.message.count("x") == 512


@pytest.mark.parametrize(
    ("effects", "known", "unknown", "then", "status", "spent", "execution"),
    [
        ("none", 3, 0, None, "ok", (3, 0), "succeeded"),
        ("write", 0, 0, None, "ok", (0, 0), "succeeded"),
        ("write", 7, 0, None, "ok", (7, 0), "succeeded"),
        ("write", 2, 3, None, "outcome_unknown", (2, 3), "unknown"),
        ("read", 2, 3, None, "outcome_unknown", (2, 3), "unknown"),
        ("write", 2, 0, ToolRefusal("no"), "outcome_unknown", (2, 0), "unknown"),
        ("host", 0, 4, ToolRefusal("no"), "outcome_unknown", (0, 4), "unknown"),
        ("read", 3, 0, RuntimeError("no"), "error", (3, 0), "failed"),
        ("write", 3, 0, RuntimeError("no"), "outcome_unknown", (3, 4), "unknown"),
    ],
)
async def test_reported_usage(
    effects: Any, known: int, unknown: int, then: Any, status: str, spent: Any, execution: str
) -> None:
    @tool(effects=effects, cost_micros=7)
    def metered(tc: ToolContext) -> str:
        tc.report_usage(known=known, unknown=unknown)
        if then is not None:
            raise then
        return "done"

    run = await run_tool(metered)
    assert (run.outcome.status, money(run), receipt(run)[0]) == (status, spent, execution)
    assert run.output == ("done" if status == "ok" else None)


@pytest.mark.parametrize("reports", [[(8, 0)], [(4, 4)], [(1, 0), (1, 0)], [(-1, 0)], [(1.5, 0)]])
async def test_usage_is_reported_once_and_within_the_cost(reports: Any) -> None:
    refused: list[str] = []

    @tool(cost_micros=7)
    def metered(tc: ToolContext) -> str:
        for known, unknown in reports:
            try:
                tc.report_usage(known=known, unknown=unknown)
            except ConfigError as error:
                refused.append(str(error))
        return "done"

    run = await run_tool(metered)
    assert (run.outcome.status, len(refused)) == ("ok", 1)
    assert money(run) == ((1, 0) if len(reports) == 2 else (7, 0))


@pytest.mark.parametrize(
    ("effects", "capabilities", "needed"),
    [
        ("none", [], ["tool:acts"]),
        ("read", [], ["tool:acts", "effect:read"]),
        ("write", ["a:b", "c"], ["tool:acts", "a:b", "c", "effect:write"]),
        ("host", ["z", "a"], ["tool:acts", "z", "a", "effect:host"]),
    ],
)
async def test_every_grant_is_needed(effects: Any, capabilities: Any, needed: list[str]) -> None:
    executions: list[int] = []

    @tool(id="acts", effects=effects, capabilities=capabilities, cost_micros=1)
    def acts(n: int) -> None:
        executions.append(n)

    assert tool_grants(acts) == needed
    assert told(await run_tool(acts, {"n": 1}, grants=needed)) == ("ok", None)
    assert told(await run_tool(acts, {"n": 1}, grants=[*needed, "more"])) == ("ok", None)
    for grant in needed:
        run = await run_tool(acts, {"n": 1}, grants=[item for item in needed if item != grant])
        assert (told(run), receipt(run), money(run)) == (
            ("blocked", "permission_denied"),
            ("not_started", "withheld"),
            (0, 0),
        )
        upper = await run_tool(acts, {"n": 1}, grants=[*(g for g in needed if g != grant), grant.upper()])
        assert told(upper) == ("blocked", "permission_denied")
    assert executions == [1, 1]


async def test_a_denied_call_is_not_looked_at() -> None:
    seen: list[Any] = []

    @tool(guards=ToolGuards(input=[seen.append]))  # type: ignore[list-item]
    def acts(n: int) -> None: ...

    for grants in ([], ["tool:*"], ["*"]):
        assert told(await run_tool(acts, {"n": "no number"}, grants=grants)) == (
            "blocked",
            "permission_denied",
        )
    assert seen == []


@pytest.mark.parametrize(
    "input", [{}, {"n": "1"}, {"n": 1.5}, {"n": None}, {"n": 1, "m": 2}, [1], "n", 3, {"n": True}]
)
async def test_input_that_does_not_fit(input: Any) -> None:
    executions: list[int] = []

    @tool(effects="write", cost_micros=3)
    def acts(n: int) -> None:
        executions.append(n)

    run = await run_tool(acts, input)
    assert (told(run), receipt(run), money(run)) == (
        ("error", "invalid_input"),
        ("not_started", "withheld"),
        (0, 0),
    )
    assert executions == []


class Made(BaseModel):
    kind: Literal["a"]
    n: int = 5

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        if n == 13:
            raise ValueError("PRIVATE rule")
        return n


async def test_defaults_of_a_result_are_applied() -> None:
    @tool(result_schema=Made)
    def makes() -> Any:
        return {"kind": "a"}

    run = await run_tool(makes)
    assert (run.output, receipt(run)) == ({"kind": "a", "n": 5}, ("succeeded", "released"))


@pytest.mark.parametrize(
    "result", [{"kind": "PRIVATE"}, {"kind": "a", "n": "PRIVATE"}, "PRIVATE", {"kind": "a", "n": 13}]
)
async def test_a_result_that_does_not_fit_is_withheld_and_paid(result: Any) -> None:
    @tool(effects="write", cost_micros=10, result_schema=Made)
    def makes() -> Any:
        return result

    run = await run_tool(makes)
    assert (told(run), receipt(run), money(run)) == (
        ("error", "invalid_output"),
        ("succeeded", "withheld"),
        (10, 0),
    )
    assert run.outcome.error is not None
    assert "makes" in run.outcome.error.message
    assert "PRIVATE" not in str(run.outcome)
    assert run.output is None


async def test_what_was_given_is_not_shown_either() -> None:
    @tool
    def acts(n: int, kind: Literal["a"] = "a") -> None: ...

    for given in ({"n": "PRIVATE"}, {"n": 1, "kind": "PRIVATE"}):
        run = await run_tool(acts, given)
        assert run.outcome.error is not None
        assert (told(run), "PRIVATE" in str(run.outcome)) == (("error", "invalid_input"), False)
        assert ("n" if given["n"] == "PRIVATE" else "kind") in run.outcome.error.message


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (False, "guard_blocked"),
        ("PRIVATE reason", "guard_blocked"),
        (RuntimeError("PRIVATE"), "guard_unavailable"),
    ],
)
async def test_a_guard_that_says_no(side: str, verdict: Any, code: str) -> None:
    asked: list[str] = []
    executions: list[int] = []

    def lets(value: Any) -> bool:
        asked.append("lets")
        return True

    async def stops(value: Any) -> Any:
        asked.append("stops")
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    @tool(effects="write", cost_micros=4, guards=ToolGuards(**{side: [lets, stops, lets]}))
    def acts() -> str:
        executions.append(1)
        return "PRIVATE result"

    run = await run_tool(acts)
    assert told(run) == ("blocked", code)
    assert sorted(asked) == ["lets", "lets", "stops"]  # side by side: every one is asked
    if side == "input":
        assert (executions, receipt(run), money(run)) == ([], ("not_started", "withheld"), (0, 0))
    else:
        assert (executions, receipt(run), money(run)) == ([1], ("succeeded", "withheld"), (4, 0))
    assert "PRIVATE" not in str(run.outcome)
    assert run.output is None


async def test_guards_of_both_sides_see_what_they_guard() -> None:
    seen: list[Any] = []

    def sees(value: Any, tc: ToolContext) -> None:
        seen.append((value, tc.tool_id, tc.call_id, tc.run_id))

    @tool(guards=ToolGuards(input=[sees], output=[sees]))
    def acts(n: int) -> int:
        return n + 1

    run = await run_tool(acts, {"n": 1}, run_id="r", call_id="c")
    assert (run.output, seen) == (2, [({"n": 1}, "acts", "c", "r"), (2, "acts", "c", "r")])


@pytest.mark.parametrize(
    ("budget", "status", "spent"), [(10, "ok", (10, 0)), (9, "exhausted", (0, 0)), (0, "exhausted", (0, 0))]
)
async def test_a_ceiling(budget: int, status: str, spent: Any) -> None:
    @tool(cost_micros=10)
    def acts() -> str:
        return "x"

    run = await run_tool(acts, budget_micros=budget)
    assert (run.outcome.status, money(run)) == (status, spent)
    if status == "exhausted":
        assert (told(run)[1], receipt(run)) == ("budget_exceeded", ("not_started", "withheld"))


async def test_a_free_tool_needs_no_money() -> None:
    @tool(effects="write")
    def acts() -> str:
        return "x"

    run = await run_tool(acts, budget_micros=0)
    assert (run.output, money(run), receipt(run)) == ("x", (0, 0), ("succeeded", "released"))


async def hang(effects: Any, *, how: str, where: str = "body", **options: Any) -> Any:
    """Run a tool that never ends, and end it by its time or by a signal."""
    begun = asyncio.Event()

    async def forever(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    guards = {} if where == "body" else {where: [forever]}

    @tool(effects=effects, cost_micros=6, timeout=1.0, guards=ToolGuards(**guards), **options)
    async def hangs() -> str:
        if where == "body":
            await forever()
        return "x"

    clock, signal = TestClock(), asyncio.Event()
    running = asyncio.ensure_future(run_tool(hangs, clock=clock, signal=signal))
    await asyncio.wait_for(begun.wait(), 2)
    if how == "timeout":
        await clock.advance(1.0)
    else:
        signal.set()
    return await asyncio.wait_for(running, 2)


@pytest.mark.parametrize("effects", ["none", "read", "write", "host"])
@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_a_body_that_never_ends(effects: str, how: str) -> None:
    run = await hang(effects, how=how)
    if effects in ("write", "host"):
        assert (told(run), money(run)) == (("outcome_unknown", "outcome_unknown"), (0, 6))
    else:
        status = "error" if how == "timeout" else "cancelled"
        assert told(run) == (status, how)
        assert sum(money(run)) == 6  # what was begun is not free
    assert receipt(run) == ("unknown", "withheld")


@pytest.mark.parametrize("effects", ["read", "write"])
@pytest.mark.parametrize(("how", "status"), [("timeout", "error"), ("cancelled", "cancelled")])
async def test_an_input_guard_that_never_ends(effects: str, how: str, status: str) -> None:
    run = await hang(effects, how=how, where="input")
    assert (told(run), receipt(run), money(run)) == ((status, how), ("not_started", "withheld"), (0, 0))


async def test_a_signal_that_is_set_is_looked_at_first() -> None:
    signal = asyncio.Event()
    signal.set()

    @tool(cost_micros=5)
    def acts(n: int) -> None: ...

    run = await run_tool(acts, {"n": "no number"}, grants=[], signal=signal)
    assert (told(run), receipt(run), money(run)) == (
        ("cancelled", "cancelled"),
        ("not_started", "withheld"),
        (0, 0),
    )


async def test_a_preflight_refuses_before_any_effect() -> None:
    ran: list[str] = []

    @tool(effects="write", cost_micros=5, timeout=2.0)
    def close(ticket: str) -> bool:
        ran.append(ticket)
        return True

    def check(ticket: str) -> None:
        if ticket == "T-0":
            raise ToolRefusal("not this one")
        if ticket == "T-X":
            raise RuntimeError("PRIVATE")

    checked = with_preflight(close, check, extra_timeout=60.0, description="Close after a check.")
    assert (checked.id, checked.effects, checked.timeout, checked.description) == (
        "close",
        "write",
        62.0,
        "Close after a check.",
    )
    refused = await run_tool(checked, {"ticket": "T-0"})
    assert (told(refused), receipt(refused)[0], money(refused)) == (
        ("error", "tool_failed"),
        "not_started",
        (0, 0),
    )
    assert refused.outcome.error is not None
    assert "not this one" in refused.outcome.error.message
    broken = await run_tool(checked, {"ticket": "T-X"})
    assert (receipt(broken)[0], money(broken), "PRIVATE" in str(broken.outcome)) == (
        "not_started",
        (0, 0),
        False,
    )
    assert (await run_tool(checked, {"ticket": "T-1"})).output is True
    assert ran == ["T-1"]


async def test_the_context_of_a_call() -> None:
    @tool(id="who.am.i")
    def who(tc: ToolContext) -> Any:
        return [tc.run_id, tc.call_id, tc.tool_id, dict(tc.scope), tc.config]

    assert (await run_tool(who)).output == [
        "test-run",
        "test-call",
        "who.am.i",
        {"principal": "test", "project": "test"},
        None,
    ]
    other = await run_tool(
        who, run_id="r", call_id="c", scope={"principal": "p", "project": "x"}, config={"a": 1}
    )
    assert other.output == ["r", "c", "who.am.i", {"principal": "p", "project": "x"}, {"a": 1}]


@pytest.mark.parametrize(
    "options",
    [
        {"id": "white space"},
        {"timeout": 0},
        {"timeout": -1},
        {"cost_micros": -1},
        {"cost_micros": 1.5},
        {"effects": "reads"},
        {"capabilities": "one"},
        {"capabilities": [""]},
        {"capabilities": ["x" * 257]},
    ],
)
def test_a_tool_that_cannot_be_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError):

        @tool(**options)
        def acts() -> None: ...


async def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(ConfigError, match="run_tool"):
        await run_tool(lambda: None)  # type: ignore[arg-type]


async def test_three_siblings_and_money_for_two() -> None:
    executions: list[int] = []

    @tool(cost_micros=5)
    async def pay(n: int) -> int:
        executions.append(n)
        await asyncio.sleep(0)
        return n

    @workflow
    async def three(ctx: Ctx, args: Any) -> Any:
        calls = [lambda n=n: ctx.call_tool(pay, {"n": n}) for n in range(3)]
        return [item.status for item in await ctx.parallel(calls, settle=True)]

    async with Engine(journal=InMemoryStore()) as engine:
        outcome = await engine.run(three, budget_usd="0.00001").result()
    assert (len(executions), outcome.cost.total_usd) == (2, pytest.approx(0.00001))
    assert sorted(outcome.value) == ["error", "ok", "ok"]
