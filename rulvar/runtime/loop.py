"""One agent call: model turns and tool calls until there is an answer, an error or a limit.

The loop decides; its host acts. The host journals what happened, runs tools through the gate and
tells the world. Everything the loop knows fits into a checkpoint, so that a resumed call goes on at
its last turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rulvar.contracts.capabilities import ModelCaps
from rulvar.contracts.messages import ChatRequest, Msg, ToolCallPart, ToolChoice, ToolContract, ToolResultPart
from rulvar.contracts.ports.provider import Adapter, Served
from rulvar.contracts.schema import SchemaContract, SchemaIssue
from rulvar.contracts.stream import WireError
from rulvar.contracts.usage import add_usage
from rulvar.errors import BudgetExhaustedError, ConfigError, VcrMissError
from rulvar.runtime import structured
from rulvar.runtime.checkpoint import LoopState
from rulvar.runtime.limits import UsageLimits
from rulvar.runtime.retry import RetryPolicy, retry_delay_s
from rulvar.runtime.router import ModelChoice
from rulvar.runtime.turn import Turn, take_turn
from rulvar.tools.invoke import ToolOutcome

__all__ = ["AgentLoop", "AgentTask", "LoopEnd", "LoopHost", "LoopState"]

MAX_SCHEMA_ATTEMPTS = 2
"""How often an answer that does not fit its schema is asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnd:
    """How a loop ended. ``fatal`` is an error that no workflow may catch, ``denied`` the budget's refusal."""

    status: Literal["ok", "error", "limit"]
    output: Any = None
    error: WireError | None = None
    fatal: BaseException | None = None
    denied: BudgetExhaustedError | None = None


class LoopHost(Protocol):
    """Acts for the loop."""

    async def exchanged(self, record: dict[str, Any], request: ChatRequest, turn: Turn) -> None:
        """One exchange is over: journal it and tell observers."""

    async def checkpoint(self, state: LoopState) -> None:
        """A turn boundary is reached: keep the state."""

    async def run_tool(self, call: ToolCallPart, state: LoopState) -> ToolOutcome:
        """Run one tool call through the gate; a call that waits for approval keeps the state first."""

    def failed(self, error: WireError, *, will_retry: bool) -> None:
        """One exchange failed."""

    def schema_retry(self, attempt: int) -> None:
        """An answer did not fit and is asked for again."""

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt."""

    def chance(self) -> float:
        """Return a number in [0, 1) for jitter."""

    def on_event(self) -> Any:
        """Return a callback for stream events, or None."""

    def output_bound(self, caps: ModelCaps, messages: Sequence[Msg]) -> int | None:
        """Return how many output tokens the next turn may cost; None is no bound.

        Raises:
            BudgetExhaustedError: no useful turn can be paid.
        """

    def slot(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold one of the exchanges that may be under way at once."""


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
        if pending := self._unanswered_calls():
            await self._answer(pending)
        while True:
            if self.state.turns >= self.task.limits.max_turns:
                return LoopEnd(status="limit", error=_limit("max_turns", self.task.limits.max_turns))
            try:
                turn = await self._exchange()
            except BudgetExhaustedError as error:
                return LoopEnd(status="error", error=_unpaid(error), denied=error)
            self.state.turns += 1
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
        calls = [call for call in turn.tool_calls if call.name != structured.RESULT_TOOL]
        if calls:
            limit = self.task.limits.max_tool_calls
            if limit is not None and self.state.tool_calls_used + len(calls) > limit:
                return LoopEnd(status="limit", error=_limit("max_tool_calls", limit))
            await self._answer(calls)
            return None
        if (cut := _cut_short(turn)) is not None:
            return cut
        if self.task.schema is None:
            return LoopEnd(status="ok", output=turn.text)
        return await self._read_answer(turn, self.task.schema)

    async def _read_answer(self, turn: Turn, schema: SchemaContract) -> LoopEnd | None:
        assert self._tier is not None
        found = structured.extract_candidate(turn.text, turn.tool_calls, self._tier)
        issues = (
            [SchemaIssue("no JSON value in the answer", ())] if found is None else schema.issues(found.raw)
        )
        if found is not None and not issues:
            return LoopEnd(status="ok", output=found.raw)
        self.state.schema_attempts += 1
        if self.state.schema_attempts > MAX_SCHEMA_ATTEMPTS:
            return LoopEnd(status="error", error=_mismatch(issues))
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

    async def _answer(self, calls: Sequence[ToolCallPart]) -> None:
        messages = self.state.messages
        for call in calls:
            outcome = await self.host.run_tool(call, self.state)
            self.state.tool_calls_used += 1
            part = ToolResultPart(
                id=call.id, name=call.name, result=outcome.result, is_error=True if outcome.is_error else None
            )
            if messages[-1].role == "tool":  # the results of one turn make one message
                messages[-1] = Msg(role="tool", parts=(*messages[-1].parts, part))
            else:
                messages.append(Msg(role="tool", parts=(part,)))
        await self.host.checkpoint(self.state)

    def _unanswered_calls(self) -> list[ToolCallPart]:
        """Return the tool calls of a resumed state's last turn that have no result yet."""
        messages = self.state.messages
        answered: set[str] = set()
        if messages[-1].role == "tool":
            answered = {part.id for part in messages[-1].parts if isinstance(part, ToolResultPart)}
        turn = messages[-2] if answered and len(messages) > 1 else messages[-1]
        if turn.role != "assistant":
            return []
        calls = [part for part in turn.parts if isinstance(part, ToolCallPart)]
        return [call for call in calls if call.id not in answered and call.name != structured.RESULT_TOOL]

    async def _exchange(self) -> Turn:
        """Send one turn, again while its error is retryable."""
        request = self._request()
        attempt = 0
        while True:
            attempt += 1
            turn = Turn(served=Served(how="live"))
            try:
                async with self.host.slot():
                    await take_turn(self.task.adapter, request, self.abort, turn, self.host.on_event())
            except asyncio.CancelledError:
                await self._record(turn, request, attempt, aborted=True)
                raise
            aborted = self.abort.is_set() and turn.finish is None and turn.error is None
            await self._record(turn, request, attempt, aborted=aborted)
            if aborted:
                raise asyncio.CancelledError
            if turn.error is None:
                return turn
            delay = None
            if turn.failure is None:
                delay = retry_delay_s(self.task.retry, attempt, turn.error, self.host.chance())
            self.host.failed(turn.error, will_retry=delay is not None)
            if delay is None:
                return turn
            await self.host.pause(delay)

    async def _record(self, turn: Turn, request: ChatRequest, attempt: int, *, aborted: bool) -> None:
        record: dict[str, Any] = {
            "ordinal": len(self.state.provider_calls) + 1,
            "role": self.task.role,
            "servedBy": self.task.choice.reference,
            "attempt": attempt,
            "outcome": "aborted" if aborted else "ok" if turn.error is None else "error",
            "usage": turn.usage.to_wire(),
        }
        if not turn.usage_is_exact:
            record["usageApprox"] = True
            self.state.usage_approx = True
        if turn.error is not None:
            record["errorCode"] = turn.error.code
        if aborted:
            record["aborted"] = "external"
        self.state.provider_calls.append(record)
        self.state.usage = add_usage(self.state.usage, turn.usage)
        await self.host.exchanged(record, request, turn)

    def _request(self) -> ChatRequest:
        task, choice = self.task, self.task.choice
        telemetry: dict[str, Any] = {"agentType": task.agent_type}
        if task.label is not None:
            telemetry["label"] = task.label
        tools, tool_choice, schema = self._asks()
        effort: Any = choice.effort if choice.effort in self._caps.reasoning_efforts else None
        return ChatRequest(
            model=choice.model,
            messages=tuple(self.state.messages),
            tools=tools or None,
            tool_choice=tool_choice,
            schema=schema,
            effort=effort,
            max_output_tokens=_smaller(
                task.limits.max_output_tokens_per_turn,
                self.host.output_bound(self._caps, self.state.messages),
            ),
            cache_hint=_cache_hint(self._caps, len(self.state.messages)),
            provider_options={**choice.provider_options, "rulvar": telemetry},
        )

    def _asks(self) -> tuple[tuple[ToolContract, ...], ToolChoice | None, Any]:
        """Return tools, tool choice and schema of the next request."""
        tools, schema = self.task.tools, self.task.schema
        if schema is None or self._tier == "prompt":
            return tools, None, None
        if self._tier == "native":
            return tools, None, schema.canonical
        if tools and self.state.schema_attempts == 0:
            return tools, None, None  # the model works with its tools first; a fitting text ends the call
        forced = structured.result_tool(schema)
        return (*tools, forced), ToolChoice(name=forced.name), None

    def _ask_for_json(self, schema: SchemaContract) -> None:
        last = self.state.messages.pop()
        text = "".join(getattr(part, "text", "") for part in last.parts)
        self.state.messages.append(Msg.text("user", f"{text}\n\n{structured.schema_instruction(schema)}"))

    def _failed(self, turn: Turn) -> LoopEnd:
        fatal = turn.failure if isinstance(turn.failure, (VcrMissError, ConfigError)) else None
        return LoopEnd(status="error", error=turn.error, fatal=fatal)


