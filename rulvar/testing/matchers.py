"""Assertions about a run. They await it themselves and look at its public surface only."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.engine.handle import RunHandle

__all__ = ["assert_called_agent", "assert_under_budget"]


async def assert_called_agent(run: RunHandle, agent_type: str | None, times: int | None = None) -> None:
    """Assert that a run completed calls of an agent type.

    Args:
        run: the handle; it is awaited.
        agent_type: as given to ``ctx.agent``; ``""`` and None are calls without one.
        times: how many calls exactly; at least one when left out.

    Raises:
        AssertionError: the run made another number of such calls; lists the calls that it made.
        ConfigError: an argument is wrong.
    """
    _check_run(run, "assert_called_agent")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 0):
        raise ConfigError(
            f"assert_called_agent times={times!r}: expected a whole number from 0 up", data={"field": "times"}
        )
    if agent_type is not None and not isinstance(agent_type, str):
        raise ConfigError(
            f"assert_called_agent agent_type={agent_type!r}: expected a text", data={"field": "agent_type"}
        )
    agent_type = agent_type or ""
    outcome = await run.result()
    made = Counter([event["agentType"] async for event in run.events if event["type"] == "agent:end"])
    count = made[agent_type]
    if (count == times) if times is not None else count > 0:
        return
    wanted = "at least one completed call" if times is None else f"{times} completed call{_s(times)}"
    seen = ", ".join(f"{_name(name)} {n}x" for name, n in made.items()) or "none"
    raise AssertionError(
        f"expected {wanted} of agent {_name(agent_type)}, got {count}\n"
        f"completed agent calls: {seen}\nthe run ended {outcome.status}{_reason(outcome)}"
    )


async def assert_under_budget(run: RunHandle, *, usd: float) -> None:
    """Assert that a run cost strictly less than a bound and did not end exhausted.

    Args:
        run: the handle; it is awaited.
        usd: the bound in US dollars.

    Raises:
        AssertionError: the run cost as much or more, or it ended at a budget ceiling.
        ConfigError: an argument is wrong.
    """
    _check_run(run, "assert_under_budget")
    bound = _bound(usd)
    outcome = await run.result()
    spent = outcome.cost.total_usd
    if outcome.status == "exhausted":
        raise AssertionError(f"the run ended exhausted after {spent:.6f} USD{_reason(outcome)}")
    if not spent < bound:
        raise AssertionError(f"the run cost {spent:.6f} USD; expected less than {_shown(bound)} USD")


def _check_run(run: Any, what: str) -> None:
    if not callable(getattr(run, "result", None)) or not hasattr(run, "events"):
        raise ConfigError(
            f"{what}: expected the handle that engine.run(...) returns, got {type(run).__name__}",
            data={"field": "run"},
        )


def _bound(usd: Any) -> float:
    try:
        bound = float("nan") if isinstance(usd, bool) else float(usd)
    except (TypeError, ValueError):
        bound = float("nan")
    if math.isnan(bound) or bound < 0:
        raise ConfigError(
            f"assert_under_budget usd={usd!r}: expected US dollars from 0 up", data={"field": "usd"}
        )
    return bound


def _shown(usd: float) -> str:
    """Return an amount with as many digits as tell it from what a run can cost."""
    return f"{usd:.6f}" if math.isinf(usd) or round(usd, 6) == usd else repr(usd)


def _name(agent_type: str) -> str:
    return f'"{agent_type}"' if agent_type else "without a type"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _reason(outcome: object) -> str:
    error = getattr(outcome, "error", None)
    return f": {error.message}" if error is not None else ""
