"""Many children at once, or one after another: machines made for a child workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.machines.answer import Input
from rulvar.machines.context import MachineCtx
from rulvar.machines.definition import transition
from rulvar.machines.machine import StateMachine

__all__ = ["FanOut", "Items", "Sequence"]

_NEVER: Mapping[str, Any] = {}
_SKIPPED: Mapping[str, Any] = {"status": "skipped", "data": None, "error": "an earlier item failed"}
_CANCELLED: Mapping[str, Any] = {"status": "cancelled", "data": None, "error": "another item failed"}


@dataclass(frozen=True, slots=True)
class Items:
    """What a fan-out or a sequence is started with.

    Attributes:
        items: one set of arguments per child, as a list or by name.
        mode: ``all`` waits for nobody any more once a child has failed, ``all_settled`` for every one.
    """

    items: list[Any] | dict[str, Any]
    mode: Literal["all", "all_settled"] = "all"


class FanOut:
    """Starts a child for every item at once: ``ctx.start(FanOut.of(Child), {"items": [...]})``.

    The result is ``{"results": ..., "has_errors": bool, "error_count": int}``; results have the shape of the
    items, and each is ``{"status": "completed" | "failed" | "cancelled", "data", "error"}``. Everything that did
    not complete counts as an error, and a child that fails never fails the machine. In the mode ``all`` a child
    that still waits for somebody when another one has failed is cancelled; what is at work comes to its end.
    """

    __family__ = "fan_out"

    @staticmethod
    def of(child: Any) -> type[StateMachine]:
        """Return the machine that starts children of a workflow."""
        workflow = _workflow(child)

        class FanOutMachine(StateMachine, args=Items, name=f"fan_out.{workflow.name}"):
            """Starts every child, and ends when all have."""

            __at_rest__ = "cut_off"

            @transition(to="collecting")
            def launch(self, ctx: MachineCtx) -> None:
                """Start a child per item."""
                items = _pairs(ctx.args.items)
                ctx.state.update(left=len(items), stopped=False)
                for key, args in items:
                    ctx.start(workflow, args, on_done="child_done", meta=key, label=key)

            def is_done(self, state: Any) -> bool:
                """Whether nothing is waited for any more."""
                return bool(state["left"] == 0)

            def is_stopped(self, state: Any) -> bool:
                """Whether only those are waited for that are at work."""
                return bool(state["stopped"])

            @transition(from_="collecting", to="collecting", wait=True)
            @transition(from_="stopping", to="stopping", wait=True)
            def child_done(self, ctx: MachineCtx, input: Input) -> None:
                """Take note of one child's end."""
                _take(ctx, input)

            @transition(from_=("collecting", "stopping"), to="end", guard="is_done", priority=1)
            def collect(self, ctx: MachineCtx) -> None:
                """Put the results together."""
                _collect(ctx, _NEVER)

            @transition(from_="collecting", to="stopping", guard="is_stopped")
            def stop(self, ctx: MachineCtx) -> None:
                """Wait for nobody any more."""

            @transition(from_="stopping", to="end", wait=True)
            def cut_off(self, ctx: MachineCtx) -> None:
                """Put the results together; the children that are left are cancelled."""
                _collect(ctx, _CANCELLED)

        return FanOutMachine


class Sequence:
    """Starts a child for every item, one after another; the result is that of FanOut.

    In the mode ``all`` nothing is started after a failure; what was not is ``"skipped"``.
    """

    __family__ = "sequence"

    @staticmethod
    def of(child: Any) -> type[StateMachine]:
        """Return the machine that runs children of a workflow one after another."""
        workflow = _workflow(child)

        class SequenceMachine(StateMachine, args=Items, name=f"sequence.{workflow.name}"):
            """Starts the next child when the one before has ended."""

            @transition(to="between")
            def begin(self, ctx: MachineCtx) -> None:
                """Look at the items."""
                ctx.state.update(left=len(_pairs(ctx.args.items)), stopped=False)

            def is_done(self, state: Any) -> bool:
                """Whether no child is to be started any more."""
                return bool(state["stopped"] or state["left"] == 0)

            @transition(from_="between", to="end", guard="is_done", priority=1)
            def collect(self, ctx: MachineCtx) -> None:
                """Put the results together."""
                _collect(ctx, _SKIPPED)

            @transition(from_="between", to="running")
            def launch(self, ctx: MachineCtx) -> None:
                """Start the next child."""
                items = _pairs(ctx.args.items)
                key, args = items[len(items) - ctx.state["left"]]
                ctx.start(workflow, args, on_done="child_done", meta=key, label=key)

            @transition(from_="running", to="between", wait=True)
            def child_done(self, ctx: MachineCtx, input: Input) -> None:
                """Take note of the child's end."""
                _take(ctx, input)

        return SequenceMachine


def _workflow(child: Any) -> Workflow[Any]:
    workflow = getattr(child, "__workflow__", child)
    if not isinstance(workflow, Workflow):
        raise ConfigError(
            f"expected a state machine or a workflow, got {type(child).__name__}", data={"field": "child"}
        )
    return workflow


def _pairs(items: list[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(items, Mapping):
        return list(items.items())
    return [(str(number), args) for number, args in enumerate(items)]


def _take(ctx: MachineCtx, input: Input) -> None:
    result = {"status": input.status, "data": input.data, "error": input.message}
    ctx.state[f"result:{input.meta}"] = result  # a key of its own, so that a commit holds one result
    ctx.state["left"] -= 1
    if input.has_error and ctx.args.mode == "all":
        ctx.state["stopped"] = True


def _collect(ctx: MachineCtx, missing: Mapping[str, Any]) -> None:
    items = _pairs(ctx.args.items)
    results = {key: ctx.state.get(f"result:{key}", missing) for key, _ in items}
    errors = sum(result["status"] != "completed" for result in results.values())
    whole = results if isinstance(ctx.args.items, Mapping) else list(results.values())
    ctx.result.update(results=whole, has_errors=errors > 0, error_count=errors)
