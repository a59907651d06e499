"""What acts for an agent loop inside a run: journal, tools, transcripts, events."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.jsonable import journal_value
from rulvar.contracts.messages import ChatRequest, Msg, ToolCallPart
from rulvar.contracts.stream import TextDelta, WireError
from rulvar.contracts.usage import Usage
from rulvar.engine.branch import Place
from rulvar.engine.calls import Opened
from rulvar.engine.journal import store_error
from rulvar.engine.primitives.agent_events import call_facts
from rulvar.engine.primitives.agent_tool import run_agent_tool
from rulvar.engine.primitives.approval import wait_approval
from rulvar.engine.primitives.conduct import Conduct, ConductedCall
from rulvar.engine.run import Run
from rulvar.errors import ReplayStopped, RulvarError, StoreError
from rulvar.kernel.ledger import Reservation
from rulvar.runtime.checkpoint import LoopState, encode_checkpoint
from rulvar.runtime.ends import LoopEnd, fault_error
from rulvar.runtime.history import dump_wire
from rulvar.runtime.loop import AgentTask
from rulvar.runtime.turn import Turn
from rulvar.tools.gate import decide
from rulvar.tools.invoke import ToolOutcome, argument_problem, denied, unknown_tool
from rulvar.tools.permissions import Decision, ToolRequest, read_only
from rulvar.tools.recovery import read_again
from rulvar.tools.tool import ModelRetry, Tool

if TYPE_CHECKING:
    from rulvar.engine.primitives.agent_plan import AgentPlan

__all__ = ["AgentHost"]

MAX_RETRIES = 2
"""How often in a row a tool may send the model back before the model is told that it is enough."""


_DECIDERS = {"deny": "deny-rule", "ask": "ask-rule", "allow": "allow-rule", "can_use_tool": "canUseTool"}


def _told_by(decision: Decision) -> str:
    """Return the step of the gate as events name it."""
    return _DECIDERS.get(decision.decided_by, decision.decided_by)


def _ended_by(fault: RulvarError | None) -> LoopEnd | None:
    return None if fault is None else LoopEnd(status="error", error=fault_error(fault))


class AgentHost:
    """The host of one agent loop; see ``runtime.loop.LoopHost``."""

    def __init__(
        self,
        run: Run,
        place: Place,
        plan: AgentPlan,
        opened: Opened,
        task: AgentTask,
        reservation: Reservation,
    ) -> None:
        self._run = run
        self._place = place
        self._plan = plan
        self._opened = opened
        self._task = task
        self.reservation = reservation
        self.later = run.engine.timers.later
        """Calls back on the event loop's clock: what a provider keeps waiting, no clock of tests shortens."""
        self._turn = 0
        self._exchange_began = run.clock.now_ms()
        self.checkpoint_ref: str | None = None
        self._conduct: Conduct | None = plan.options.conduct
        self._call = ConductedCall(run, place, opened, task, plan.toolset)
        self._retries: dict[str, int] = {}
        self._permissions = run.engine.permissions
        if plan.identity["isolation"] == "readonly":
            self._permissions = read_only(self._permissions)

    def resumed(self, state: LoopState) -> None:
        """Tell the agent's conduct that the call goes on at a checkpoint."""
        if self._conduct is not None:
            self._conduct.resumed(self._call, state)

    async def admit_turn(self, request: ChatRequest, state: LoopState) -> LoopEnd | None:
        """Ask the agent's conduct whether the next turn may be sent."""
        if self._conduct is None:
            return None
        return _ended_by(await self._conduct.admit_turn(self._call, request, state))

    async def admit_answer(self, turn: Turn, state: LoopState) -> LoopEnd | None:
        """Ask the agent's conduct whether a turn's answer may be acted on."""
        if self._conduct is None:
            return None
        return _ended_by(await self._conduct.admit_answer(self._call, turn, state))

    async def admit_calls(self, calls: Sequence[ToolCallPart], state: LoopState) -> LoopEnd | None:
        """Ask the agent's conduct whether a turn's tool calls may run."""
        if self._conduct is None:
            return None
        return _ended_by(await self._conduct.admit_calls(self._call, calls, state))

    async def exchanged(self, record: dict[str, Any], request: ChatRequest, turn: Turn) -> None:
        """Journal one exchange, and tell observers what served it."""
        run, opened = self._run, self._opened
        if self._conduct is not None:
            self._conduct.exchanged(self._call, turn)
        run.decide_soon(
            opened.scope,
            f"pc:{opened.seq}:{record['ordinal']}",
            opened.span,
            {"decisionType": "provider-call", "agentRef": opened.seq, "record": record},
        )
        self._turn += 1
        run.budget.calls += 1
        cost = run.spend.price(self._plan.choice.reference, turn.usage)
        if cost is None:
            run.budget.warn_of_price(self._plan.choice.reference)
        run.spend.add_exchange(opened.seq, cost)
        run.budget.settle(self._place, cost, may_exhaust=self._conduct is None)
        run.budget.announce()
        if run.observe:
            plan = self._plan
            run.observe.call(
                "agent",
                opened.scope,
                plan.key,
                turn.served,
                plan.site,
                label=plan.options.label,
                agent_type=plan.agent_type or None,
                turn=self._turn,
                adapter=plan.choice.adapter_id,
                model=plan.choice.model,
                request=request,
                usage=turn.usage,
                cost_usd=cost,
                span_id=opened.span,
                provider=getattr(self._task.adapter, "provider", None),
                duration_ms=run.clock.now_ms() - self._exchange_began,
                answer=turn.parts,
                finish_reason=None if turn.finish is None else turn.finish.finish.reason,
                error_code=record.get("errorCode"),
            )

    async def go_on(self, state: LoopState) -> None:
        """Take up a call where it stopped: what its finished turns cost counts against the ceiling again."""
        paid = {"usage": state.usage.to_wire(), "servedBy": self._plan.choice.reference}
        cost = self._run.spend.bill({**paid, "providerCalls": state.provider_calls}).cost_usd
        self._run.spend.add_exchange(self._opened.seq, cost)
        self._run.budget.settle(self._place, cost, may_exhaust=False)
        await self.checkpoint(state)

    async def checkpoint(self, state: LoopState) -> None:
        """Keep the state, so that a resumed call goes on here."""
        run, opened = self._run, self._opened
        await run.journal.flush()
        self.checkpoint_ref = f"{run.run_id}/ckpt/{opened.seq}"
        if self._conduct is not None:
            state.notes = self._conduct.notes()
        blob = encode_checkpoint(state, self._plan.choice.reference, self._task.role)
        try:
            await run.transcript_store.put(self.checkpoint_ref, blob)
        except (StoreError, OSError) as error:
            # going on would spend what a resumed run could not build upon
            fatal = error if isinstance(error, StoreError) else store_error(run.run_id, error)
            run.stop(fatal)
            raise ReplayStopped(fatal) from error

    async def keep_transcript(self, state: LoopState) -> str | None:
        """Store the conversation and return its reference; None when that fails, and the run is stopped."""
        run = self._run
        ref = f"{run.run_id}/t{run.transcripts}"
        run.transcripts += 1
        messages = [message.to_plain() for message in state.messages]
        try:
            await run.transcript_store.put(ref, dump_wire({"messages": messages}))
        except (StoreError, OSError) as error:
            run.stop(error if isinstance(error, StoreError) else store_error(run.run_id, error))
            return None
        return ref

    async def run_tool(self, call: ToolCallPart, state: LoopState) -> ToolOutcome:
        """Run one tool call: check, gate, execute."""
        run, span = self._run, self._opened.span
        facts: dict[str, Any] = {"toolName": call.name, "toolCallId": call.id}
        tool = self._plan.toolset.get(call.name)
        if tool is not None and tool.id != call.name:
            facts["toolId"] = tool.id
        self._call.ended = None
        risk = {"risk": tool.risk} if tool is not None and tool.risk is not None else {}
        run.bus.emit("tool:start", span, self._place.span, {**facts, **risk})
        started = run.clock.now_ms()
        decision: Decision | None = None
        if tool is None:
            outcome = unknown_tool(call.name)
        else:
            request = ToolRequest(tool, call.args, run.run_id, self._plan.agent_type)
            decision = await decide(self._permissions, request)
            args, problem = self._fitting(tool, call)
            if problem is not None:
                outcome = problem
            elif decision.verdict == "deny":
                outcome = denied(tool, decision.reason)
            elif decision.verdict == "ask" and (refusal := await self._ask(tool, call, state)) is not None:
                outcome = refusal
            else:
                made = msgspec.structs.replace(call, args=args)
                outcome = self._counted(call.name, await self._execute(tool, made, state))
        if self._conduct is not None:
            outcome = await self._conduct.tool_ended(self._call, tool, call, outcome)
        state.settled_seq = run.journal.next_seq
        receipt = {} if self._conduct is None else self._call.receipt_facts()
        gate = {} if decision is None else {"verdict": decision.verdict, "decidedBy": _told_by(decision)}
        run.bus.emit(
            "tool:end",
            span,
            self._place.span,
            {
                **facts,
                "outcome": outcome.status,
                "durationMs": run.clock.now_ms() - started,
                **gate,
                **receipt,
            },
        )
        return outcome

    def _fitting(self, tool: Tool, call: ToolCallPart) -> tuple[Any, ToolOutcome | None]:
        """Return the arguments that a tool is called with, and what to tell the model when they do not fit."""
        problem = argument_problem(tool, call.args)
        again = None if problem is None or self._conduct is not None else read_again(call.args)
        if again is None or argument_problem(tool, again) is not None:
            return call.args, problem
        facts = {
            "level": "warn",
            "msg": f"the arguments of {tool.name} were no JSON; they were read once more, and fit its schema",
        }
        self._run.bus.emit("log", self._opened.span, self._place.span, facts)
        return again, None

    def _counted(self, name: str, outcome: ToolOutcome) -> ToolOutcome:
        """Tell a model that asks and asks again when a tool has sent it back often enough."""
        retry = outcome.exception
        if not isinstance(retry, ModelRetry):
            if outcome.status == "ok":
                self._retries.pop(name, None)
            return outcome
        before = self._retries.get(name, 0)
        self._retries[name] = before + 1
        told: dict[str, Any] = {"error": retry.message}
        if retry.data:
            told["data"] = journal_value(retry.data, f"tool {name}: the data of ModelRetry")
        if before >= MAX_RETRIES:
            told["retriesExhausted"] = True
        return msgspec.structs.replace(outcome, result=told)

    async def _ask(self, tool: Tool, call: ToolCallPart, state: LoopState) -> ToolOutcome | None:
        """Ask a human, and return what the model is told when the answer is no.

        The run may suspend meanwhile and go on at this very call.
        """
        await self.checkpoint(state)
        answer = await wait_approval(self._run, self._place, self._opened, tool, call.args)
        if answer.get("decision") == "allow":
            return None
        reason = answer.get("reason")
        return denied(tool, reason if isinstance(reason, str) else None)

    async def _execute(self, tool: Tool, call: ToolCallPart, state: LoopState) -> ToolOutcome:
        async def keep() -> None:
            await self.checkpoint(state)

        number, seen = state.tool_calls_used, self._call.see_ended
        return await run_agent_tool(self._run, self._place, self._opened, tool, call, number, keep, seen)

    def failed(self, error: WireError, *, will_retry: bool) -> None:
        """Tell that an exchange failed."""
        facts = {**call_facts(self._plan), "error": error.to_wire(), "willRetry": will_retry}
        self._run.bus.emit("agent:error", self._opened.span, self._place.span, facts)

    def schema_retry(self, attempt: int) -> None:
        """Tell that an answer is asked for again."""
        facts = {"agentType": self._plan.agent_type, "attempt": attempt, "maxAttempts": 2}
        self._run.bus.emit("agent:schema-retry", self._opened.span, self._place.span, facts)

    async def pause(self, seconds: float) -> None:
        """Wait on the engine's clock."""
        await self._run.clock.sleep(seconds)

    def chance(self) -> float:
        """Return a number in [0, 1) for jitter."""
        return self._run.engine.entropy.random()

    def output_bound(self, caps: ModelCaps, messages: Sequence[Msg]) -> int | None:
        """Return how many output tokens the rest of the budget buys; None is no bound."""
        reference = self._plan.choice.reference
        if self._conduct is not None and self._conduct.bounds_cost(self._call):
            return None
        if self._conduct is None:
            self._run.budget.check_spent(self.reservation)
        return self._run.budget.output_bound(self.reservation, reference, caps, messages)

    def affords(self, usage: Usage) -> bool:
        """Whether the budget still pays for an exchange that has used this much so far."""
        cost = self._run.spend.price(self._plan.choice.reference, usage)
        return self._run.budget.affords(self.reservation, cost)

    def slot(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold one of the engine's model calls; an exchange begins when there is one."""
        return self._run.engine.slots.hold(self._plan.choice.adapter_id, self._queued)

    def _queued(self) -> None:
        self._run.bus.emit("agent:queued", self._opened.span, self._place.span, call_facts(self._plan))

    def exchange_begins(self) -> None:
        """Note the time: the slot is held, and the request is about to be sent."""
        self._exchange_began = self._run.clock.now_ms()

    def on_event(self) -> Any:
        """Return a callback that emits the answer's text as it comes, when the call streams."""
        if self._conduct is not None:
            return self._conduct.on_event(self._call)
        if not self._plan.options.stream:
            return None
        run, span, parent = self._run, self._opened.span, self._place.span

        def emit(event: Any) -> None:
            if isinstance(event, TextDelta):
                run.bus.emit("agent:stream", span, parent, {"delta": event.text})

        return emit
