"""What a tool is given beside its arguments: the context of the call, and services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.errors import ConfigError

__all__ = ["Injected", "ToolContext", "inject"]


@dataclass(frozen=True, slots=True)
class Injected:
    """Stands for a service that the engine provides; made by :func:`inject`."""

    token: Any


def inject(token: Any) -> Any:
    """Mark a parameter (or a class attribute of a state machine) that the engine fills.

    Written as a default: ``def search(q: str, client: Client = inject(Client))``. The value comes from
    the engine's ``providers``; a model never sees the parameter.

    Args:
        token: what the value is provided under, usually its class.
    """
    return Injected(token)


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """The call that a tool runs in; a parameter annotated with this class receives it.

    Attributes:
        run_id, call_id: the run, and the call within it.
        tool_id: the tool's id.
        workflow, transition: who calls.
        config: settings of this call, as JSON; None when there are none.
        scope: what the run belongs to (a tenant, a project).
        signal: set when the call is to stop.
    """

    run_id: str = ""
    call_id: str = ""
    tool_id: str = ""
    workflow: str = ""
    transition: str | None = None
    config: Any = None
    scope: Mapping[str, Any] = field(default_factory=dict)
    signal: asyncio.Event = field(default_factory=asyncio.Event)
    cost_micros: int = 0
    usage: tuple[int, int] | None = None
    provide: Callable[[Any], Any] | None = None

    def report_usage(self, *, known: int, unknown: int = 0) -> None:
        """Tell what the call really cost, in micro-USD; at most once, and within the declared cost.

        Args:
            known: what was certainly spent.
            unknown: what may have been spent; it makes the outcome unknown and stays reserved.

        Raises:
            ConfigError: reported twice, not whole numbers from 0 up, or more than was declared.
        """
        for name, amount in (("known", known), ("unknown", unknown)):
            if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
                raise ConfigError(
                    f"report_usage {name}: expected whole micro-USD from 0 up", data={"field": name}
                )
        if self.usage is not None:
            raise ConfigError("report_usage: a call reports its usage once", data={"field": "known"})
        if known + unknown > self.cost_micros:
            raise ConfigError(
                f"report_usage: {known + unknown} micro-USD is more than the {self.cost_micros} that "
                f"{self.tool_id or 'the tool'} declares; raise cost_micros",
                data={"field": "known"},
            )
        self.usage = (known, unknown)