def _first_messages(task: AgentTask) -> list[Msg]:
    messages = [Msg.text("system", task.system)] if task.system else []
    messages.append(Msg.text("user", task.prompt))
    return messages


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _cache_hint(caps: ModelCaps, messages: int) -> Any:
    if caps.prompt_caching != "explicit":
        return None
    places: list[Any] = ["tools", "system", {"messageIndex": messages - 1}]
    return {"breakpoints": [{"after": place, "ttl": "5m"} for place in places]}


def _limit(name: str, bound: float) -> WireError:
    return WireError(
        code="agent",
        message=f"the agent reached its limit {name}={bound}",
        retryable=False,
        data={"kind": "terminal"},
    )


def _cut_short(turn: Turn) -> LoopEnd | None:
    """Return the end of a call whose answer is not whole: it must not pass for one that is."""
    reason = turn.finish.finish.reason if turn.finish is not None else "stop"
    if reason == "refusal":
        return LoopEnd(status="error", error=_refused(turn))
    if reason == "context-window-exceeded":
        error = WireError(
            code="agent",
            message="the conversation no longer fits the model's context window",
            retryable=False,
            data={"kind": "terminal", "reason": reason},
        )
        return LoopEnd(status="error", error=error)
    if reason == "max-tokens":
        return LoopEnd(status="limit", error=_limit("max_output_tokens", turn.usage.output_tokens))
    return None


def _unpaid(error: BudgetExhaustedError) -> WireError:
    return WireError(code="agent", message=error.message, retryable=False, data={"kind": "budget"})


def _refused(turn: Turn) -> WireError:
    refusal = turn.finish.finish.refusal if turn.finish is not None else None
    data: dict[str, Any] = {"kind": "terminal", "reason": "refusal"}
    if refusal is not None:
        data["refusal"] = refusal.to_wire()
    return WireError(code="agent", message="the model refused to answer", retryable=False, data=data)


def _mismatch(issues: list[SchemaIssue]) -> WireError:
    wire = [issue.to_wire() for issue in issues]
    text = "; ".join(issue.message for issue in issues[:3])
    return WireError(
        code="agent",
        message=f"the answer does not fit the schema: {text}",
        retryable=False,
        data={"kind": "schema-mismatch", "issues": wire},
    )
