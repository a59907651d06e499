"""One agent call: model turns and tool calls until there is an answer, an error or a limit.

The loop decides; its host acts. The host journals what happened, runs tools through the gate and
tells the world. Everything the loop knows fits into a checkpoint, so that a resumed call goes on at
its last turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolContract,
    ToolResultPart,
)
from rulvar.contracts.ports.provider import LIVE, Adapter, provider_family
from rulvar.contracts.schema import SchemaContract
from rulvar.contracts.usage import add_usage
from rulvar.errors import BudgetExhaustedError, ConfigError, ReplayDriftError, VcrMissError
from rulvar.runtime import structured
from rulvar.runtime.checkpoint import LoopState, unanswered_calls
from rulvar.runtime.ends import (
    LoopEnd,
    cut_answer,
    exchange_error,
    fault_error,
    is_whole,
    limit_reached,
    mismatch,
    refusal_told,
    refused_or_full,
    said_nothing,
    unpaid,
)
from rulvar.runtime.history import (
    Compaction,
    cache_hint,
    last_rounds,
    project_history,
    rough_tokens,
    split_history,
)
from rulvar.runtime.host import LoopHost
from rulvar.runtime.limits import UsageLimits
from rulvar.runtime.retry import RetryPolicy, retry_delay_s
from rulvar.runtime.router import ModelChoice, sent_options
from rulvar.runtime.turn import Turn, take_turn

__all__ = ["AgentLoop", "AgentTask"]

MAX_SCHEMA_ATTEMPTS = 2
"""How often an answer that does not fit its schema is asked for again."""


class AgentTask(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Everything that one agent call is asked with."""

    prompt: str
    agent_type: str
    label: str | None
    role: str
    choice: ModelChoice
    adapter: Adapter
    tools: tuple[ToolContract, ...]
    schema: SchemaContract | None
    system: str | None
    limits: UsageLimits
    retry: RetryPolicy
    compaction: Compaction | None = None
    media: tuple[ImagePart, ...] = ()
    is_conducted: bool = False
    """Whether an agent value conducts the call: it judges every tool call, and an answer that is cut is none."""
    schema_attempts: int = MAX_SCHEMA_ATTEMPTS


