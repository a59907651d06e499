"""How an agent value conducts its call: its rules around every turn and every tool.

The order around a turn is: limits, hooks, the promise of money, the model, its bound. A batch of tool
calls is looked at as a whole before any of it runs, and the first tool that fails ends the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rulvar.agents.counters import AgentNode, count, limit_error
from rulvar.agents.hooks import HookPoint
from rulvar.agents.recorded import recorded_children, recorded_notes
from rulvar.agents.stream import FieldStream
from rulvar.contracts.messages import ChatRequest, ToolCallPart
from rulvar.contracts.usage import Usage
from rulvar.engine.branch import CURRENT_PLACE
from rulvar.engine.primitives.conduct import ConductedCall
from rulvar.engine.purse import RunPurse
from rulvar.engine.run import Run
from rulvar.errors import (
    BudgetExceededError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RulvarError,
    ToolFailedError,
)
from rulvar.kernel.ledger import Reservation, micro_usd
from rulvar.kernel.matching import Operation
from rulvar.kernel.scope import agent_scope
from rulvar.runtime.checkpoint import LoopState
from rulvar.runtime.history import dump_wire, rough_tokens
from rulvar.runtime.pricing import price_usd
from rulvar.runtime.turn import Turn
from rulvar.tools.grants import missing_grant
from rulvar.tools.invoke import ToolOutcome
from rulvar.tools.tool import Tool

if TYPE_CHECKING:
    from rulvar.agents.agent import Agent

__all__ = ["AgentConduct"]


class AgentConduct:
    """Conducts one call of an agent.

    Args:
        agent: the definition.
        node: this run of it.
    """

    schema_attempts = 0

    def __init__(self, agent: Agent[Any], node: AgentNode) -> None:
        self._agent = agent
        self._node = node
        self._purse: RunPurse | None = None
        self._bound: int | None = None
        self._promised = 0
        self._stream: FieldStream | None = None
        self._in_step = False
        self._call: ConductedCall | None = None

    @property
    def last_tool_error(self) -> RulvarError | None:
        """What the last tool call failed with, also when it was interrupted."""
        ended = None if self._call is None else self._call.ended
        return None if ended is None else ended.error

    def resumed(self, call: ConductedCall, state: LoopState) -> None:
        """Count on where a checkpoint left the agent."""
        self._call = call
        self._in_step = self._node.restore(state.notes)

        self._node.children = recorded_children(call.run.index, self._scope_below(call))

    def served(self, run: Run, operation: Operation) -> None:
        """Count what an agent did that is served from the journal."""
        notes = recorded_notes(operation)
        self._node.restore(notes)
        scope = agent_scope(operation.first.scope, notes.get("root", operation.first.seq))
        self._node.children = recorded_children(run.index, scope, taken=True)

    def notes(self) -> dict[str, Any]:
        """Return the agent's counters for a checkpoint."""
        return self._node.notes(in_step=self._in_step)

    def end_notes(self) -> dict[str, Any]:
        """Return what the agent's entry keeps of its steps and counters."""
        root = {} if self._call is None else {"root": self._call.opened.root}
        return {"steps": self._node.steps, "counters": asdict(self._node.counters), **root}

    @staticmethod
    def _scope_below(call: ConductedCall) -> str:
        return agent_scope(call.opened.scope, call.opened.root)

    def _count_served_children(self, call: ConductedCall) -> None:
        """Count children whose results came from the journal: they are none of those that ran."""
        known = {child.scope for child in self._node.children}
        for child in recorded_children(call.run.index, self._scope_below(call)):
            if child.scope not in known:
                self._node.adopt(child)

    # -- turns ---------------------------------------------------------------------------

    async def admit_turn(
        self, call: ConductedCall, request: ChatRequest, state: LoopState
    ) -> RulvarError | None:
        """Let the next turn pass, and promise what it may cost."""
        self._call = call
        try:
            if self._in_step:
                self.end_last_step("tool_calls")
                await self.hook("after_step", {"step": self._node.steps})
            node, limits = self._node, self._node.limits
            if node.steps >= limits.max_steps:
                raise limit_error(node, "max_steps", limits.max_steps)
            if (
                len(dump_wire({"m": [item.to_wire() for item in request.messages]}))
                > limits.max_context_bytes
            ):
                raise limit_error(node, "max_context_bytes", limits.max_context_bytes)
            self._check_model_grant(call)
            node.steps += 1
            await self.hook("before_step", {"step": node.steps})
            self._in_step = True
            call.run.bus.emit("step:start", call.opened.span, call.place.span, {"step": node.steps})
            count(node, "model_calls")
            facts = {
                "step": node.steps,
                "modelCall": node.counters.model_calls,
                "modelId": call.task.adapter.id,
            }
            await self.hook("before_model_call", facts)
            self._promise(call, request)
            call.run.bus.emit("model:start", call.opened.span, call.place.span, facts)
        except RulvarError as error:
            return self._faulted(error)
        return None

    def _check_model_grant(self, call: ConductedCall) -> None:
        grants, wanted = call.place.grants, f"model:{call.task.adapter.id}"
        if grants is not None and wanted not in grants:
            raise PermissionDeniedError(
                f"agent {self._agent.id} is denied its model: the grant {wanted!r} is not given",
                data={"agent": self._agent.id, "missing": wanted},
            )

    def _promise(self, call: ConductedCall, request: ChatRequest) -> None:
        """Promise what the turn may cost at most.

        Raises:
            BudgetExceededError: a ceiling does not admit it.
        """
        self._bound = getattr(call.task.adapter, "max_cost_micros", None)
        micros = self._bound if self._bound is not None else self._estimate(call, request)
        self._purse, self._promised = RunPurse(call.run, call.place), micros
        if micros:
            self._purse.reserve(micros)

    def _estimate(self, call: ConductedCall, request: ChatRequest) -> int:
        """Return what a turn of a priced model may cost, within what is left: its output is bounded by that."""
        rest = call.run.budget.ledger.affordable(
            Reservation(call.run.budget.ledger.account(call.place.account), 0)
        )
        pricing = call.run.models.price_of(call.task.choice.reference)
        if rest is None or pricing is None:
            return 0
        most = request.max_output_tokens or call.task.adapter.caps(request.model).max_output_tokens
        usage = Usage(
            input_tokens=rough_tokens(request.messages),
            output_tokens=most,
            cache_read_tokens=0,
            cache_write_tokens=0,
        )
        return min(micro_usd(price_usd(pricing, usage)), micro_usd(rest))

    def bounds_cost(self, call: ConductedCall) -> bool:
        """Whether the model declares what a call costs at most."""
        return getattr(call.task.adapter, "max_cost_micros", None) is not None

    def exchanged(self, call: ConductedCall, turn: Turn) -> None:
        """Give the promise back; for a call that failed without a known cost it stays reserved."""
        if self._purse is None:
            return
        unknown = self._bound is not None and not turn.usage_is_exact
        self._purse.settle(0, self._promised if unknown else 0)
        self._purse = None

    async def admit_answer(self, call: ConductedCall, turn: Turn, state: LoopState) -> RulvarError | None:
        """Check an answer's cost, and end its stream."""
        node = self._node
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.finish(complete=turn.error is None)
        if turn.failure is not None:
            node.exception = turn.failure.__cause__ or turn.failure
        cost = micro_usd(call.run.spend.price(call.task.choice.reference, turn.usage) or 0.0)
        kind = "failed" if turn.error is not None else "tool_calls" if turn.tool_calls else "final"
        facts = {
            "step": node.steps,
            "modelCall": node.counters.model_calls,
            "responseKind": kind,
            "costMicros": cost,
        }
        call.run.bus.emit("model:end", call.opened.span, call.place.span, facts)
        try:
            await self.hook("after_model_call", facts)
            if self._bound is not None and cost > self._bound:
                raise BudgetExceededError(
                    f"a call of model {call.task.adapter.id} cost {cost} micro-USD, more than its bound of {self._bound}",
                    data={"agent": self._agent.id, "spentMicros": cost, "boundMicros": self._bound},
                )
        except RulvarError as error:
            return self._faulted(error)
        return None

    def on_event(self, call: ConductedCall) -> Callable[[Any], None] | None:
        """Start the stream of a turn."""
        policy = self._agent.stream
        if policy is None:
            return None
        bus, opened, place, index = call.run.bus, call.opened, call.place, 0
        facts = {"step": self._node.steps, "modelCall": self._node.counters.model_calls}

        def released(text: str) -> None:
            nonlocal index
            bus.emit("output:delta", opened.span, place.span, {**facts, "index": index, "text": text})
            index += 1

        def withheld() -> None:
            bus.emit("output:withheld", opened.span, place.span, facts)

        self._stream = FieldStream(policy, released, withheld)
        return self._stream.on_event

    def end_last_step(self, kind: str) -> None:
        """Tell that the step under way is over."""
        call = self._call
        if self._in_step and call is not None:
            self._in_step = False
            facts = {"step": self._node.steps, "kind": kind}
            call.run.bus.emit("step:end", call.opened.span, call.place.span, facts)

    # -- tools ---------------------------------------------------------------------------

    async def admit_calls(
        self, call: ConductedCall, calls: Sequence[ToolCallPart], state: LoopState
    ) -> RulvarError | None:
        """Look at a batch as a whole: known, granted, fitting, payable, within the limits."""
        try:
            tools = [self._known(call, part) for part in calls]
            for tool, part in zip(tools, calls, strict=True):
                _check_call(call, tool, part)
            self._check_ids(calls)
            _check_cost(call, tools)
            count(self._node, "tool_calls", len(calls))
            self._node.call_ids.update(part.id for part in calls)
            for tool, part in zip(tools, calls, strict=True):
                facts = {"callId": part.id, "toolId": tool.id, "input": part.args}
                await self.hook("before_tool_call", facts)
                if "agent:delegate" in tool.capabilities:
                    await self.hook("before_delegate", facts)
        except RulvarError as error:
            return self._faulted(error)
        return None

    def _known(self, call: ConductedCall, part: ToolCallPart) -> Tool:
        tool = call.toolset.get(part.name)
        if tool is None:
            raise NotFoundError(
                f"agent {self._agent.id} has no tool {part.name!r}",
                data={"agent": self._agent.id, "tool": part.name},
            )
        return tool

    def _check_ids(self, calls: Sequence[ToolCallPart]) -> None:
        seen = set(self._node.call_ids)
        for part in calls:
            if part.id in seen:
                raise ConflictError(
                    f"agent {self._agent.id}: the tool call id {part.id!r} came twice",
                    data={"agent": self._agent.id, "callId": part.id},
                )
            seen.add(part.id)

    async def tool_ended(
        self, call: ConductedCall, tool: Tool | None, part: ToolCallPart, outcome: ToolOutcome
    ) -> ToolOutcome:
        """End the agent when a tool failed."""
        ended = call.ended
        fault: RulvarError | None = None
        if outcome.status != "ok":
            fault = ended.error if ended is not None else None
            fault = fault or _denied(tool, part, outcome)
            self._node.exception = outcome.exception
        try:
            facts = {
                "callId": part.id,
                "toolId": part.name if tool is None else tool.id,
                "status": outcome.status,
            }
            await self.hook("after_tool_call", {**facts, **call.receipt_facts()})
            if tool is not None and "agent:delegate" in tool.capabilities:
                self._count_served_children(call)
                await self.hook("after_delegate", facts)
        except RulvarError as error:
            fault = fault or error
        if fault is None:
            return outcome
        self._faulted(fault)
        return ToolOutcome(outcome.status, outcome.result, outcome.exception, fault)

    # -- rules ---------------------------------------------------------------------------

    async def hook(self, point: HookPoint, facts: dict[str, Any]) -> None:
        """Call the hooks of a point, counted.

        Raises:
            GuardBlockedError, GuardUnavailableError: one of them stops the agent.
            AgentLimitError: more hook calls than the agent may make.
        """
        hooks = self._agent.hook_table
        if calls := hooks.count(point):
            count(self._node, "hook_calls", calls)
            if self._call is None:
                await hooks.call(point, {"agentId": self._agent.id, **facts})
                return
            # inside the model's loop a hook is free code: a ctx call in it is refused like in a step
            token = CURRENT_PLACE.set(self._call.place.at(step=f"hook {point}", attempt=None))
            try:
                await hooks.call(point, {"agentId": self._agent.id, **facts})
            finally:
                CURRENT_PLACE.reset(token)

    def _faulted(self, error: RulvarError) -> RulvarError:
        """Note what ends the agent; the first fault counts, but a worse one that comes later wins."""
        known = self._node.fault
        if known is None or isinstance(error, OutcomeUnknownError):
            self._node.fault = error
        if self._node.exception is None:
            self._node.exception = error.__cause__
        return error


