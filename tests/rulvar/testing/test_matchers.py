"""The assertions await the run and say what they saw."""

from typing import Any

import pytest

from rulvar import Ctx, workflow
from rulvar.errors import ConfigError
from rulvar.testing import assert_called_agent, assert_under_budget, create_test_engine


@workflow(name="two")
async def two(ctx: Ctx, args: Any) -> None:
    await ctx.agent("first", agent_type="reviewer")
    await ctx.agent("second", agent_type="reviewer")
    await ctx.agent("third")


async def test_calls_of_an_agent_are_counted() -> None:
    run = create_test_engine(agents={"reviewer": "ok", "*": "x"}).run(two)
    await assert_called_agent(run, "reviewer")
    await assert_called_agent(run, "reviewer", times=2)
    await assert_called_agent(run, "")
    await assert_called_agent(run, "writer", times=0)


async def test_a_failure_lists_the_calls_that_were_made() -> None:
    run = create_test_engine(agents={"reviewer": "ok", "*": "x"}).run(two)
    with pytest.raises(AssertionError, match=r'1 completed call of agent "reviewer", got 2') as failure:
        await assert_called_agent(run, "reviewer", times=1)
    assert '"reviewer" 2x' in str(failure.value)
    assert "the run ended ok" in str(failure.value)
    with pytest.raises(AssertionError, match=r'at least one completed call of agent "writer", got 0'):
        await assert_called_agent(run, "writer")


async def test_a_budget_is_a_strict_bound() -> None:
    run = create_test_engine(agents={"reviewer": "ok", "*": "x"}).run(two)
    await assert_under_budget(run, usd=5)
    with pytest.raises(AssertionError, match=r"cost 0\.000000 USD"):
        await assert_under_budget(run, usd=0)


@pytest.mark.parametrize("times", [-1, True, 1.5, "2"])
async def test_a_number_of_calls_that_is_none_is_refused(times: Any) -> None:
    run = create_test_engine(agents={"*": "x"}).run(two)
    with pytest.raises(ConfigError, match="assert_called_agent times="):
        await assert_called_agent(run, "reviewer", times=times)


@pytest.mark.parametrize("usd", ["five", None, float("nan"), -1, True])
async def test_a_bound_that_is_none_is_refused(usd: Any) -> None:
    run = create_test_engine(agents={"*": "x"}).run(two)
    with pytest.raises(ConfigError, match="assert_under_budget usd="):
        await assert_under_budget(run, usd=usd)


async def test_what_is_no_run_is_refused() -> None:
    run = create_test_engine(agents={"*": "x"}).run(two)
    for wrong in (None, await run.result(), 5):
        with pytest.raises(ConfigError, match="expected the handle that"):
            await assert_called_agent(wrong, "reviewer")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="expected the handle that"):
            await assert_under_budget(wrong, usd=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="agent_type=5"):
        await assert_called_agent(run, 5)  # type: ignore[arg-type]