class AgentLoop:
    """Runs one agent call to its end.

    Attributes:
        state: where it stands; valid at every await.
        abort: set to end the exchange that is under way.
    """

    def __init__(self, task: AgentTask, host: LoopHost, state: LoopState | None = None) -> None:
        self.task = task
        self.host = host
        self.state = state or LoopState(messages=_first_messages(task))
        self.abort = asyncio.Event()
        self._caps: ModelCaps = task.adapter.caps(task.choice.model)
        self._tier: structured.Tier | None = None
        if task.schema is not None:
            self._tier = structured.select_tier(self._caps.structured_output, task.schema.canonical)
            if self._tier == "prompt" and state is None:
                self._ask_for_json(task.schema)

    async def run(self) -> LoopEnd:
        """Take turns until the call ends."""
        if (pending := unanswered_calls(self.state.messages)) and (
            end := await self._take_up(pending)
        ) is not None:
            return end
        while True:
            if self.state.turns >= self.task.limits.max_turns:
                return LoopEnd(status="limit", error=limit_reached("max_turns", self.task.limits.max_turns))
            try:
                await self._compact()
                request = self._request()
                if (end := await self.host.admit_turn(request, self.state)) is not None:
                    return end
                turn = await self._exchange(request)
            except BudgetExhaustedError as error:
                return LoopEnd(status="error", error=unpaid(error), denied=error)
            self.state.turns += 1
            if (end := await self.host.admit_answer(turn, self.state)) is not None:
                self.state.messages.append(Msg(role="assistant", parts=turn.parts))
                return end
            if turn.error is not None:
                self.state.messages.append(Msg(role="assistant", parts=turn.parts))
                return self._failed(turn)
            end = await self._after(turn)
            if end is not None:
                return end

    async def _after(self, turn: Turn) -> LoopEnd | None:
        """Act on an answered turn; None goes on to the next."""
        finish = turn.finish
        assert finish is not None
        self.state.messages.append(Msg(role="assistant", parts=turn.parts))
        if (told := refusal_told(turn)) is not None:
            self.host.failed(told, will_retry=False)
        if (end := refused_or_full(turn)) is not None:
            return end
        calls = turn.tool_calls
        delivers = self._is_forced() and any(call.name == structured.RESULT_TOOL for call in calls)
        if calls and not delivers and (self.task.tools or self.task.is_conducted):
            if (end := await self.host.admit_calls(calls, self.state)) is not None:
                return await self._refused(end)
            return await self._answer(calls) or self._stuck()
        if (cut := self._cut(turn)) is not None:
            return cut
        if self.task.schema is None:
            return LoopEnd(status="ok", output=turn.text)
        return await self._read_answer(turn, self.task.schema)

    def _cut(self, turn: Turn) -> LoopEnd | None:
        """Return the end of a call whose answer was cut, when what there is of it is of no use."""
        if self.task.is_conducted:
            return None if is_whole(turn) else LoopEnd(status="limit", error=cut_answer(turn))
        if self.task.schema is not None or is_whole(turn) or turn.text.strip(structured.WHITE_SPACE):
            return None
        return LoopEnd(status="limit", error=said_nothing(), is_kept=True)

    async def _refused(self, end: LoopEnd) -> LoopEnd:
        """Keep a turn that is paid for, when its tool calls are what the money does not reach for."""
        data = None if end.error is None else end.error.data
        if isinstance(data, dict) and data.get("kind") == "budget":
            self.state.refused = True
            await self.host.checkpoint(self.state)
        return end

    async def _take_up(self, calls: Sequence[ToolCallPart]) -> LoopEnd | None:
        """Go on with tool calls that a resumed state had asked for."""
        if self.state.refused:
            self.state.refused = False
            if (end := await self.host.admit_calls(calls, self.state)) is not None:
                return await self._refused(end)
        return await self._answer(calls)

    async def _read_answer(self, turn: Turn, schema: SchemaContract) -> LoopEnd | None:
        assert self._tier is not None
        tier = self._tier if self._is_forced() else "prompt"
        found = structured.extract_candidate(turn.text, turn.tool_calls, tier)
        issues = structured.answer_issues(found, schema)
        if found is not None and not issues:
            return LoopEnd(status="ok", output=found.raw)
        self.state.schema_attempts += 1
        if self.state.schema_attempts > self.task.schema_attempts:
            return LoopEnd(status="error", error=mismatch(issues))
        self.host.schema_retry(self.state.schema_attempts)
        self._answer_forced_calls(turn)
        self.state.messages.append(Msg.text("user", structured.reprompt_text(issues)))
        await self.host.checkpoint(self.state)
        return None

    def _answer_forced_calls(self, turn: Turn) -> None:
        """Providers refuse a history in which a tool call has no result."""
        results = tuple(
            ToolResultPart(
                id=call.id, name=call.name, result={"error": "the answer does not fit"}, is_error=True
            )
            for call in turn.tool_calls
        )
        if results:
            self.state.messages.append(Msg(role="tool", parts=results))

    async def _answer(self, calls: Sequence[ToolCallPart]) -> LoopEnd | None:
        """Run tool calls in order; an outcome that ends the agent is returned."""
        messages, bound = self.state.messages, self.task.limits.max_tool_calls
        for call in calls:
            if bound is not None and self.state.tool_calls_used >= bound:
                return LoopEnd(status="limit", error=limit_reached("max_tool_calls", bound))
            outcome = await self.host.run_tool(call, self.state)
            self.state.tool_calls_used += outcome.is_made
            if outcome.fault is not None:
                return LoopEnd(status="error", error=fault_error(outcome.fault))
            part = ToolResultPart(
                id=call.id, name=call.name, result=outcome.result, is_error=True if outcome.is_error else None
            )
            if messages[-1].role == "tool":  # the results of one turn make one message
                messages[-1] = Msg(role="tool", parts=(*messages[-1].parts, part))
            else:
                messages.append(Msg(role="tool", parts=(part,)))
        await self.host.checkpoint(self.state)
        return None

    def _stuck(self) -> LoopEnd | None:
        """Return the end of a call whose last turns asked the same and were told the same."""
        bound = self.task.limits.max_idle_turns
        if bound is None:
            return None
        rounds = last_rounds(self.state.messages, bound + 1)
        if len(rounds) <= bound or any(item != rounds[0] for item in rounds):
            return None
        return LoopEnd(status="limit", error=limit_reached("max_idle_turns", bound))

    async def _compact(self) -> None:
        """Shorten the conversation when it comes near the end of the model's context window."""
        rule, state = self.task.compaction, self.state
        if rule is None or rough_tokens(state.messages) < rule.at * self._caps.context_window:
            return
        parts = split_history(state.messages, rule.keep_turns)
        if parts is None:
            return
        request = ChatRequest(
            model=self.task.choice.model,
            messages=parts.request(),
            max_output_tokens=self.host.output_bound(self._caps, parts.request()),
            provider_options=self._provider_options(),
        )
        turn = await self._exchange(request, "summarize")
        if turn.error is None and turn.text:
            state.messages[:] = parts.shortened(turn.text)
            state.compactions.append(state.turns)
            await self.host.checkpoint(state)

    async def _exchange(self, request: ChatRequest, role: str | None = None) -> Turn:
        """Send one turn, again while its error is retryable.

        Raises:
            BudgetExhaustedError: the budget was used up while the answer came in.
        """
        attempt = 0
        while True:
            attempt += 1
            turn = Turn(served=LIVE)
            try:
                async with self.host.slot():
                    self.host.exchange_begins()
                    await take_turn(
                        self.task.adapter,
                        request,
                        self.abort,
                        turn,
                        on_event=self.host.on_event(),
                        affords=self.host.affords,
                        idle_s=self.task.limits.idle_timeout_s,
                        later=self.host.later,
                    )
            except asyncio.CancelledError:
                await self._record(turn, request, attempt, role, aborted="external")
                raise
            except BudgetExhaustedError:
                await self._record(turn, request, attempt, role, aborted="budget")
                raise
            aborted = self.abort.is_set() and turn.finish is None and turn.error is None
            why = "external" if aborted else "idle" if turn.went_quiet else None
            await self._record(turn, request, attempt, role, aborted=why)
            if aborted:
                raise asyncio.CancelledError
            if turn.error is None:
                return turn
            delay = retry_delay_s(self.task.retry, attempt, turn.error, self.host.chance())
            if delay is None or not turn.went_quiet:
                self.host.failed(turn.error, will_retry=delay is not None)
            if delay is None:
                return turn
            await self.host.pause(delay)

    async def _record(
        self, turn: Turn, request: ChatRequest, attempt: int, role: str | None, *, aborted: str | None
    ) -> None:
        record: dict[str, Any] = {
            "ordinal": len(self.state.provider_calls) + 1,
            "role": role or self.task.role,
            "servedBy": self.task.choice.reference,
            "attempt": attempt,
            "outcome": "aborted" if aborted else "ok" if turn.error is None else "error",
            "usage": turn.usage.to_wire(),
        }
        if turn.response_id is not None:
            record["responseId"] = turn.response_id
        if not turn.usage_is_exact:
            record["usageApprox"] = True
            self.state.usage_approx = True
        if aborted:
            record["aborted"] = aborted
        elif turn.error is not None:
            record["errorCode"] = turn.error.code
        self.state.provider_calls.append(record)
        self.state.usage = add_usage(self.state.usage, turn.usage)
        await self.host.exchanged(record, request, turn)

    def _request(self) -> ChatRequest:
        task, choice = self.task, self.task.choice
        bound, least = task.limits.max_output_tokens_per_turn, self._caps.min_output_tokens_per_turn
        if bound is not None and least is not None and bound < least:
            raise ConfigError(
                f"limits.max_output_tokens_per_turn={bound}: {choice.reference} takes {least} or more",
                data={"field": "limits.max_output_tokens_per_turn", "value": bound},
            )
        tools, tool_choice, schema = self._asks()
        effort: Any = choice.effort if choice.effort in self._caps.reasoning_efforts else None
        return ChatRequest(
            model=choice.model,
            messages=self._history(),
            tools=tools or None,
            tool_choice=tool_choice,
            schema=schema,
            effort=effort,
            max_output_tokens=_smaller(
                bound,
                self.host.output_bound(self._caps, self.state.messages),
            ),
            cache_hint=cache_hint(self._caps, self.state.messages),
            provider_options=self._provider_options(),
        )

    def _history(self) -> tuple[Msg, ...]:
        return project_history(self.state.messages, provider_family(self.task.adapter))

    def _provider_options(self) -> dict[str, Any]:
        telemetry: dict[str, Any] = {"agentType": self.task.agent_type}
        if self.task.label is not None:
            telemetry["label"] = self.task.label
        return {**sent_options(self.task.choice, self._caps), "rulvar": telemetry}

    def _asks(self) -> tuple[tuple[ToolContract, ...], ToolChoice | None, Any]:
        """Return tools, tool choice and schema of the next request."""
        tools, schema = self.task.tools, self.task.schema
        if schema is None or self._tier == "prompt":
            return tools, None, None
        if self._tier == "native":
            return tools, None, schema.canonical
        if not self._is_forced():
            return tools, None, None  # the model works with its tools first; a fitting text ends the call
        forced = structured.result_tool(schema)
        return (*tools, forced), ToolChoice(name=forced.name), None

    def _is_forced(self) -> bool:
        """Whether the model must answer by the tool that delivers the result."""
        return self._tier == "forced-tool" and not (self.task.tools and self.state.schema_attempts == 0)

    def _ask_for_json(self, schema: SchemaContract) -> None:
        last = self.state.messages.pop()
        text = "".join(getattr(part, "text", "") for part in last.parts)
        asked = TextPart(text=f"{text}\n\n{structured.schema_instruction(schema)}")
        self.state.messages.append(Msg(role="user", parts=(asked, *self.task.media)))

    def _failed(self, turn: Turn) -> LoopEnd:
        assert turn.error is not None
        fatal = (
            turn.failure if isinstance(turn.failure, (VcrMissError, ConfigError, ReplayDriftError)) else None
        )
        error = turn.error if self.task.is_conducted else exchange_error(turn.error)
        return LoopEnd(status="error", error=error, fatal=fatal)


def _first_messages(task: AgentTask) -> list[Msg]:
    messages = [Msg.text("system", task.system)] if task.system else []
    messages.append(Msg(role="user", parts=(TextPart(text=task.prompt), *task.media)))
    return messages


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)