def _check_call(call: ConductedCall, tool: Tool, part: ToolCallPart) -> None:
    missing = missing_grant(call.place.grants, tool)
    if missing is not None:
        raise PermissionDeniedError(
            f"tool {tool.id} is denied: the grant {missing!r} is not given",
            data={"tool": tool.id, "missing": missing},
        )
    issues = tool.parameters.issues({} if part.args is None else part.args, hides_values=True)
    if issues:
        path = "".join(f"[{item!r}]" for item in issues[0].path)
        raise InvalidInputError(
            f"arguments of tool {tool.id} do not fit: args{path}: {issues[0].message}",
            data={"tool": tool.id, "issues": [issue.to_wire() for issue in issues]},
        )


def _check_cost(call: ConductedCall, tools: Sequence[Tool]) -> None:
    total = sum(tool.cost_micros for tool in tools)
    if not total:
        return
    purse = RunPurse(call.run, call.place)
    purse.reserve(total)  # raises when the whole batch cannot be paid; each call promises for itself later
    purse.settle(0, 0)


def _denied(tool: Tool | None, part: ToolCallPart, outcome: ToolOutcome) -> RulvarError:
    """Return the fault of a call that never reached its tool: the gate or a human refused it."""
    text = outcome.result.get("error") if isinstance(outcome.result, dict) else None
    name = part.name if tool is None else tool.id
    kind = PermissionDeniedError if outcome.status == "denied" else ToolFailedError
    return kind(text if isinstance(text, str) else f"tool {name} failed", data={"tool": name})
