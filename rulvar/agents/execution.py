"""One run of an agent: input, guards, the model's loop, guards, answer."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from rulvar.agents.conduct import AgentConduct
from rulvar.agents.counters import AgentNode, count_descendant, limit_error
from rulvar.agents.faults import agent_fault
from rulvar.agents.guards import check_fit, pass_guards
from rulvar.agents.hooks import HookPoint
from rulvar.agents.limits import Limits
from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.messages import ImagePart
from rulvar.contracts.schema import SchemaContract
from rulvar.engine.branch import CURRENT_PLACE, Place
from rulvar.engine.control import unwrapped
from rulvar.engine.ctx import Ctx, run_of
from rulvar.engine.primitives.agent import run_agent
from rulvar.engine.primitives.agent_plan import AgentOptions
from rulvar.engine.run import Run
from rulvar.engine.workflow import Workflow
from rulvar.errors import (
    BudgetExceededError,
    CallTimeoutError,
    ConflictError,
    ControlFlow,
    GuardBlockedError,
    GuardUnavailableError,
    InvalidInputError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RulvarError,
)
from rulvar.runtime.agent import AgentResult
from rulvar.runtime.limits import UsageLimits
from rulvar.tools.deadline import Deadline

if TYPE_CHECKING:
    from rulvar.agents.agent import Agent

__all__ = ["AgentExecution", "agent_workflow"]

_CURRENT: ContextVar[AgentNode | None] = ContextVar("rulvar_agent", default=None)
_VIOLATIONS = (GuardBlockedError, GuardUnavailableError, PermissionDeniedError, BudgetExceededError)


def agent_workflow(
    agent: Agent[Any], *, limits: Limits | None = None, grants: frozenset[str] | None = None
) -> Workflow[Any]:
    """Return the workflow that runs an agent."""

    async def body(ctx: Ctx, args: Any) -> Any:
        run = run_of(ctx)
        return await AgentExecution(agent, limits or _run_limits(agent, run), run).run(args)

    return Workflow(
        name=f"agent:{agent.id}",
        body=body,
        source=type(agent),
        adapters=_adapters(agent),
        grants=grants,
        budget_share=1.0,
        promise_usd=0.0,  # it promises turn by turn
        read_limits=Limits.of,
        uses=tuple(agent.tools),
    )


def _run_limits(agent: Agent[Any], run: Run) -> Limits:
    """Return an agent's limits in a run; those that the run was started with are its first agent's."""
    given: Limits | None = run.request.own_limits
    if given is None or run.agents:
        return agent.limits
    return agent.limits.tightened_by(given) if agent.is_bounded else given


def _adapters(agent: Agent[Any]) -> tuple[Any, ...]:
    """Return the adapters of an agent and of those that its tools run."""
    found = {} if agent.adapter is None else {agent.adapter.id: agent.adapter}
    for tool in agent.tools:
        for adapter in getattr(tool.function, "adapters", ()):
            found.setdefault(adapter.id, adapter)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any


class AgentExecution:
    """Runs one agent to its end, inside a run."""

    def __init__(self, agent: Agent[Any], limits: Limits, run: Run) -> None:
        self._agent = agent
        self._limits = limits
        self._run = run
        place = run.place()
        parent = _CURRENT.get()
        if parent is not None and parent.state.get("run") is not run:
            parent = None
        self._node = AgentNode(
            agent.id, limits, parent, scope=place.scope, span=place.span, state={"run": run}
        )
        self._conduct = AgentConduct(agent, self._node)

    async def run(self, args: Any) -> Any:
        """Return the answer, as JSON.

        Raises:
            RulvarError: what ended the agent; its ``run_status`` is how a run ends that it ends.
        """
        node, run = self._node, self._run
        self._enter()
        token = _CURRENT.set(node)
        try:
            value = await self._plain(args)
            node.status = "ok"
            return value
        except asyncio.CancelledError:
            node.status = "cancelled"
            await self._observe("on_cancel", {})
            if (unknown := self._unknown()) is not None:
                node.status = unknown.run_status
                raise unknown from None
            raise
        except ControlFlow:
            node.status = "suspended"
            raise
        except RulvarError as error:
            node.status = error.run_status
            await self._tell(error)
            raise
        except Exception:
            node.status = "error"
            raise
        finally:
            _CURRENT.reset(token)
            if node.status != "suspended":
                await self._observe("finally", {"status": node.status})
            if node.parent is not None:
                facts = {"agentId": node.agent_id, "status": node.status}
                run.bus.emit("delegate:end", node.span, node.parent.span, facts)

    def _enter(self) -> None:
        node, run = self._node, self._run
        if run.agents is None:
            run.agents = []
        if node.parent is None:
            run.agents.append(node)
            return
        if node.agent_id in node.parent.ancestry:
            raise ConflictError(
                f"agent {node.agent_id} runs already above itself; an agent may not call itself",
                data={"agent": node.agent_id},
            )
        count_descendant(node.parent)
        node.parent.children.append(node)
        run.bus.emit(
            "delegate:start", node.span, node.parent.span, {"agentId": node.agent_id, "scope": node.scope}
        )

    async def _plain(self, args: Any) -> Any:
        """Run, and take control flow out of the groups that a guard's or a hook's tasks have wrapped it in."""
        try:
            return await self._timed(args)
        except BaseExceptionGroup as group:
            raise unwrapped(group) from None

    async def _timed(self, args: Any) -> Any:
        """Run against the agent's time limit, on the engine's clock."""
        limits, answer = self._limits, None
        place = self._place()
        token = CURRENT_PLACE.set(place)
        deadline = Deadline(self._run.clock, limits.max_duration, is_idle=self._waits)
        try:
            with deadline:
                answer = _Answer(await self._answered(args))
        finally:
            CURRENT_PLACE.reset(token)
        if answer is not None:
            return answer.value
        if (unknown := self._unknown()) is not None:
            raise unknown
        raise CallTimeoutError(
            f"agent {self._agent.id} took longer than its limit max_duration={limits.max_duration} s",
            data={"agent": self._agent.id, "limit": "max_duration"},
        )

    def _place(self) -> Place:
        """Return where the agent stands: its own money, when it has a bound of its own."""
        place, most = self._run.place(), self._limits.max_cost_micros
        if most is None:
            return place
        name = f"{place.scope or 'run'}#{self._agent.id}"
        before = self._run.spend.below(place.scope)  # by earlier processes
        self._run.budget.ledger.open(name, place.account, 1.0, most, before)
        return place.at(account=name)

    def _waits(self) -> bool:
        return self._run.liveness.moving == 0

    async def _answered(self, args: Any) -> Any:
        agent, conduct = self._agent, self._conduct
        value, media = self._input(args)
        value = await pass_guards(agent.guards.input, value, "input", agent.id, agent.input_contract)
        await conduct.hook("before_run", {"input": value})
        result: AgentResult = await run_agent(self._run, _prompt(value), self._options(media), None)
        if result.status != "ok":
            conduct.end_last_step("stopped")
            fault = self._node.fault or agent_fault(agent.id, result)
            raise fault from self._node.exception
        output = result.output
        self._check_size(output, "max_output_bytes", self._limits.max_output_bytes)
        check_fit(agent.output_contract, output, "output", agent.id)
        output = await pass_guards(agent.guards.output, output, "output", agent.id, agent.output_contract)
        await conduct.hook("before_release", {"output": output})
        conduct.end_last_step("final")
        await conduct.hook("after_step", {"step": self._node.steps})
        return output

    def _input(self, args: Any) -> tuple[Any, tuple[ImagePart, ...]]:
        agent = self._agent
        value = journal_value(args, f"agent {agent.id} input")
        self._check_size(value, "max_input_bytes", self._limits.max_input_bytes)
        media: tuple[ImagePart, ...] = ()
        if agent.media and isinstance(value, dict) and set(value) == {"input", "media"}:
            value, media = value["input"], _media(agent, value["media"])
        check_fit(agent.input_contract, value, "input", agent.id)
        return value, media

    def _check_size(self, value: Any, name: str, bound: int) -> None:
        if len(orjson.dumps(value)) > bound:
            raise limit_error(self._node, name, bound)

    def _options(self, media: tuple[ImagePart, ...]) -> AgentOptions:
        agent, limits = self._agent, self._limits
        adapter = agent.adapter or self._run.models.adapter(agent.reference.partition(":")[0])
        contract = agent.output_contract
        return AgentOptions(
            agent_type=agent.id,
            model=agent.reference,
            effort=agent.effort,
            schema=None
            if contract is None
            else SchemaContract(contract.json, hides_values=True, asserts_formats=contract.asserts_formats),
            tools=tuple(agent.toolset),
            limits=UsageLimits(
                max_turns=limits.max_steps + 1,
                max_output_tokens_per_turn=min(
                    limits.max_output_tokens, adapter.caps(agent.model_name).max_output_tokens
                ),
            ),
            result="full",
            memoize_outcome=True,
            conduct=self._conduct,
            system=agent.instructions,
            media=media,
        )

    def _unknown(self) -> OutcomeUnknownError | None:
        """Return the fault of a write that was under way when the agent was stopped."""
        error = self._conduct.last_tool_error
        return error if isinstance(error, OutcomeUnknownError) else None

    async def _tell(self, error: RulvarError) -> None:
        facts = {"code": error.wire_code, "status": error.run_status}
        if isinstance(error, _VIOLATIONS):
            await self._observe("on_violation", facts)
        await self._observe("on_blocked" if error.run_status == "blocked" else "on_error", facts)

    async def _observe(self, point: HookPoint, facts: Mapping[str, Any]) -> None:
        """Tell observers of an end that stands already."""
        try:
            await self._agent.hook_table.call(point, {"agentId": self._agent.id, **facts})
        except RulvarError as error:
            if self._node.status == "ok":
                self._node.status = error.run_status
                raise


def _prompt(value: Any) -> str:
    return (
        value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8")
    )


def _media(agent: Agent[Any], items: Any) -> tuple[ImagePart, ...]:
    parts = []
    for number, item in enumerate(items if isinstance(items, list) else [None]):
        kind = item.get("mediaType") if isinstance(item, dict) else None
        address = _address(kind, item.get("data")) if isinstance(item, dict) and kind in agent.media else None
        if not isinstance(kind, str) or address is None:
            raise InvalidInputError(
                f"the input of agent {agent.id} does not fit: media[{number}] is no address and no base64 text of "
                f"{', '.join(agent.media)}",
                data={"agent": agent.id, "field": f"media[{number}]"},
            )
        parts.append(ImagePart(media_type=kind, data=address))
    return tuple(parts)


def _address(kind: Any, data: Any) -> str | None:
    """Return data as an address that says its type, which every provider takes; None for what is neither."""
    if not isinstance(data, str):
        return None
    if data.startswith(("https://", "http://")):
        return data
    start = f"data:{kind};base64,"
    text = data.removeprefix(start)
    try:
        return start + text if base64.b64decode(text, validate=True) else None
    except ValueError:
        return None
