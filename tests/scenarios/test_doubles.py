"""Scenarios S37 and S38: mocks and fakes."""

from __future__ import annotations

from typing import Any

import pytest

from rulvar import MachineCtx, StateMachine, transition
from rulvar.errors import ConfigError
from rulvar.testing import contract_fake, run_workflow, tool_mock

TERMS = {"a": 1, "b": 2}


async def test_s37_tool_mock(ref: Any) -> None:
    run = await run_workflow(ref.Sum, TERMS, overrides={ref.math_sum: tool_mock(ref.math_sum)})
    assert run.status == "failed"
    assert run.error is not None
    assert "math_sum" in run.error.message

    mock = tool_mock(ref.math_sum).returns({"data": {"total": "x"}})
    run = await run_workflow(ref.Sum, TERMS, overrides={ref.math_sum: mock})
    assert run.result == {"total": "x"}
    mock.assert_awaited_once()
    mock.assert_awaited_with(TERMS)
    assert not ref.executions


async def test_s38_contract_fake(ref: Any) -> None:
    fake = contract_fake(ref.math_sum)
    with pytest.raises(ConfigError, match="math_sum"):
        fake.returns({"data": {"total": "x"}})
    with pytest.raises(ConfigError):
        fake.returns({"error": "e"})
    fake.returns_once({"data": {"total": 1}}).returns({"data": {"total": 2}})

    class Thrice(StateMachine):
        @transition
        async def go(self, ctx: MachineCtx) -> None:
            ctx.result["totals"] = [
                (await ctx.call_tool(ref.math_sum, {"a": n, "b": 0})).total for n in range(3)
            ]

    run = await run_workflow(Thrice, overrides={ref.math_sum: fake})
    assert run.result == {"totals": [1, 2, 2]}
    run = await run_workflow(Thrice, overrides={ref.math_sum: contract_fake(ref.math_sum)})
    assert run.status == "failed"
    assert run.error is not None
    assert "math_sum" in run.error.message
    assert "returns" in run.error.message
