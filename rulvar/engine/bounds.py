"""Bounds of a run as its caller writes them: a ceiling in one of two units, and limits of one of two kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rulvar.contracts.messages import camel_case
from rulvar.errors import ConfigError
from rulvar.kernel.admission import check_usd
from rulvar.kernel.ledger import usd
from rulvar.runtime.limits import UsageLimits

if TYPE_CHECKING:
    from rulvar.engine.calls import RunRequest
    from rulvar.engine.engine import Engine
    from rulvar.engine.workflow import Workflow

__all__ = ["Usd", "ceiling_usd", "default_limits", "limits_wire", "resumed_limits", "run_bounds"]


Usd = Decimal | float | str | None
"""An amount in USD as it may be written; a text is read as a decimal number."""


def ceiling_usd(budget_usd: Any, budget_micros: Any, default: float | None = None) -> float | None:
    """Return a ceiling in USD, of an amount in USD or in whole micro-USD.

    Args:
        default: when neither is given.

    Raises:
        ConfigError: both are given, or one is no amount.
    """
    if budget_micros is None:
        return default if budget_usd is None else check_usd(_number(budget_usd), "budget_usd")
    if budget_usd is not None:
        raise ConfigError(
            "budget_usd and budget_micros exclude each other: pass one of them",
            data={"field": "budget_micros"},
        )
    if isinstance(budget_micros, bool) or not isinstance(budget_micros, int) or budget_micros < 0:
        raise ConfigError(
            f"budget_micros={budget_micros!r}: expected whole micro-USD from 0 up",
            data={"field": "budget_micros"},
        )
    try:
        return check_usd(usd(budget_micros), "budget_micros")
    except OverflowError:
        return check_usd(budget_micros, "budget_micros")


def run_bounds(
    engine: Engine,
    workflow: Workflow[Any] | None,
    money: tuple[Any, Any],
    limits: Any,
    *,
    starts: bool = True,
) -> dict[str, Any]:
    """Return the bounds of one segment, as fields of its request.

    Args:
        money: a ceiling in USD, and one in micro-USD.
        starts: whether the run starts; one that is resumed keeps its ceiling.

    Raises:
        ConfigError: an amount or limits that cannot be; names the field.
    """
    return {
        "budget_usd": ceiling_usd(*money, engine.budget_usd if starts else None),
        "given_limits": limits,
        **_applied(engine, workflow, limits),
    }


def resumed_limits(engine: Engine, request: RunRequest, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a segment whose workflow is known by now, as fields of its request.

    Those of the resume hold; else those that the run was given before; else the engine's.

    Raises:
        ConfigError: limits that cannot be; names the field.
    """
    given = request.given_limits
    if given is None and (recorded := meta.get("limits")) is not None:
        given = _recorded(request.run_id, request.workflow, recorded)
    return {
        "given_limits": given,
        "limits": None,
        "own_limits": None,
        **_applied(engine, request.workflow, given),
    }


def limits_wire(request: RunRequest) -> dict[str, Any] | None:
    """Return the limits that a run was given, as its meta row keeps them; None when it was given none.

    The row says what differs from the defaults; the engine's own limits are left to the engine that resumes.
    """
    if request.given_limits is None:
        return None
    limits: Any = request.limits if request.own_limits is None else request.own_limits
    plain = type(limits)()
    return {
        camel_case(item.name): getattr(limits, item.name)
        for item in fields(limits)
        if getattr(limits, item.name) != getattr(plain, item.name)
    }


def default_limits(limits: Any) -> Any:
    """Return an engine's limits: UsageLimits for model calls, or Limits for agents.

    Raises:
        ConfigError: neither.
    """
    if limits is None or isinstance(limits, UsageLimits) or hasattr(limits, "max_cost_micros"):
        return limits
    raise ConfigError(
        f"limits: expected Limits (of agents) or UsageLimits (of model calls), got {type(limits).__name__}",
        data={"field": "limits"},
    )


def _number(amount: Any) -> Any:
    """Return an exact or a written amount as a number; what is none stays as it is, for the message."""
    if not isinstance(amount, (str, Decimal)):
        return amount
    try:
        return float(Decimal(amount))
    except (ArithmeticError, ValueError):
        return amount


def _applied(engine: Engine, workflow: Workflow[Any] | None, limits: Any) -> dict[str, Any]:
    """Return the limits that bound a run; which kind they are of is for the workflow to say, once it is known."""
    if limits is None:
        return _defaults(engine.limits, workflow)
    if workflow is None:
        return {}
    if workflow.read_limits is not None:
        return {"own_limits": workflow.read_limits(limits)}
    return {"limits": UsageLimits.of(limits)}


def _recorded(run_id: str, workflow: Workflow[Any], recorded: Any) -> Any:
    """Return the limits that a meta row keeps; those of the other kind are refused by the name of their field."""
    if not isinstance(recorded, Mapping):
        raise ConfigError(
            f"meta row of run {run_id!r}: limits: expected an object, got {recorded!r}; resume it with limits of its own",
            data={"field": "limits"},
        )
    given = {_snake(name): value for name, value in recorded.items()}
    try:
        return (UsageLimits.of if workflow.read_limits is None else workflow.read_limits)(given)
    except ConfigError as error:
        raise ConfigError(
            f"meta row of run {run_id!r}: {error.message}; resume it with limits of its own", data=error.data
        ) from None


def _defaults(limits: Any, workflow: Workflow[Any] | None) -> dict[str, Any]:
    """Return the part of an engine's limits that bounds this workflow: an agent's bound agents only."""
    if isinstance(limits, UsageLimits):
        return {"limits": limits}
    if limits is None or workflow is None or workflow.read_limits is None:
        return {}
    return {"own_limits": workflow.read_limits(limits)}


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
