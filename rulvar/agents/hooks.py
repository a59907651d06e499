"""Hooks of an agent: functions at named points of its run, some of which may stop it.

At a control point a hook may block what comes next; one that breaks there blocks it too. An observer is
told what happened; when it breaks nothing happens, unless it is mandatory.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rulvar.errors import ConfigError, ControlFlow, GuardBlockedError, GuardUnavailableError, RulvarError

__all__ = ["CONTROL_POINTS", "Hook", "HookPoint", "Hooks"]

ControlPoint = Literal[
    "before_run", "before_step", "before_model_call", "before_tool_call", "before_delegate", "before_release"
]
Observer = Literal[
    "after_step",
    "after_model_call",
    "after_tool_call",
    "after_delegate",
    "on_violation",
    "on_error",
    "on_cancel",
    "on_blocked",
    "finally",
]
HookPoint = ControlPoint | Observer
CONTROL_POINTS: frozenset[str] = frozenset(get_args(ControlPoint))
_POINTS = (*get_args(ControlPoint), *get_args(Observer))
Call = Callable[[Mapping[str, Any]], "bool | str | Awaitable[bool | str | None] | None"]


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook.

    Attributes:
        point: where it is called.
        call: a function, sync or async, of the facts. At a control point ``False`` or a text blocks.
        mandatory: whether an observer that breaks blocks the run; at a control point every one does.
    """

    point: HookPoint
    call: Call
    mandatory: bool = False

    def __post_init__(self) -> None:
        if self.point not in _POINTS:
            raise ConfigError(
                f"hook point {self.point!r}: use one of {', '.join(_POINTS)}", data={"field": "hooks"}
            )
        if not callable(self.call):
            raise ConfigError(f"hook at {self.point}: expected a function", data={"field": "hooks"})


class Hooks:
    """The hooks of one agent, by point.

    Args:
        hooks: in the order in which they are called at a point.
        agent_id: named in messages.
    """

    __slots__ = ("_agent_id", "_by_point")

    def __init__(self, hooks: Iterable[Hook], agent_id: str) -> None:
        self._agent_id = agent_id
        self._by_point: dict[str, list[Hook]] = {}
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise ConfigError(
                    f"agent {agent_id!r} hooks: expected Hook, got {type(hook).__name__}",
                    data={"field": "hooks"},
                )
            self._by_point.setdefault(hook.point, []).append(hook)

    def count(self, point: HookPoint) -> int:
        """Return how many hooks a point has."""
        return len(self._by_point.get(point, ()))

    async def call(self, point: HookPoint, facts: Mapping[str, Any]) -> None:
        """Call the hooks of a point.

        Raises:
            GuardBlockedError: one of a control point blocks.
            GuardUnavailableError: one broke that must not.
        """
        control = point in CONTROL_POINTS
        for hook in self._by_point.get(point, ()):
            data = {"agent": self._agent_id, "point": point}
            try:
                answer: Any = hook.call(dict(facts))
                if inspect.isawaitable(answer):
                    answer = await answer
            except ControlFlow:
                raise
            except Exception as error:
                if control or hook.mandatory:
                    raise GuardUnavailableError(
                        f"a hook of agent {self._agent_id} failed at {point}", data=data
                    ) from error
                continue
            if not control or answer is True or answer is None:
                continue
            if answer is False or isinstance(answer, str):
                reason = RulvarError(answer) if answer else None  # for whoever debugs, as of a guard
                raise GuardBlockedError(
                    f"a hook blocked agent {self._agent_id} at {point}", data=data
                ) from reason
            raise GuardUnavailableError(
                f"a hook of agent {self._agent_id} gave no verdict at {point}", data=data
            )
