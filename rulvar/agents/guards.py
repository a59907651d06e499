"""Guards of an agent: they let its input and its answer through, change them, or block them.

A guard fails closed: one that raises, or that answers with something that is no verdict, blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.schema import SchemaContract
from rulvar.errors import (
    ConfigError,
    ControlFlow,
    GuardBlockedError,
    GuardUnavailableError,
    InvalidInputError,
    InvalidOutputError,
    RulvarError,
)

__all__ = ["AgentGuards", "Rewrite", "check_fit", "pass_guards"]

Side = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A guard's verdict: go on with this value instead; it is checked like the one it replaces."""

    value: Any


Verdict = bool | str | Rewrite | None
Guard = Callable[[Any], "Verdict | Awaitable[Verdict]"]


@dataclass(frozen=True, slots=True)
class AgentGuards:
    """Guards of an agent, asked in order.

    A guard is a function, sync or async, of the value: ``True`` or None lets it through, ``False`` or a
    text blocks it, and ``Rewrite(value)`` goes on with another value. The text is for whoever debugs: it is
    the ``exception`` of a handle, and neither told nor journaled.
    """

    input: Sequence[Guard] = ()
    output: Sequence[Guard] = ()

    def __post_init__(self) -> None:
        for side in ("input", "output"):
            guards = getattr(self, side)
            if isinstance(guards, str) or not all(callable(guard) for guard in guards):
                raise ConfigError(f"guards.{side}: expected functions", data={"field": f"guards.{side}"})
            object.__setattr__(self, side, tuple(guards))


async def pass_guards(
    guards: Sequence[Guard], value: Any, side: Side, agent_id: str, contract: SchemaContract | None
) -> Any:
    """Return the value that the guards let through.

    Raises:
        GuardBlockedError: a guard blocked it.
        GuardUnavailableError: a guard broke.
        InvalidInputError, InvalidOutputError: a guard's rewrite does not fit.
    """
    data = {"agent": agent_id, "side": side}
    for guard in guards:
        try:
            verdict: Any = guard(value)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except ControlFlow:
            raise
        except Exception as error:
            raise GuardUnavailableError(f"an {side} guard of agent {agent_id} failed", data=data) from error
        if verdict is True or verdict is None:
            continue
        if isinstance(verdict, Rewrite):
            value = journal_value(verdict.value, f"agent {agent_id} {side} guard")
            check_fit(contract, value, side, agent_id)
            continue
        if verdict is False or isinstance(verdict, str):
            # why is for whoever debugs: a reason may quote what the guard keeps from being shown
            reason = RulvarError(verdict) if verdict else None
            raise GuardBlockedError(f"an {side} guard blocked agent {agent_id}", data=data) from reason
        raise GuardUnavailableError(f"an {side} guard of agent {agent_id} gave no verdict", data=data)
    return value


def check_fit(contract: SchemaContract | None, value: Any, side: Side, agent_id: str) -> None:
    """Check a value against the agent's shape of it.

    Raises:
        InvalidInputError, InvalidOutputError: it does not fit; names the field.
    """
    issues = [] if contract is None else contract.issues(value, hides_values=True)
    if issues:
        path = "".join(f"[{part!r}]" for part in issues[0].path)
        kind: type[RulvarError] = InvalidInputError if side == "input" else InvalidOutputError
        raise kind(
            f"the {side} of agent {agent_id} does not fit: {side}{path}: {issues[0].message}",
            data={"agent": agent_id, "issues": [issue.to_wire() for issue in issues]},
        )
